"""A bucket keeps traces as a folder does; its key stays with the service.

The bucket is a small one of our own, or a real server's: THROUGHLINE_TEST_S3=http://127.0.0.1:5000
"""

from __future__ import annotations

import builtins
import hashlib
import logging
import secrets
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from builders.bucket_server import ACCESS, Bucket, bucket
from builders.service_hand import Hand, result_of
from builders.traces import a_trace_file
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from cli.main import app
from service.app import create_app
from service.history.artifacts.bucket import BucketStore
from service.maintenance.artifact_cleanup import ArtifactCleanup
from service.maintenance.verify import verify
from service.schemas.errors import ArtifactsUnavailable
from service.settings import Settings

BODY = secrets.token_bytes(300_000)
DIGEST = hashlib.sha256(BODY).hexdigest()
AT_ONCE, HOUR = timedelta(0), timedelta(hours=1)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket | None]:
    with bucket() as (environment, one):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield one


@pytest.fixture
def url(server: Bucket | None) -> str:
    """A place of its own in the bucket."""
    return f"s3://traces/{secrets.token_hex(4)}"


def test_a_body_comes_back_and_goes_when_it_is_old(url: str) -> None:
    store = BucketStore(url)
    assert store.get(DIGEST) is None
    assert list(store.older_than(AT_ONCE)) == []
    for _ in range(2):
        store.put(DIGEST, BODY)
    assert store.get(DIGEST) == BODY
    assert list(store.older_than(AT_ONCE)) == [DIGEST]
    assert list(store.older_than(HOUR)) == []
    store.delete(DIGEST, HOUR)
    assert store.get(DIGEST) == BODY, "too young"
    for _ in range(2):
        store.delete(DIGEST, AT_ONCE)
    assert store.get(DIGEST) is None


def test_requests_are_signed(url: str, server: Bucket | None) -> None:
    BucketStore(url).put(DIGEST, BODY)
    if server is not None:
        [signed] = server.signed
        assert signed.startswith("AWS4-HMAC-SHA256 Credential=somebody/")


def test_a_store_that_is_away_is_told_without_its_key(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store = BucketStore(url)
    for call in (lambda: store.put(DIGEST, BODY), lambda: store.get(DIGEST)):
        with caplog.at_level(logging.WARNING), pytest.raises(ArtifactsUnavailable) as told:
            call()
        assert str(told.value).startswith(f"The artifacts in {url} cannot be ")
    assert ACCESS["AWS_SECRET_ACCESS_KEY"] not in caplog.text
    assert "Error performing PUT" in caplog.text


def test_a_service_keeps_traces_in_it_and_cleans_up(
    url: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = a_trace_file()
    settings = Settings(database_url=database_url, artifacts=url, background=False)
    with TestClient(create_app(settings)) as client:
        hand = Hand(client)
        hand.introduce(device="cpu")
        body = {"case": {"workload": "resnet50"}, "revision": "r", "trace": True}
        client.post("/api/v1/submissions", json=body).raise_for_status()
        lease = hand.must_claim()
        result = hand.post(lease, result_of(lease)).json()["id"]
        assert hand.post_trace(lease, trace).status_code == 201
        assert client.get(f"/api/v1/results/{result}/trace").content == trace
        state: Any = client.app.state  # type: ignore[attr-defined]
        assert verify(state.database, state.artifacts).findings[1].outcome.value == "held"
        state.artifacts.put(DIGEST, BODY)
        monkeypatch.setattr("service.maintenance.artifact_cleanup.UNNAMED", AT_ONCE)
        ArtifactCleanup(state.database, state.artifacts, {}).clean()
        assert state.artifacts.get(DIGEST) is None
        assert client.get(f"/api/v1/results/{result}/trace").content == trace
    monkeypatch.setenv("THROUGHLINE_DATABASE_URL", database_url)
    monkeypatch.setenv("THROUGHLINE_ARTIFACTS", url)
    said = CliRunner().invoke(app, ["backup", str(tmp_path / "copy")])
    assert said.exit_code == 0, said.output
    assert f"The artifacts stay in {url}." in said.output.replace("\n", " ")
    assert not (tmp_path / "copy.artifacts").exists()


def test_readers_fetch_from_the_bucket_itself_by_an_address_of_minutes(
    url: str, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = a_trace_file()
    settings = Settings(
        database_url=database_url, artifacts=url, artifacts_direct=True, background=False
    )
    with TestClient(create_app(settings), follow_redirects=False) as client:
        hand = Hand(client)
        hand.introduce(device="cpu")
        body = {"case": {"workload": "resnet50"}, "revision": "r", "trace": True}
        client.post("/api/v1/submissions", json=body).raise_for_status()
        lease = hand.must_claim()
        result = hand.post(lease, result_of(lease)).json()["id"]
        hand.post_trace(lease, trace)
        named = client.get(f"/api/v1/results/{result}/trace")
        assert client.get(f"/api/v1/results/{'0' * 32}/trace").status_code == 404
    assert (named.status_code, named.content) == (307, b"")
    address = named.headers["location"]
    assert "X-Amz-Expires=300" in address
    assert ACCESS["AWS_SECRET_ACCESS_KEY"] not in address
    assert httpx2.get(address).content == trace, "without any key"


def test_without_the_library_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith("obstore"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ArtifactsUnavailable, match=r"pip install 'throughline\[s3\]'"):
        BucketStore("s3://traces")
