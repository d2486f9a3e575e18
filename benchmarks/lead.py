"""Measures a gang: starts a process for each rank, watches all, and returns their one Result.

One GPU alone is measured in the same launch, so that the scaling efficiency is of one moment.

The ranks are one process group and die with this process. When one of them ends, hangs or runs out
of memory, all are killed, and the Result gives the reason of that rank. Nothing is started again.
"""

from __future__ import annotations

import math
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from benchmarks import contracts, die_with_parent, exits
from benchmarks.catalog import catalog
from benchmarks.catalog.catalog import Refused
from benchmarks.catalog.metrics import sample
from benchmarks.contracts import ProcessSpec, RankEvent, Result, Status
from benchmarks.diagnosis.account import account
from benchmarks.measure import hang
from benchmarks.progress_bar import ProgressBar

SILENT_S = 20.0
"""A rank that gives no sign of life for so long hangs; a worker waits longer for its lead."""
START_S = 120.0
"""The same before a rank's first sign, unless it is stopped: torch loads from a cold disk."""
ANSWER_S = 3.0
"""Longest wait for what ranks that can still answer tell of a hang."""
SETTLE_S = 1.0
"""When a rank fails, others may lose it before its own end is seen: the first is looked for."""
EXIT_S = 10.0
"""Longest wait for the ends of ranks whose Results are out."""
TICK_S = 0.25
LONGEST_EVENT_B = 65_536
LONGEST_TAIL = 15_000
"""Characters that are kept of what ranks tell of a hang."""
ONE_PROCESS_ONLY = "timing_only"
"""Flag of a Result that lacks the passes beside timing, which are of one process so far."""
NOT_ALONE = "not_alone"
"""Flag of a Result without a scaling efficiency, as one GPU alone could not be measured."""


@dataclass
class _Rank:
    """A running rank."""

    number: int
    process: subprocess.Popen[bytes]
    exit_fd: int
    events_fd: int
    stdout: BinaryIO
    due_s: float
    """On CLOCK_MONOTONIC, when its next sign of life is late."""
    rendezvous: Path
    stopped_at_s: float | None = None
    """Since when it is seen to be stopped, as by SIGSTOP."""
    heard: RankEvent | None = None
    pending: bytes = b""
    is_done: bool = False
    """Its Result is out."""

    @property
    def position(self) -> int:
        return self.heard.position if self.heard else -1


@dataclass(frozen=True)
class _Failure:
    """The end of a rank that gave no good Result."""

    rank: int
    status: Status
    reason: str
    result: Result | None = None
    of_a_peer: bool = False
    log_tail: str = ""


@dataclass
class _Watched:
    """The results and failures of a gang's ranks so far."""

    results: dict[int, bytes] = field(default_factory=dict)
    failures: list[_Failure] = field(default_factory=list)


def measured(spec: ProcessSpec, patience_s: float | None = None, silent_s: float = SILENT_S) -> str:
    """Measure ``spec`` with a rank on each of its GPUs, and one GPU alone beside it; return the
    Result as a line of JSON.

    Args:
        spec: a case of a gang.
        patience_s: longest time without a finished step, in place of that of each phase.
        silent_s: longest time without a sign of life of a rank.

    Raises:
        Refused: there are fewer devices than ranks.
        NoDevice: a rank cannot use its device.
    """
    told: dict[str, Result] = {}
    with ExitStack() as bar:
        shown = bar.enter_context(ProgressBar(spec.case.key)) if spec.events_fd is None else None
        for part in rounds(spec):
            timing = spec.protocol.timing_only()
            of = spec.model_copy(update={"case": part.case, "protocol": timing})
            with (
                tempfile.TemporaryDirectory(prefix="tl-gang-") as folder,
                _ranks(of, part, Path(folder), patience_s) as ranks,
            ):
                watched = _watch(ranks, spec.events_fd, shown, silent_s)
            told[part.name] = _result(of, watched, len(part.devices))
            if part.name == GANG and told[GANG].status is not Status.OK:
                break
    return _finished(spec, told).model_dump_json()


GANG, APART, BESIDE, SINGLE = "gang", "apart", "beside", "single"


@dataclass(frozen=True)
class Part:
    """One of the measurements of a launch: a case, and the device of each of its ranks."""

    name: str
    case: contracts.Case
    devices: Sequence[str | None]
    exchanges: bool = True


