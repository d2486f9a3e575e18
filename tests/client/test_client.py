"""The Python client against a real service on a real socket, with a worker that measures."""

from __future__ import annotations

import builtins
import doctest
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from builders import long_series as long
from builders.served import Served, serving
from builders.service_hand import Hand

from benchmarks.contracts import JobState
from service.models import FindingState
from service.schemas.findings import FindingKind
from throughline import client as module
from throughline.client import Client, ThroughlineError


@pytest.fixture
def served(sqlite_url: str) -> Iterator[Served]:
    with serving(sqlite_url) as one:
        yield one


@pytest.fixture
def url(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


@pytest.fixture
def worker(url: str) -> Iterator[Hand]:
    with httpx2.Client(base_url=url) as http:
        hand = Hand(http)  # type: ignore[arg-type]
        hand.introduce(device="cpu")
        yield hand


def measured(client: Client, worker: Hand, revision: str, value: float) -> None:
    """Have a case measured while a worker works in another thread."""
    values = (value * 0.99, value, value * 1.01)
    job = threading.Thread(target=lambda: worker.measure(values))
    submitted = client.submit({"case": {"workload": "resnet50"}, "revision": revision})
    job.start()
    assert client.submission(submitted.id, wait_s=20).finished
    job.join()


def test_its_example_runs(url: str, worker: Hand) -> None:
    with Client(url) as client:
        for revision, value in (("r1", 100.0), ("r2", 104.0)):
            measured(client, worker, revision, value)
    finder = doctest.DocTestFinder(recurse=False)
    [example] = finder.find(module, "client", globs={"Client": Client, "url": url})
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example, out=said.append).failed == 0, "".join(said)
    assert len(example.examples) == 2


def test_a_case_is_measured_and_waited_for(url: str, worker: Hand) -> None:
    with Client(url) as client:
        job = threading.Timer(0.3, worker.measure)
        job.start()
        done = client.measure("resnet50", "precision=bf16", revision="r1", tier="quick")
        job.join()
        assert done.finished
        [one] = done.jobs
        assert one.state is JobState.SUCCEEDED
        assert one.case.axes == {"precision": "bf16"}
        with pytest.raises(ThroughlineError, match=r"not finished after 0.1 s"):
            client.measure("resnet50", revision="r2", timeout_s=0.1)
        with pytest.raises(ThroughlineError, match="There is no suite or workload 'resnet51'"):
            client.measure("resnet51", revision="r1")


def test_all_pages_are_read(url: str, worker: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(url) as client:
        for number in range(3):
            measured(client, worker, f"r{number}", 100.0 + number)
        [series] = client.series(metric="throughput", workload="resnet50")
        asked: list[int] = []
        text = Client.text

        def two_a_page(self: Client, *path: str, **given: Any) -> str:
            asked.append(given["limit"])
            return text(self, *path, **given | {"limit": 2})

        monkeypatch.setattr(Client, "text", two_a_page)
        points = client.points(series.id)
        assert [point.revision for point in points] == ["r0", "r1", "r2"]
        assert len(asked) == 2
        with pytest.raises(ThroughlineError, match=r"query\.metric: must be"):
            client.series(metric="two\nlines")


def test_tables_have_a_column_for_each_field(url: str, worker: Hand) -> None:
    with Client(url) as client:
        measured(client, worker, "r1", 100.0)
        [series] = client.series()
        table = client.series().to_pandas()
        assert table.loc[0, "case.workload"] == "resnet50"
        assert table.loc[0, "comparability.hw.cpu.model"] == "Test CPU"
        points = client.points(series.id).to_pandas()
    assert points["value"].dtype == "float64"
    assert str(points["measured_at"].dtype.tz) == "UTC"
    assert not points["excluded"].any()


def test_findings_are_filtered_and_read_whole(served: Served, url: str) -> None:
    with served.app.state.database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(long.noisy(long.STEADY + long.DROPPED))))
        [opened] = long.look(session)
    with Client(url) as client:
        [one] = client.findings(active=True, kind="regression", series=long.SERIES)
        assert (one.id, one.state, one.kind) == (opened, FindingState.OPEN, FindingKind.REGRESSION)
        assert client.findings(active=False) == ()
        assert client.finding(opened).series[0].series.id == long.SERIES
        assert client.findings().to_pandas().loc[0, "headline"] == one.headline


def test_a_gate_is_read_as_it_stands(url: str, worker: Hand) -> None:
    worker.introduce(revisions=["a", "b"], device="cpu")
    request = {"baseline": "a", "contender": "b", "case": {"workload": "resnet50"}}
    with Client(url) as client:
        made = httpx2.post(f"{url}/api/v1/comparisons", json=request)
        gate = client.gate(made.json()["id"])
        assert (gate.state, gate.decision) == ("running", None)
        with pytest.raises(ThroughlineError, match="There is no such comparison"):
            client.gate("0" * 32)


def test_without_pandas_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ThroughlineError, match=r"pip install 'throughline\[pandas\]'"):
        module.Rows([1]).to_pandas()


def test_a_token_is_sent(sqlite_url: str, tmp_path: Any) -> None:
    with serving(sqlite_url, state_dir=tmp_path, access="tokens") as served:
        url = f"http://127.0.0.1:{served.port}"
        with Client(url, served.token("read")) as client:
            assert client.series() == ()
        with Client(url, "") as client, pytest.raises(ThroughlineError, match="asks for a token"):
            client.series()
