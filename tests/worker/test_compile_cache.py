"""Compiled code that the replicates of a case share."""

import os
import time
from pathlib import Path

from benchmarks.contracts import JobSpec
from worker.child.workspace import KEPT_S, Caches

GROUP = "1" * 32


def spec(replicate: int, replicates: int = 2) -> JobSpec:
    document = {"case": {"workload": "unet"}, "revision": "r", "replicate": replicate}
    return JobSpec.model_validate({**document, "protocol": {"replicates": replicates}})


def compiled(caches: Caches, replicate: int) -> list[str]:
    """What a replicate finds; it leaves something behind."""
    with caches.of(GROUP, spec(replicate)) as folder:
        assert folder is not None
        found = sorted(path.name for path in folder.iterdir())
        (folder / f"by-{replicate}").touch()
    return found


def test_compiled_code_stays_until_the_last_replicate(tmp_path: Path) -> None:
    caches = Caches(tmp_path / "caches")
    assert compiled(caches, 1) == []
    assert compiled(caches, 2) == ["by-1"]
    assert list((tmp_path / "caches").iterdir()) == []


def test_a_first_replicate_that_is_measured_again_begins_cold(tmp_path: Path) -> None:
    caches = Caches(tmp_path / "caches")
    assert compiled(caches, 1) == []
    assert compiled(caches, 1) == []


def test_what_nobody_came_back_for_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "caches"
    (folder / "old").mkdir(parents=True)
    (folder / "young").mkdir()
    long_ago = time.time() - KEPT_S - 1
    os.utime(folder / "old", (long_ago, long_ago))
    compiled(Caches(folder), 1)
    assert "old" not in {path.name for path in folder.iterdir()}
    assert "young" in {path.name for path in folder.iterdir()}


def test_a_case_of_one_replicate_has_no_caches_of_its_own(tmp_path: Path) -> None:
    with Caches(tmp_path / "caches").of(GROUP, spec(1, 1)) as folder:
        assert folder is None
    assert not (tmp_path / "caches").exists()
