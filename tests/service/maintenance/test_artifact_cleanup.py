"""Old traces go, and artifacts that nothing names; what is named or just came stays."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from builders.served import wait_until
from builders.service_hand import Hand, result_of
from builders.traces import a_trace_file
from fastapi.testclient import TestClient
from sqlalchemy import select, text

from benchmarks.artifact_kinds import ArtifactKind
from service.app import create_app
from service.database.session import Database, now_of
from service.history.artifacts.folder import FolderStore
from service.maintenance.artifact_cleanup import ArtifactCleanup
from service.maintenance.verify import verify
from service.models import ArtifactRow
from service.schemas.errors import ArtifactsUnavailable
from service.settings import Settings
from tests.service.history.artifacts.test_folder import age

pytestmark = pytest.mark.both_databases
TRACE, ORPHAN = a_trace_file(), b"nobody's"
DIGEST, OF_ORPHAN = (hashlib.sha256(body).hexdigest() for body in (TRACE, ORPHAN))
KEPT = {ArtifactKind.TRACE: timedelta(days=90)}


@pytest.fixture
def store(client: TestClient) -> FolderStore:
    found: FolderStore = client.app.state.artifacts  # type: ignore[attr-defined]
    return found


@pytest.fixture
def result(hand: Hand, submit: Callable[..., dict[str, Any]]) -> str:
    """A result with its trace."""
    submit("r1", trace=True)
    lease = hand.must_claim()
    made = str(hand.post(lease, result_of(lease)).json()["id"])
    assert hand.post_trace(lease, TRACE).status_code == 201
    return made


def redate(database: Database, days: float) -> None:
    """Let the trace have come so long ago, as the guard refuses."""
    with database.writing() as session:
        guard = "" if database.kind == "sqlite" else " ON artifacts"
        session.execute(text(f"DROP TRIGGER guard_artifacts_update{guard}"))
        for row in session.scalars(select(ArtifactRow)):
            row.received_at = now_of(session) - timedelta(days=days)


def test_unnamed_artifacts_go_and_named_ones_stay(
    database: Database, store: FolderStore, result: str
) -> None:
    store.put(OF_ORPHAN, ORPHAN)
    cleanup = ArtifactCleanup(database, store, KEPT)
    cleanup.clean()
    assert store.get(OF_ORPHAN) == ORPHAN, "its row may still come"
    for digest in (DIGEST, OF_ORPHAN):
        age(store, digest, hours=3)
    cleanup.clean()
    assert store.get(OF_ORPHAN) is None
    assert store.get(DIGEST) == TRACE
    assert verify(database, store).findings[1].outcome.value == "held"


def test_old_traces_go_with_their_artifacts_at_the_next_look(
    client: TestClient, database: Database, store: FolderStore, result: str
) -> None:
    redate(database, days=91)
    age(store, DIGEST, hours=3)
    ArtifactCleanup(database, store, {}).clean()
    assert client.get(f"/api/v1/results/{result}/trace").content == TRACE, "kept for good"
    cleanup = ArtifactCleanup(database, store, KEPT)
    cleanup.clean()
    assert client.get(f"/api/v1/results/{result}/trace").status_code == 404
    told = client.get(f"/api/v1/results/{result}").json()["trace"]
    assert "older than traces are kept" in told["absent"]
    assert store.get(DIGEST) == TRACE, "a backup that runs may still copy it"
    cleanup.clean()
    assert store.get(DIGEST) is None


def test_each_kind_is_kept_for_its_own_time(
    client: TestClient,
    database: Database,
    store: FolderStore,
    hand: Hand,
    submit: Callable[..., dict[str, Any]],
) -> None:
    submit("r1", trace=True)
    lease = hand.must_claim()
    made = str(hand.post(lease, result_of(lease)).json()["id"])
    hand.post_trace(lease, TRACE)
    hand.post_log(lease, gzip.compress(b"a log"))
    redate(database, days=31)
    ArtifactCleanup(database, store, KEPT | {ArtifactKind.LOG: timedelta(days=30)}).clean()
    assert client.get(f"/api/v1/results/{made}/trace").content == TRACE
    assert client.get(f"/api/v1/results/{made}/log").status_code == 404


def test_young_traces_stay(
    client: TestClient, database: Database, store: FolderStore, result: str
) -> None:
    redate(database, days=89)
    ArtifactCleanup(database, store, KEPT).clean()
    assert client.get(f"/api/v1/results/{result}/trace").content == TRACE


def test_a_trace_whose_file_is_gone_is_told_by_the_route_and_by_verify(
    client: TestClient, database: Database, store: FolderStore, result: str
) -> None:
    age(store, DIGEST).unlink()
    assert client.get(f"/api/v1/results/{result}/trace").status_code == 404
    [breach] = [one for one in verify(database, store).findings if one.outcome.value == "broken"]
    assert breach.number == 2
    assert "It is not among the artifacts" in breach.sentence


def test_a_store_that_is_away_is_no_broken_promise(
    database: Database, store: FolderStore, result: str
) -> None:
    shutil.rmtree(store.folder)
    store.folder.write_text("a file where the folder should be")
    with pytest.raises(ArtifactsUnavailable, match="cannot be read"):
        verify(database, store)


def test_a_store_that_is_away_is_told_and_the_worker_may_try_again(
    client: TestClient,
    hand: Hand,
    submit: Callable[..., dict[str, Any]],
    store: FolderStore,
) -> None:
    submit("r1", trace=True)
    lease = hand.must_claim()
    result = hand.post(lease, result_of(lease)).json()["id"]
    store.folder.write_text("a file where the folder should be")
    refused = hand.post_trace(lease, TRACE)
    assert (refused.status_code, refused.json()["type"]) == (503, "artifacts-unavailable")
    assert client.get(f"/api/v1/results/{result}").json()["trace"]["size_b"] is None
    store.folder.unlink()
    assert hand.post_trace(lease, TRACE).status_code == 201


def test_a_refused_trace_leaves_no_file(
    hand: Hand, submit: Callable[..., dict[str, Any]], store: FolderStore
) -> None:
    submit("r1")
    lease = hand.must_claim()
    hand.post(lease, result_of(lease))
    assert hand.post_trace(lease, TRACE).status_code == 409
    assert not store.folder.exists()


def test_a_service_that_runs_cleans_up(
    settings: Settings, database: Database, store: FolderStore, result: str
) -> None:
    store.put(OF_ORPHAN, ORPHAN)
    age(store, OF_ORPHAN, hours=3)
    serving = settings.model_copy(update={"background": True, "role": "web", "sweep_s": 0.05})
    with TestClient(create_app(serving)):
        wait_until(lambda: store.get(OF_ORPHAN) is None)
    assert store.get(DIGEST) == TRACE
