"""A folder of artifacts: whole or not there, named by digest, deleted only while nobody puts it."""

from __future__ import annotations

import hashlib
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from service.history.artifacts.folder import FolderStore
from service.history.artifacts.store import beside, store_of
from service.schemas.errors import ArtifactsUnavailable
from service.settings import Settings

BODY = b"a trace"
DIGEST = hashlib.sha256(BODY).hexdigest()
HOUR = timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "artifacts")


def age(store: FolderStore, digest: str = DIGEST, hours: float = 2.0) -> Path:
    """Let an artifact be so old; its file."""
    path = store.folder / digest[:2] / digest
    then = time.time() - 3_600 * hours
    os.utime(path, (then, then))
    return path


def files(store: FolderStore) -> list[str]:
    return sorted(path.name for path in store.folder.rglob("*") if path.is_file())


def test_a_body_is_kept_once_under_its_digest(store: FolderStore) -> None:
    assert store.get(DIGEST) is None
    for _ in range(2):
        store.put(DIGEST, BODY)
    assert store.get(DIGEST) == BODY
    assert files(store) == [DIGEST]


def test_what_cannot_be_written_whole_is_not_there(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactsUnavailable, match=r"cannot be written \(No space left on device"):
        store.put(DIGEST, BODY)
    assert store.get(DIGEST) is None
    assert files(store) == []


def test_what_is_old_is_named_and_deleted(store: FolderStore) -> None:
    store.put(DIGEST, BODY)
    assert list(store.older_than(HOUR)) == []
    store.delete(DIGEST, HOUR)
    assert store.get(DIGEST) == BODY, "too young"
    age(store)
    assert list(store.older_than(HOUR)) == [DIGEST]
    store.delete(DIGEST, HOUR)
    assert files(store) == []
    store.delete(DIGEST, HOUR)


def test_what_is_put_again_is_young_again(store: FolderStore) -> None:
    """Between the look at what is old and its deletion somebody may put it again."""
    store.put(DIGEST, BODY)
    age(store)
    [old] = store.older_than(HOUR)
    store.put(DIGEST, BODY)
    store.delete(old, HOUR)
    assert store.get(DIGEST) == BODY
    assert files(store) == [DIGEST]


def test_drafts_that_a_crash_left_are_no_artifacts(store: FolderStore) -> None:
    store.put(DIGEST, BODY)
    (store.folder / DIGEST[:2] / "tmp1234").write_bytes(b"half")
    age(store)
    assert list(store.older_than(HOUR)) == [DIGEST]


def test_a_copy_has_what_the_other_lacks(store: FolderStore, tmp_path: Path) -> None:
    other = FolderStore(tmp_path / "copy")
    assert store.copy_to(other) == 0
    assert not other.folder.exists()
    store.put(DIGEST, BODY)
    assert [store.copy_to(other), store.copy_to(other)] == [1, 0]
    age(store)
    store.delete(DIGEST, HOUR)
    assert other.get(DIGEST) == BODY


def test_a_copy_onto_another_file_system_is_whole(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    store.put(DIGEST, BODY)
    other = FolderStore(tmp_path / "copy")
    assert store.copy_to(other) == 1
    assert other.get(DIGEST) == BODY


def test_the_folder_lies_beside_the_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite3"
    assert beside(url, tmp_path) == tmp_path / "db.sqlite3.artifacts"
    assert beside("postgresql://a@b/c", tmp_path) == tmp_path / "artifacts"
    settings = Settings(database_url=url, artifacts=str(tmp_path / "there"))
    assert _folder(store_of(settings)) == tmp_path / "there"
    copy = f"sqlite:///{tmp_path}/copy"
    assert _folder(store_of(settings, copy)) == tmp_path / "copy.artifacts", "of a backup its own"


def _folder(store: object) -> Path:
    assert isinstance(store, FolderStore)
    return store.folder
