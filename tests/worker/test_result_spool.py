"""A result that was finished is never lost: not by the service, the worker or the power."""

from __future__ import annotations

import os

import pytest

from tests.worker.miniature import name_of
from worker.child.process_tree import Tree, boot_id
from worker.client import Fenced, Refused, ServiceAway, Ticket
from worker.outbox.spool import Answer, Spool
from worker.state_dir import Journal, Occupied, Pending, identity, locked

TICKET = Ticket(name_of(1), 2, "a" * 64)


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool")


def test_what_was_put_is_there_for_the_next_process(spool, tmp_path):
    spool.put(TICKET, b'{"a":1}\n{"b":2}')
    (entry,) = Spool(tmp_path / "spool").entries()
    assert (entry.ticket, entry.body) == (TICKET, b'{"a":1}\n{"b":2}')
    assert entry.path is not None
    assert entry.path.stat().st_mode & 0o077 == 0, "it holds the lease's secret"


def test_results_come_back_in_their_order(spool):
    for number in range(5):
        spool.put(TICKET, str(number).encode())
    assert [entry.body for entry in spool.entries()] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_result_is_on_the_disk_before_it_is_called_spooled(spool, monkeypatch):
    order = []
    for name in ("fsync", "replace", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, n=name, r=real, **more: (order.append(n), r(*args, **more))[1]
        )
    spool.put(TICKET, b"{}")
    assert order[0] == "fsync", "the file"
    assert order[-1] == "fsync", "the folder"


def test_an_entry_goes_once_it_is_answered_and_stays_until_then(spool):
    entry = spool.put(TICKET, b"{}")

    def away(ticket, body):
        raise ServiceAway("gone")

    with pytest.raises(ServiceAway):
        spool.deliver(entry, away)
    assert spool.entries() == [entry]
    assert spool.deliver(entry, lambda ticket, body: None) is Answer.COUNTED
    assert spool.entries() == []


def test_a_late_result_is_answered_and_gone(spool):
    def late(ticket, body):
        raise Fenced("too late")

    assert spool.deliver(spool.put(TICKET, b"{}"), late) is Answer.UNCOUNTED
    assert spool.entries() == []


def test_a_rejected_result_is_kept_aside_with_its_reason(spool, tmp_path):
    def refuse(ticket, body):
        raise Refused(422, "It is no valid Result.")

    assert spool.deliver(spool.put(TICKET, b"{}"), refuse) is Answer.REJECTED
    assert spool.entries() == []
    kept = sorted((tmp_path / "spool" / "rejected").iterdir())
    assert [path.suffix for path in kept] == [".reason", ".result"]
    assert "no valid Result" in kept[0].read_text()


def test_a_file_that_is_no_entry_does_not_stop_the_others(spool, tmp_path):
    (tmp_path / "spool" / "000.result").write_bytes(b"half a li")
    entry = spool.put(TICKET, b"{}")
    assert spool.entries() == [entry]


def test_a_disk_that_is_full_costs_the_protection_and_not_the_result(spool, monkeypatch):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    entry = spool.put(TICKET, b"{}")
    assert entry.path is None
    sent = []
    assert spool.deliver(entry, lambda ticket, body: sent.append(body)) is Answer.COUNTED
    assert sent == [b"{}"]


def test_a_folder_has_one_worker(tmp_path):
    with (
        locked(tmp_path, "w1"),
        pytest.raises(Occupied, match="A worker named w1 already runs here"),
        locked(tmp_path, "w1"),
    ):
        pass
    with locked(tmp_path, "w1"):
        pass


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(Occupied, match="THROUGHLINE_STATE_DIR"),
        locked(tmp_path / "file" / "w", "w"),
    ):
        pass


def test_the_journal_survives_the_worker(tmp_path):
    tree = Tree(123, 456, "mark", boot_id())
    Journal(tmp_path).claim(Pending("c" * 32, 1, 60.0))
    Journal(tmp_path).started([tree], tmp_path)
    Journal(tmp_path).started_ahead([tree], tmp_path / "next")
    leftovers = Journal(tmp_path).leftovers()
    assert Journal(tmp_path).pending() == Pending("c" * 32, 1, 60.0)
    assert [one.trees for one in leftovers] == [(tree,), (tree,)]
    assert [one.folder for one in leftovers] == [str(tmp_path), str(tmp_path / "next")]
    Journal(tmp_path).settle()
    Journal(tmp_path).ended()
    Journal(tmp_path).ended_ahead()
    assert Journal(tmp_path).pending() is None
    assert not Journal(tmp_path).leftovers()


def test_a_journal_of_another_version_says_nothing(tmp_path):
    (tmp_path / "claim.json").write_text('{"other": 1}')
    assert Journal(tmp_path).pending() is None


def test_a_folder_is_known_again_and_told_from_another(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = identity(tmp_path / "a")
    assert identity(tmp_path / "a") == first
    assert identity(tmp_path / "b") != first
