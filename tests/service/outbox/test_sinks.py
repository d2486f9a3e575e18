"""What the operator's file may say, and which addresses are connected to."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from builders.receiver import Receiver, receiving
from builders.service_program import outcome, run

from service.outbox import addresses
from service.outbox import post as sending
from service.outbox.addresses import AddressRefused, is_public, resolve
from service.outbox.post import Message, NotDelivered, post
from service.outbox.sinks import SinksWrong, load
from service.outbox.sinks.forge import Place
from service.outbox.sinks.github import GitHub

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
GOOD = f"""
address = "https://perf.example.com"

[[sink]]
name = "ci"
kind = "webhook"
url = "https://ci.example.com/hooks/1"
secret = "{SECRET}"
events = ["finding.opened", "finding.recovered"]
project = "main"
least = 0.03

[[sink]]
name = "chat"
kind = "slack"
url = "env:CHAT_HOOK"
"""
MESSAGE = Message({"Content-Type": "application/json"}, b"{}")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHAT_HOOK", "https://chat.example.com/services/T0/B0")
    return tmp_path / "outbox.toml"


def test_a_file_names_sinks_and_secrets_may_be_kept_elsewhere(path: Path) -> None:
    (path.parent / "key").write_text(f"{SECRET}\n")
    path.write_text(GOOD.replace(f'"{SECRET}"', f'"file:{path.parent}/key"'))
    ci, chat = load(path).sink
    assert (len(ci.key), ci.least, len(ci.events)) == (24, 0.03, 2)
    assert chat.address.host == "chat.example.com"
    assert chat.kind == "slack"
    assert len(chat.events) == 14
    assert "T0" not in repr(chat)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("https://ci", "http://ci", "must begin with https://"),
        ("https://ci", "ftp://ci", "must be https://HOST/"),
        ("https://ci", "https://me:pw@ci", "without a user"),
        ("whsec_", "", "must be whsec_ and 24 to 64 bytes"),
        ("whsec_MfKQ9r8G", "whsec_", "must be whsec_ and 24 to 64 bytes"),
        ('secret = "', '# "', "a webhook needs a secret"),
        ("env:CHAT_HOOK", "env:NO_SUCH", "the variable NO_SUCH, which is not set"),
        ("env:CHAT_HOOK", "file:/no/such", "the file /no/such, which cannot be read"),
        ("finding.opened", "finding.exploded", "sink 1 events"),
        ('"chat"', '"ci"', "two sinks have the same name"),
        ("least = 0.03", "least = 3", "less than 1"),
        ("least =", "at_least =", "at_least"),
        ("[[sink]]", "[[sink]", "is not TOML"),
        ("https://perf.example.com", "perf.example.com", "toml: address: must begin with https://"),
        ("perf.example.com", "perf.example.com/", "toml: address: must begin with https:// or "),
        ("least = 0.03", 'quiet = "at night"', "toml: sink 1 quiet: must be as 22:00-07:00."),
        ('"chat"', '"Team chat"', "toml: sink 2 name: must be 1 to 64 of the characters a-z, 0-9"),
        ("env:CHAT_HOOK", "env:NO_SUCH", "toml: sink 2 url: names the variable NO_SUCH, which"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence_without_its_secrets(
    path: Path, old: str, new: str, said: str
) -> None:
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SinksWrong) as caught:
        load(path)
    assert said in str(caught.value)
    assert "MfKQ9r8G" not in str(caught.value)
    assert "hooks/1" not in str(caught.value)


FORGES = """
address = "https://perf.example.com"

[[sink]]
name = "hub"
kind = "github"
token = "ghp_secret"
repositories = ["acme/vision", ".github"]

[[sink]]
name = "lab"
kind = "gitlab"
api = "https://gitlab.example.com/api/v4"
token = "glpat_secret"
repositories = ["acme/ml/vision"]

