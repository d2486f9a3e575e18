"""A worker lists the releases between two versions: what its index has for its Python."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from benchmarks.contracts import ListedRange
from tests.worker.targets.test_ranges import told_between
from worker.targets import builds as made
from worker.targets import package_index
from worker.targets.builds import Builds
from worker.targets.definitions import Upstream

HERE = next(str(tag) for tag in sys_tags() if tag.abi != "none")
ELSEWHERE = "cp311-cp311-win_amd64"
JSON = "application/vnd.pypi.simple.v1+json"
Answer = tuple[int, dict[str, str], bytes]


def wheel(version: str, tags: str = HERE, package: str = "torch") -> str:
    return f"{package}-{version}-{tags}.whl"


NAMES = {
    wheel("2.9.0"): False,
    wheel("2.10.0"): False,
    wheel("2.13.0"): False,
    wheel("2.12.1+cu130"): False,
    wheel("2.12.0"): False,
    wheel("2.12.0", ELSEWHERE): False,
    wheel("2.11.0", ELSEWHERE): False,
    wheel("2.11.1", "py3-none-any"): False,
    wheel("2.12.2"): "it does not start",
    wheel("2.13.0rc1"): False,
    wheel("2.12.3", package="torchvision"): False,
    "torch-2.12.4.tar.gz": False,
    "torch-nonsense.whl": False,
}
BETWEEN = ["2.11.1", "2.12.0", "2.12.1", "2.13.0"]


def as_json() -> Answer:
    files = [{"filename": name, "url": name, "yanked": why} for name, why in NAMES.items()]
    return 200, {"Content-Type": JSON}, json.dumps({"files": files}).encode()


def as_html() -> Answer:
    links = (
        f'<a href="../x/{name.replace("+", "%2B")}#sha256=0"'
        f"{f' data-yanked={json.dumps(why)}' if why else ''}>{name}</a><br>"
        for name, why in NAMES.items()
    )
    return 200, {"Content-Type": "text/html"}, f"<html>{''.join(links)}</html>".encode()


class Index:
    """An index on loopback that gives one answer for each path."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, headers, body = outer.answers.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index that uv's own settings name: a file of targets takes no plain HTTP."""
    one = Index()
    thread = threading.Thread(target=one.server.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"ours={one.url}")
    yield one
    one.server.shutdown()
    thread.join()
    one.server.server_close()


@pytest.fixture
def builds(tmp_path: Path) -> Callable[..., Builds]:
    def make(**more: str) -> Builds:
        allowed = Upstream(packages=("torch", "triton"), **more)  # type: ignore[arg-type]
        return Builds(tmp_path / "builds", {}, sys.executable, float(2**40), allowed)

    return make


def names(listed: ListedRange) -> list[str]:
    assert listed.reason == ""
    assert {(one.author, one.title) for one in listed.commits} == {("", "")}
    return [one.commit.removeprefix("torch==") for one in listed.commits]


@pytest.mark.parametrize("page", [as_json, as_html])
def test_the_releases_that_fit_here_are_listed_by_version(
    builds: Callable[..., Builds], index: Index, page: Callable[[], Answer]
):
    index.answers["/simple/torch/"] = page()
    assert names(told_between(builds(), "torch==2.10.0", "torch==2.13.0")) == BETWEEN
    assert index.asked == ["/simple/torch/"]


@pytest.mark.parametrize("page", ["a folder", "an address of files"])
def test_a_folder_of_wheels_is_an_index(builds: Callable[..., Builds], tmp_path: Path, page: str):
    folder = tmp_path / "wheels"
    folder.mkdir()
    place = str(folder)
    if page == "a folder":
        for name, yanked in NAMES.items():
            if not yanked:  # a folder says nothing of that
                (folder / name).touch()
    else:
        (folder / "torch").mkdir()
        (folder / "torch" / "index.html").write_bytes(as_html()[2])
        place = folder.as_uri()
    assert names(told_between(builds(index=place), "torch==2.10.0", "torch==2.13.0")) == BETWEEN


@pytest.mark.parametrize(
    ("good", "bad", "inside"),
    [
        ("2.12.1", "2.13.0", ["2.13.0"]),
        ("2.12.0", "2.13.0rc1", ["2.12.1", "2.13.0rc1"]),
        ("2.12.1", "2.12.2", ["2.12.2"]),
        ("2.13.0rc1", "2.13.0", ["2.13.0"]),
    ],
)
def test_an_end_may_be_early_or_yanked(
    builds: Callable[..., Builds], index: Index, good: str, bad: str, inside: list[str]
):
    index.answers["/simple/torch/"] = as_json()
    assert names(told_between(builds(), f"torch=={good}", f"torch=={bad}")) == inside