def rounds(spec: ProcessSpec) -> Sequence[Part]:
    """List what one launch measures: the gang, and, unless it is a side of a pair, one of its GPUs
    alone, without a wrapper.

    For an account also the GPUs beside each other, each for itself, and ddp's ranks apart, without
    exchange. The order, and which GPU is alone, change with the seed, so with the replicate.

    Raises:
        Refused: an account is asked for and cannot be drawn up.
    """
    devices = _devices(spec)
    gang = Part(GANG, spec.case, devices)
    if len(devices) == 1 or spec.duet is not None:
        return (gang,)
    axes = catalog.axes()
    kept = {name: set_to for name, set_to in spec.case.axes.items() if axes[name].role != "devices"}
    turn = spec.seed // 2 % len(devices)
    plain = spec.case.model_copy(update={"axes": kept})
    single = Part(SINGLE, plain, devices[turn : turn + 1])
    if not spec.protocol.account:
        return (gang, single) if spec.seed % 2 == 0 else (single, gang)
    if spec.case.axes.get("scaling") == "strong":
        raise Refused("An account needs scaling=weak: a GPU alone would have more to do in a step.")
    parts = [gang, single, Part(BESIDE, plain, devices)]
    if spec.case.axes["parallel"] == "ddp":
        parts.append(Part(APART, spec.case, devices, exchanges=False))
    random.Random(spec.seed).shuffle(parts)
    return parts


def _devices(spec: ProcessSpec) -> Sequence[str | None]:
    """The device of each rank; None: a rank takes the GPU of its number, if there are any."""
    world = spec.case.gpus
    if spec.devices is not None:
        if len(spec.devices) < world:
            raise Refused(f"gpus={world} needs a worker that offers {world} GPUs.")
        return spec.devices[:world]
    if spec.device is None or spec.device == "cpu":
        return [spec.device] * world
    first = int(spec.device.partition(":")[2] or 0)
    return [f"cuda:{first + number}" for number in range(world)]


@contextmanager
def _ranks(
    spec: ProcessSpec, part: Part, folder: Path, patience_s: float | None
) -> Iterator[list[_Rank]]:
    """Start every rank; none of them, nor what they started, is left afterwards."""
    ranks: list[_Rank] = []
    with ExitStack() as undo:
        undo.callback(_kill, ranks)
        for number, device in enumerate(part.devices):
            place = contracts.GangRank(
                rank=number,
                world=len(part.devices),
                rendezvous=folder / "rendezvous",
                exchanges=part.exchanges,
                patience_s=patience_s,
            )
            own = {"device": device, "devices": None, "gang": place, "trace": None}
            leader = ranks[0].process.pid if ranks else 0
            ranks.append(_started(spec.model_copy(update=own), leader, undo))
        yield ranks


def _started(spec: ProcessSpec, leader: int, undo: ExitStack) -> _Rank:
    """Start one rank, in the process group of ``leader`` or, with 0, in one of its own."""
    assert spec.gang is not None
    events, theirs = os.pipe()
    undo.callback(os.close, events)
    stdout = undo.enter_context(os.fdopen(os.memfd_create("result"), "w+b"))
    stdin = os.fdopen(os.memfd_create("spec"), "w+b")
    stdin.write(spec.document(theirs))
    duet = spec.duet if spec.gang.rank == 0 else None
    baton = () if duet is None else (duet.socket_fd,)
    stdin.seek(0)
    with stdin:
        process = subprocess.Popen(
            [*die_with_parent.tied(), sys.executable, "-m", "benchmarks", "-"],
            stdin=stdin,
            stdout=stdout,
            env=_environment(spec.gang),
            pass_fds=(theirs, *baton),
            process_group=leader,
        )
    os.close(theirs)
    exit_fd = os.pidfd_open(process.pid)
    undo.callback(os.close, exit_fd)
    os.set_blocking(events, False)
    due_s = time.monotonic() + START_S
    place = spec.gang
    return _Rank(place.rank, process, exit_fd, events, stdout, due_s, place.rendezvous)


def _environment(place: contracts.GangRank) -> dict[str, str]:
    """The environment of a rank: the variables that `torchrun` sets, and loopback for its links."""
    own = {"RANK": place.rank, "LOCAL_RANK": place.rank, "WORLD_SIZE": place.world}
    links = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    return links | os.environ | {name: str(value) for name, value in own.items()}