[[sink]]
name = "review"
kind = "gerrit"
api = "https://review.example.com"
user = "throughline"
password = "http_secret"
repositories = ["vision"]
"""


def test_forges_name_the_repositories_that_may_be_written_to(path: Path) -> None:
    path.write_text(FORGES)
    hub, lab, review = load(path).sink
    assert hub.kind == "github"
    assert hub.api == "https://api.github.com"
    assert lab.kind == "gitlab"
    assert review.kind == "gerrit"
    assert review.label == "Verified"
    assert not any(kept in repr((hub, lab, review)) for kept in ("ghp_", "glpat_", "http_"))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('token = "ghp_secret"', "", "github needs either a token, or app and private_key"),
        ('token = "ghp_secret"', "app = 1", "github needs either a token, or app and private_key"),
        ('"ghp_secret"', '"ghp_secret"\napp = 1', "github needs either a token, or app"),
        ('"acme/vision"', '"../vision"', "sink 1 repositories 1"),
        ('"acme/vision", ".github"', "", "sink 1 repositories"),
        ('"https://gitlab', '"http://gitlab', "api must begin with https://"),
        (
            '"https://review',
            '"https://me:pw@review',
            "api must be https://HOST/..., without a user",
        ),
        ('kind = "gitlab"', 'kind = "github"', "sink 2"),
        ('["vision"]', "[]", "sink 3 repositories"),
        ('"throughline"', '"throughline"\nlabel = "a b"', "sink 3 label"),
        ('password = "http_secret"', "", "sink 3 password"),
        ('["vision"]', '["vision"]\ndigest = "07:30"', "leave digest and quiet out"),
    ],
)
def test_a_wrong_forge_is_refused_without_its_secrets(
    path: Path, old: str, new: str, said: str
) -> None:
    assert old in FORGES
    path.write_text(FORGES.replace(old, new, 1))
    if new == 'kind = "github"':
        path.write_text(path.read_text().replace("acme/ml/vision", "acme/vision"))
        said = "two sinks write to the same repository"
    with pytest.raises(SinksWrong) as caught:
        load(path)
    assert said in str(caught.value)
    assert "_secret" not in str(caught.value)


def test_a_service_with_a_wrong_file_does_not_start(tmp_path: Path, sqlite_url: str) -> None:
    path = tmp_path / "missing.toml"
    code, said = outcome(run(DATABASE_URL=sqlite_url, OUTBOX=str(path)))
    assert (code, said) == (2, f"{path} cannot be read: No such file or directory.\n")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "224.0.0.1", "239.1.1.1", "255.255.255.255"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::"),
    ],
)
def test_addresses_inside_a_network_are_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "2130706433", "0x7f.1", "127.1"],
)
def test_a_private_address_is_refused_however_it_is_written(receiver: Receiver, host: str) -> None:
    url = httpx2.URL(receiver.url(host))
    with pytest.raises(NotDelivered, match="private = true is not set"):
        post(url, MESSAGE, private=False)
    assert receiver.received == []


def _names(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let a resolver give these addresses, one list a question; gives the questions."""
    asked: list[str] = []
    given = iter(answers)

    def getaddrinfo(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in next(given)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def test_a_name_of_which_one_address_is_private_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _names(monkeypatch, ["1.1.1.1", "169.254.169.254"], ["1.1.1.1", "1.0.0.1"])
    with pytest.raises(AddressRefused):
        asyncio.run(resolve("hook.example.com", 443, private=False))
    found = asyncio.run(resolve("hook.example.com", 443, private=False))
    assert found == ["1.1.1.1", "1.0.0.1"]


def test_the_address_that_was_checked_is_the_one_connected_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves otherwise a moment later (DNS rebinding) is not asked again."""
    asked = _names(monkeypatch, ["127.0.0.2", "127.0.0.1"], ["1.1.1.1"])
    monkeypatch.setattr(addresses, "is_public", lambda one: one.startswith("127.0.0."))
    post(httpx2.URL(receiver.url("hook.example.com")), MESSAGE, private=False)
    [one] = receiver.received
    assert one.headers["host"] == f"hook.example.com:{receiver.port}"
    assert [name for name in asked if name == "hook.example.com"] == ["hook.example.com"]


def test_a_proxy_of_the_environment_is_not_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    post(httpx2.URL(receiver.url()), MESSAGE, private=True)
    assert len(receiver.received) == 1


def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(NotDelivered, match="name is not known"):
        post(httpx2.URL("https://no-such-host.invalid/x"), MESSAGE, private=True)


def test_no_log_line_holds_the_address_of_a_hook(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        post(httpx2.URL(receiver.url()), MESSAGE, private=True)
    assert "hook" not in caplog.text


@pytest.mark.parametrize(("host", "taken"), [("hook.example.com", True), ("other.example", False)])
def test_a_certificate_has_to_name_the_host_and_not_its_address(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, taken: bool
) -> None:
    files = ("-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "cert"))
    made = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    named = ("-subj", "/CN=hook", "-addext", "subjectAltName=DNS:hook.example.com")
    subprocess.run(["openssl", "req", *made, *files, *named], check=True, capture_output=True)
    receiver.use_tls(tmp_path / "cert", tmp_path / "key")
    trusted = ssl.create_default_context(cafile=str(tmp_path / "cert"))
    monkeypatch.setattr(sending, "_tls", lambda: trusted)
    _names(monkeypatch, ["127.0.0.1"])
    url = httpx2.URL(receiver.url(host).replace("http:", "https:"))
    with nullcontext() if taken else pytest.raises(NotDelivered, match="ConnectError"):
        post(url, MESSAGE, private=True)
    assert len(receiver.received) == taken


def test_a_forge_takes_no_notice_of_case_in_a_repositorys_name() -> None:
    api, token = "https://ghe.example.com/api/v3", "t"
    words = {"name": "hub", "kind": "github", "api": api, "token": token}
    sink = GitHub.model_validate({**words, "repositories": ["Acme/Vision"]})
    assert sink.place("github:acme/vision#12") == Place("Acme/Vision", 12)
    assert sink.place("github:acme/other#12") is None
    assert sink.place("gitlab:acme/vision#12") is None