@pytest.mark.parametrize(
    ("good", "bad", "inside"),
    [
        ("2.10.0", "2.12.0", ["2.11.0", "2.12.0"]),
        ("2.10.0+cpu", "2.12.0+cu130", ["2.11.0", "2.12.0+cu130"]),
        ("2.10.0+cpu", "2.12.0+cpu", ["2.11.0+cpu", "2.12.0+cpu"]),
        ("2.10.0+cu130", "2.12.0+cu130", ["2.12.0+cu130"]),
    ],
)
def test_builds_of_one_version_are_one_unless_both_ends_name_the_same(
    builds: Callable[..., Builds], tmp_path: Path, good: str, bad: str, inside: list[str]
):
    own = ["2.10.0+cpu", "2.11.0+cpu", "2.12.0+cpu", "2.10.0+cu130", "2.12.0+cu130"]
    for version in (*own, "2.11.0+xpu"):
        (tmp_path / wheel(version)).touch()
    listed = told_between(builds(index=str(tmp_path)), f"torch=={good}", f"torch=={bad}")
    assert names(listed) == inside


def test_what_else_a_revision_names_stays(builds: Callable[..., Builds], index: Index):
    index.answers["/simple/torch/"] = as_json()
    ends = "torch==2.11.1,triton==3.6.0", "torch==2.12.1,triton==3.6.0"
    listed = told_between(builds(), *ends)
    assert [one.commit for one in listed.commits] == ["torch==2.12.0,triton==3.6.0", ends[1]]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((404, {}, b""), "The index answers with 404."),
        ((200, {"Content-Type": JSON}, b'{"files": 1}'), "The index's page of torch is none"),
        ((200, {"Content-Type": JSON}, b"x" * 2_001), "its answer has more than"),
        ((200, {"Content-Encoding": "gzip"}, b"x"), "its answer is packed"),
        ((302, {"Location": "http://localhost/simple/torch/"}, b""), "leads to another host"),
        ((302, {"Location": "/simple/torch/"}, b""), "leads from one address to the next"),
        ((200, {"Content-Type": "text/html"}, b"<a href='torch'>"), "The index has no 2.10.0 for"),
    ],
)
def test_an_index_without_such_a_page_says_why(
    builds: Callable[..., Builds],
    index: Index,
    monkeypatch: pytest.MonkeyPatch,
    answer: Answer,
    says: str,
):
    monkeypatch.setattr(package_index, "LARGEST_PAGE_B", 2_000)
    index.answers["/simple/torch/"] = answer
    listed = told_between(builds(), "torch==2.10.0", "torch==2.13.0")
    assert listed.commits == ()
    assert says in listed.reason


def test_a_redirect_on_the_same_host_is_followed(builds: Callable[..., Builds], index: Index):
    index.answers["/simple/torch/"] = (301, {"Location": "/other/torch/"}, b"")
    index.answers["/other/torch/"] = as_html()
    assert names(told_between(builds(), "torch==2.10.0", "torch==2.13.0")) == BETWEEN


def test_an_index_that_is_away_says_so_without_its_password(
    builds: Callable[..., Builds], index: Index
):
    index.server.server_close()
    away = index.url.replace("http://", "https://user:s3cret@")
    listed = told_between(builds(index=away), "torch==2.10.0", "torch==2.13.0")
    assert "The index has no page of torch to read" in listed.reason
    assert listed.passing
    assert "s3cret" not in listed.reason


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        ("torch==2.13.0", "torch==2.10.0", "2.13.0 is no earlier version than 2.10.0."),
        ("torch==2.10", "torch==2.13.0", "The index has no 2.10 for this Python"),
        ("torch==2.10.0", "torch==2.11.0", "The index has no 2.11.0 for this Python"),
        ("numpy==1.0", "numpy==2.0", "This worker makes no versions of numpy: its operator"),
        ("torch==2.9.0", "torch==2.13.0", "The range has 5 releases, and 4 can be listed."),
    ],
)
def test_releases_that_cannot_be_listed_say_why(
    builds: Callable[..., Builds],
    index: Index,
    monkeypatch: pytest.MonkeyPatch,
    good: str,
    bad: str,
    says: str,
):
    monkeypatch.setattr(made, "MOST_COMMITS", 4)
    index.answers["/simple/torch/"] = as_json()
    if "5 releases" in says:
        index.answers["/simple/torch/"] = page_of("2.9.0", *BETWEEN, "2.10.0")
    listed = told_between(builds(), good, bad)
    assert listed.commits == ()
    assert says in listed.reason
    assert listed.passing is says.startswith("This worker")


def page_of(*versions: str) -> Answer:
    files = [{"filename": wheel(version)} for version in versions]
    return 200, {"Content-Type": JSON}, json.dumps({"files": files}).encode()


def test_the_tags_are_those_of_the_python_that_environments_have(tmp_path: Path):
    tags = package_index.tags_of(sys.executable, tmp_path / "log")
    assert tags == frozenset(sys_tags())