def _watch(
    ranks: Sequence[_Rank], events_fd: int | None, bar: ProgressBar | None, silent_s: float
) -> _Watched:
    """Wait until all ranks have ended well, or one has not and the others had time to show it."""
    watched, until_s = _Watched(), math.inf
    with selectors.DefaultSelector() as selector:
        running = {rank.number: rank for rank in ranks}
        for rank in ranks:
            selector.register(rank.exit_fd, selectors.EVENT_READ, rank)
            selector.register(rank.events_fd, selectors.EVENT_READ, rank)
        while running and time.monotonic() < until_s:
            for key, _ in selector.select(TICK_S):
                rank = key.data
                if key.fd == rank.exit_fd:
                    selector.unregister(rank.exit_fd)
                    _note_end(watched, running.pop(rank.number))
                elif not _heard(rank, silent_s):
                    selector.unregister(rank.events_fd)
                elif rank.number == 0 and rank.heard is not None:
                    _tell(rank.heard, events_fd, bar)
            for rank in running.values():
                _note_result(watched, rank)
            silent = [one for one in running.values() if not one.is_done]
            if not watched.failures and any(_is_late(one, silent_s) for one in silent):
                watched.failures.append(_hanging(silent, list(running.values())))
                return watched
            if watched.failures or not silent:
                patience_s = SETTLE_S if watched.failures else EXIT_S
                until_s = min(until_s, time.monotonic() + patience_s)
    return watched


def _heard(rank: _Rank, silent_s: float) -> bool:
    """Take what a rank told; return False once it tells no more."""
    chunk = os.read(rank.events_fd, LONGEST_EVENT_B)
    *lines, rest = (rank.pending + chunk).split(b"\n")
    rank.pending = rest[-LONGEST_EVENT_B:]
    for line in lines:
        with suppress(ValidationError):
            rank.heard = RankEvent.model_validate_json(line)
            rank.due_s = time.monotonic() + silent_s
    return bool(chunk)


def _is_late(rank: _Rank, silent_s: float) -> bool:
    """Return True if a sign of life is due; of a stopped rank none comes, also before its first."""
    now_s = time.monotonic()
    if not _is_stopped(rank.process.pid):
        rank.stopped_at_s = None
    elif rank.stopped_at_s is None:
        rank.stopped_at_s = now_s
    stopped_s = 0.0 if rank.stopped_at_s is None else now_s - rank.stopped_at_s
    return rank.due_s < now_s or stopped_s > silent_s


def _is_stopped(pid: int) -> bool:
    """Read the state of a child that has not been waited for."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"


def _tell(event: RankEvent, events_fd: int | None, bar: ProgressBar | None) -> None:
    """Pass rank 0's progress on, to the supervisor or to a person."""
    if bar is not None:
        bar.show(event.progress)
    if events_fd is not None:
        told = contracts.Event(at_s=event.at_s, progress=event.progress)
        with suppress(OSError):
            os.write(events_fd, told.model_dump_json().encode() + b"\n")


def _note_end(watched: _Watched, rank: _Rank) -> None:
    """Note the Result of a rank that has ended, or why there is none.

    Raises:
        NoDevice: it cannot use its device.
    """
    code = rank.process.wait()
    _note_result(watched, rank)
    if rank.is_done:
        return
    if code == exits.NO_DEVICE:
        raise exits.NoDevice(f"Rank {rank.number} cannot use its device; the line above says why.")
    if code < 0:
        more = ", most likely because memory ran out" if -code == signal.SIGKILL else ""
        status, sentence = Status.CRASHED, f"It was killed by {signal.Signals(-code).name}{more}."
    else:
        status = Status.RUNTIME_ERROR if code else Status.GARBAGE
        sentence = f"It ended with exit code {code} and told no Result."
    watched.failures.append(_Failure(rank.number, status, sentence))


def _note_result(watched: _Watched, rank: _Rank) -> None:
    """Note a rank's Result as soon as it is out; the process may take seconds to end."""
    file = rank.stdout.fileno()
    if rank.is_done or not (size := os.fstat(file).st_size):
        return
    printed = os.pread(file, size, 0)  # the rank writes at the place where a seek would lead
    if not printed.endswith(b"\n"):
        return
    line = printed.rstrip().rpartition(b"\n")[2]
    with suppress(ValidationError):
        result = Result.model_validate_json(line)
        rank.is_done = True
        if result.status is Status.OK:
            watched.results[rank.number] = line
            return
        of_a_peer = contracts.PEER_GONE in result.flags
        failure = _Failure(rank.number, result.status, result.reason, result, of_a_peer)
        watched.failures.append(failure)


