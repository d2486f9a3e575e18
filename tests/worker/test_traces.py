"""A profiler's trace follows its result, and never costs it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from benchmarks.artifact_kinds import ArtifactKind
from benchmarks.contracts import Status
from benchmarks.diagnosis.merge import merge
from tests.worker.miniature import Miniature, eventually, name_of
from worker.client import Fenced, Refused, ServiceAway, Ticket
from worker.outbox import trace, upload
from worker.outbox.spool import MOST_ARTIFACTS, Spool
from worker.result_builder import without_numbers
from worker.runner import Runner
from worker.supervisor import Station

TICKET, OTHER = Ticket(name_of(1), 1, "a" * 64), Ticket(name_of(2), 1, "b" * 64)
GOOD = gzip.compress(b'{"traceEvents": []}', mtime=0)
TRACED = {"trace": True, "profile": True}


def spooled(settings) -> list[Path]:
    return list((settings.folder / "spool").glob("*.trace"))


def test_a_trace_follows_its_result(worker, service: Miniature, settings):
    service.submit("traced", protocol={**TRACED, "replicates": 2})
    with worker():
        eventually(lambda: service.traces)
        eventually(lambda: not spooled(settings))
    assert service.traces == [GOOD]
    (result,) = service.read()
    assert (result.status, result.trace_absent) == (Status.OK, "")
    assert result.protocol.trace
    paths = [path.rpartition("/")[2] for _, path in service.requests]
    assert paths.index("result") < paths.index("trace")


def test_the_whole_log_of_a_failure_follows_where_its_result_has_only_the_end(
    worker, service: Miniature, settings
):
    for workload in ("dirty", "fail", "ok"):
        service.submit(workload)
    with worker():
        eventually(lambda: len(service.results) == 3 and service.logs)
    (log,) = service.logs
    said = b"first \xff\x00 line\n" + "é".encode() * 30_000 + b"\x00\nend\n"
    assert gzip.decompress(log) == said
    paths = [path.rpartition("/")[2] for _, path in service.requests]
    assert paths.index("result") < paths.index("log")
    assert not list((settings.folder / "spool").glob("*.log"))


def test_a_job_that_asks_for_no_trace_has_none(worker, service: Miniature):
    service.submit("traced", protocol={"profile": True})
    with worker():
        eventually(lambda: service.results)
    assert not service.traces
    assert not service.read()[0].protocol.trace


def test_a_service_that_takes_no_traces_keeps_no_worker_from_measuring(
    worker, service: Miniature, settings, monkeypatch
):
    """And what it did not take is there for the next start."""
    monkeypatch.setattr(upload, "ARTIFACTS_PATIENCE_S", 0.1)
    for _ in range(2):
        service.submit("traced", protocol=TRACED)
    service.deaf_to = "/trace"
    with worker():
        eventually(lambda: len(service.results) == 2)
    assert len(spooled(settings)) == 2
    service.deaf_to = ""
    with worker():
        eventually(lambda: len(service.traces) == 2)
        eventually(lambda: not spooled(settings))


def test_an_answer_that_is_lost_is_asked_for_again(worker, service: Miniature, settings):
    service.submit("traced", protocol=TRACED)
    service.lose = 2
    with worker():
        eventually(lambda: not spooled(settings) and len(service.traces) >= 3)
    assert set(service.traces) == {GOOD}, "word for word the same"


@pytest.mark.parametrize("refusal", [Fenced("It is over."), Refused(422, "It is no trace.")])
def test_a_trace_that_is_not_wanted_is_given_up(tmp_path, refusal, caplog):
    spool = Spool(tmp_path)
    spool.put_artifact(TICKET, ArtifactKind.TRACE, GOOD)

    def refuse(ticket, kind, body):
        raise refusal

    (entry,) = spool.artifacts()
    spool.deliver_artifact(entry, refuse)
    assert not list(spool.artifacts())
    assert f"does not take the trace of job {name_of(1)}" in caplog.text


def test_a_trace_waits_for_the_answer_to_its_result(tmp_path):
    spool = Spool(tmp_path)
    entry = spool.put(TICKET, b"{}")
    for ticket in (TICKET, OTHER):
        spool.put_artifact(ticket, ArtifactKind.TRACE, GOOD)
    assert [one.ticket for one in spool.artifacts()] == [OTHER]
    spool.deliver(entry, lambda ticket, body: None)
    assert [one.ticket for one in Spool(tmp_path).artifacts()] == [TICKET, OTHER]

    def away(ticket, kind, body):
        raise ServiceAway("gone")

    for one in spool.artifacts():
        with pytest.raises(ServiceAway):
            spool.deliver_artifact(one, away)
    assert len(list(spool.artifacts())) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("*.trace"))


def test_a_disk_that_is_full_costs_the_trace_alone(tmp_path, monkeypatch, caplog):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    spool = Spool(tmp_path)
    spool.put_artifact(TICKET, ArtifactKind.TRACE, GOOD)
    assert not list(tmp_path.glob("*.t*"))
    assert f"The trace of job {name_of(1)} (attempt 1) is lost" in caplog.text


def test_traces_that_nobody_takes_do_not_fill_the_disk(tmp_path, caplog):
    spool = Spool(tmp_path)
    for _ in range(MOST_ARTIFACTS + 2):
        spool.put_artifact(TICKET, ArtifactKind.TRACE, GOOD)
    assert len(list(spool.artifacts())) == MOST_ARTIFACTS
    assert caplog.text.count("32 others wait already") == 2


@pytest.fixture
def found(job):
    return without_numbers(job("ok"), Status.OOM, "It does not fit.").model_copy()


def good(file: Path) -> None:
    file.write_bytes(GOOD)


def nothing(file: Path) -> None:
    pass


def link(file: Path) -> None:
    other = file.parents[1] / "other.json.gz"
    other.write_bytes(GOOD)
    file.symlink_to(other)


def linked_folder(file: Path) -> None:
    other = file.parents[1] / "other"
    other.mkdir()
    (other / file.name).write_bytes(GOOD)
    file.parent.rmdir()
    file.parent.symlink_to(other)


def pipe(file: Path) -> None:
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.mkdir()


def huge(file: Path) -> None:
    with file.open("wb") as made:
        made.write(GOOD)
        made.truncate(2**40)


def text(file: Path) -> None:
    file.write_bytes(b'{"traceEvents": []}')


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (good, ""),
        (nothing, trace.ENDED_BEFORE),
        (link, "cannot be read"),
        (linked_folder, trace.ENDED_BEFORE),
        (pipe, "no regular file"),
        (folder, "no regular file"),
        (huge, "larger than 8 MiB"),
        (text, "no JSON object packed with gzip"),
    ],
)
def test_what_a_child_leaves_as_its_trace_is_taken_or_told(tmp_path, found, left, said):
    with trace.place(tmp_path) as place:
        left(place.file)
        body, absent = place.take(found)
    assert body == (b"" if said else GOOD)
    assert said in absent
    assert bool(said) == bool(absent)


def test_a_result_says_in_one_sentence_why_it_has_no_trace(
    settings, job, onlooker, contained, caplog
):
    kept = []
    onlooker.keep = kept.append
    runner = Runner(settings, Station(settings, contained))
    said = {}
    for part in ("ok", "badtrace", "fail", "unprofiled"):
        result = runner.run(job(part, protocol={**TRACED, "replicates": 1}), onlooker)
        said[part] = (result.status, result.trace_absent)
        assert result.protocol.trace
    assert kept == [b""] * 4
    assert said == {
        "ok": (Status.OK, "The child wrote no trace, though it was asked for one."),
        "badtrace": (Status.OK, "What the child left as its trace is no regular file."),
        "fail": (Status.RUNTIME_ERROR, trace.ENDED_BEFORE),
        "unprofiled": (Status.OK, "The driver recorded no kernel."),
    }


def test_the_word_on_the_trace_is_that_of_the_first_process(found):
    ok = found.model_copy(update={"trace_absent": "Because."})
    assert merge([ok, found]).trace_absent == "Because."
    assert merge([found, ok]).trace_absent == ""
