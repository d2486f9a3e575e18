"""A worker deletes only inside its own folders, whoever names what is to go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from benchmarks.contracts import Claim, Id, Lease
from tests.worker.miniature import SECRET, Miniature, eventually
from worker.child.process_tree import Tree
from worker.child.workspace import PREFIX, Caches, remove
from worker.client import ServiceAway, ServiceClient, Ticket
from worker.loop import WRONG
from worker.outbox.spool import Spool
from worker.state_dir import Journal

NO_IDS = [
    "",
    ".",
    "..",
    "/",
    "/tmp",
    "../../precious",
    "x",
    "0" * 31,
    "0" * 33,
    "A" * 32,
    "0" * 31 + "\n",
    "0" * 32 + "\n",
    "0" * 15 + "/" + "0" * 16,
    "\u0661" * 32,
]


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of somebody else's with something in it, which must stay."""
    folder = tmp_path / "precious"
    (folder / "deep").mkdir(parents=True)
    (folder / "kept").write_text("kept")
    (folder / "deep/kept").write_text("kept")
    folder.chmod(0o750)
    return folder


def untouched(folder: Path) -> bool:
    kept = all((folder / name).read_text() == "kept" for name in ("kept", "deep/kept"))
    return kept and folder.stat().st_mode & 0o777 == 0o750


def replicate(group: str) -> dict[str, object]:
    case = {"workload": "ok"}
    spec = {"case": case, "revision": "abc", "protocol": {"replicates": 3}}
    told = {"job_id": "1" * 32, "group": group, "attempt": 1, "secret": SECRET, "spec": spec}
    return told | {"lease_s": 60.0, "heartbeat_s": 1.0}


@pytest.mark.parametrize("name", NO_IDS)
def test_what_is_no_id_crosses_the_wire_in_neither_direction(name: str) -> None:
    for kind, told in (
        (Lease, replicate(name)),
        (Claim, {"worker": "w", "claim_id": name}),
        (Id, name),
    ):
        with pytest.raises(ValidationError, match="32 hexadecimal digits"):
            TypeAdapter(kind).validate_python(told)


def test_a_false_service_empties_no_folder(worker, service: Miniature, precious, caplog) -> None:
    service.lie = {"group": str(precious)}
    service.submit("ok", protocol={"replicates": 2})
    with worker() as stop:
        eventually(lambda: "no Lease" in caplog.text)
    assert stop.codes == [WRONG]
    assert untouched(precious)


def test_a_service_that_answers_with_no_id_has_not_taken_a_result(service: Miniature) -> None:
    service.stranger = (201, '{"id": "../../x", "counted": true}')
    with ServiceClient(service.url, 2.0) as client, pytest.raises(ServiceAway):
        client.post_result(Ticket("1" * 32, 1, SECRET), b"{}")


def test_a_spooled_file_that_names_no_job_is_put_aside(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (tmp_path / "1.result").write_text(
        f'{{"job_id": "../x", "attempt": 1, "secret": "{SECRET}"}}\n{{}}'
    )
    assert spool.entries() == []
    assert (tmp_path / "rejected/1.result").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../precious", "/tmp"])
def test_only_a_name_is_removed_and_no_path(tmp_path: Path, precious: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        remove(tmp_path, name)
    spec = Lease.model_validate(replicate("1" * 32)).spec
    with pytest.raises(ValueError, match="is no name"), Caches(tmp_path).of(name, spec):
        pass
    assert untouched(precious)


def test_a_link_is_removed_and_what_it_leads_to_is_left(tmp_path: Path, precious: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "top").symlink_to(precious)
    remove(own, "top")
    (own / "top").mkdir()
    (own / "top/inner").symlink_to(precious)
    (own / "top/file").symlink_to(precious / "kept")
    remove(own, "top")
    assert list(own.iterdir()) == []
    assert untouched(precious)


MOUNT = """
import subprocess, sys
from pathlib import Path
from worker.child.workspace import remove
own, precious = map(Path, sys.argv[1:])
for place in (own / "top/deep/mounted", own / "itself"):
    place.mkdir(parents=True)
    subprocess.run(["mount", "--bind", precious, place], check=True)
    remove(own, place.relative_to(own).parts[0])
"""


def test_what_is_mounted_in_a_folder_is_left(tmp_path: Path, precious: Path) -> None:
    """A mount that a child made as root, or a file system of its loaders' that it left."""
    own = tmp_path / "own"
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mount namespace")
    command = [*apart, sys.executable, "-c", MOUNT, own, precious]
    subprocess.run(command, check=True, timeout=60, cwd=Path(__file__).parents[2])
    assert untouched(precious)


def test_a_leftover_is_removed_from_the_temporary_folder_alone(
    worker, service: Miniature, settings, precious: Path, tmp_path: Path, caplog
) -> None:
    """The worker's note of it is a file, which whatever ran on this machine may have changed."""
    elsewhere = precious.rename(precious.with_name(f"{PREFIX}precious"))
    left, of_a_pair = (tmp_path / "tmp" / f"{PREFIX}{name}" for name in ("left", "pair"))
    left.mkdir()
    (of_a_pair / "contender").mkdir(parents=True)
    settings.folder.mkdir(parents=True)
    for folder in (elsewhere, left, of_a_pair / "contender"):
        Journal(settings.folder).started([Tree(2**22 + 1, 0, "none", "another boot")], folder)
        with worker():
            eventually(lambda: service.requests)
    assert untouched(elsewhere)
    assert not left.exists()
    assert not of_a_pair.exists()
    assert "is left as it is" in caplog.text


def test_a_folder_without_permissions_is_removed(tmp_path: Path) -> None:
    closed = tmp_path / "top/a/b"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    for folder in (closed, closed.parent, closed.parent.parent):
        folder.chmod(0)
    remove(tmp_path, "top")
    assert os.listdir(tmp_path) == []  # noqa: PTH208