def _hanging(silent: Sequence[_Rank], running: Sequence[_Rank]) -> _Failure:
    """The failure of a rank that is stopped, or is behind the others, or is silent longest."""
    rank = min(silent, key=lambda one: (one.stopped_at_s is None, one.position, one.due_s))
    where = "before it began"
    if rank.heard is not None:
        where = f"phase {rank.heard.progress.phase}, step {rank.heard.progress.step}"
    alone = all(other.position > rank.position for other in silent if other is not rank)
    behind = ", behind the others" if alone and len(silent) > 1 else ""
    sentence = f"It hangs{behind} ({where})."
    return _Failure(rank.number, Status.TIMEOUT, sentence, log_tail=_evidence(running))


def _evidence(running: Sequence[_Rank]) -> str:
    """Ask each rank for what it is doing; those that cannot answer are named."""
    hang.question(running[0].rendezvous).touch()
    answers = {one.number: hang.answer(one.rendezvous, one.number) for one in running}
    until_s = time.monotonic() + ANSWER_S
    while time.monotonic() < until_s and not all(path.exists() for path in answers.values()):
        time.sleep(TICK_S)
    told = []
    for number, path in answers.items():
        said = path.read_text() if path.exists() else "It does not answer.\n"
        told.append(f"Rank {number}:\n{said[-LONGEST_TAIL // len(answers) :]}")
    return "\n".join(told)


def _cause(failures: Sequence[_Failure]) -> _Failure:
    """The failure that the others followed from: the first of a rank that did not lose another."""
    return next((one for one in failures if not one.of_a_peer), failures[0])


def _result(spec: ProcessSpec, watched: _Watched, world: int) -> Result:
    if watched.failures:
        return _failed(spec, _cause(watched.failures), world)
    return Result.model_validate_json(watched.results[0])


def _finished(spec: ProcessSpec, told: Mapping[str, Result]) -> Result:
    """The gang's Result with its scaling efficiency, where one GPU alone could be measured, and its
    account, where all parts could. It says so if passes beside timing were left out."""
    gang, alone = told[GANG], told.get(SINGLE)
    if gang.status is not Status.OK:
        return gang
    flags, samples = list(gang.flags), list(gang.samples)
    if spec.protocol != spec.protocol.timing_only() or spec.trace is not None:
        flags.append(ONE_PROCESS_ONLY)
    if alone is not None and alone.status is Status.OK:
        reached, single = (one.replicates[0].full.rate for one in (gang, alone))
        samples.append(sample("scaling_efficiency", reached / (spec.case.gpus * single)))
    elif alone is not None:
        flags.append(NOT_ALONE)
    update: dict[str, object] = {"flags": tuple(flags), "samples": tuple(samples)}
    if BESIDE in told and all(one.status is Status.OK for one in told.values()):
        drawn_up = account(gang, told[SINGLE], told[BESIDE], told.get(APART))
        accounted = gang.replicates[0].model_copy(update={"account": drawn_up})
        update["replicates"] = (accounted,)
    return gang.model_copy(update=update)


def _failed(spec: ProcessSpec, cause: _Failure, world: int) -> Result:
    """The Result of a gang that failed because of one rank."""
    refused = cause.status is Status.UNSUPPORTED  # it says all in one sentence
    reason = cause.reason if refused else f"Rank {cause.rank} of {world}: {cause.reason}"
    update = {"status": cause.status, "reason": contracts.line(reason), "flags": ()}
    if cause.log_tail:
        update["log_tail"] = cause.log_tail
    empty = Result(
        case=spec.case,
        status=cause.status,
        measured_at=datetime.now(UTC),
        protocol=spec.protocol,
        environment=contracts.Environment(facts={}),
    )
    return (cause.result or empty).model_copy(update=update)


def _kill(ranks: Sequence[_Rank]) -> None:
    """Kill all ranks with what they started, and collect them."""
    if not ranks:
        return
    with suppress(ProcessLookupError):
        os.killpg(ranks[0].process.pid, signal.SIGKILL)
    for rank in ranks:
        rank.process.kill()
        with suppress(subprocess.TimeoutExpired):  # stuck in a driver; the worker tells of it
            rank.process.wait(SETTLE_S)
