"""Ranks of a gang: how one joins, times blocks together with the others, and agrees with them.

Ranks meet before each block and exchange times after it, over gloo on the host. Within a block
nothing is exchanged but what the training itself exchanges.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.profiler import record_function

from benchmarks import contracts
from benchmarks.catalog.catalog import Refused
from benchmarks.measure import loop
from benchmarks.measure.profile import collectives, recording, timeline
from benchmarks.measure.sm_clock import SpanClock
from benchmarks.measure.timestamps import drain
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Recipe

T = TypeVar("T")

LEAD_STEPS = loop.RUN_AHEAD
"""Steps at the start of a block that do not count: the device's queue is empty before them."""
_OF_A_PEER = re.compile(r"gloo|NCCL|[Cc]onnection (closed|reset|refused)|Broken pipe|TCPStore")
ACCOUNT_TURNS = 5
"""Times that two blocks with exchange and two without are timed."""
TRACED_STEPS = 10
"""Steps that each rank profiles, after as many as do not count in a block."""
GONE = "Another rank of the gang went away."
_SEEDS_APART = 100_003
"""Between the seeds that ranks draw random numbers from."""
_LISTS = ("step", "stall", "copy", "work", "enqueue", "drained", "transfer")


class Solo:
    """A process that measures by itself."""

    rank, world = 0, 1

    def run(
        self,
        trainer: Trainer,
        feed: Iterator[Sequence[Tensor]],
        enough: Callable[[loop.StepTimes], bool],
        block_steps: int,  # noqa: ARG002 - of a gang
        clock: SpanClock,
    ) -> loop.TimedPass:
        """As `loop.run`."""
        return loop.run(trainer, feed, enough, clock)

    def exchange(
        self,
        trainer: Trainer,  # noqa: ARG002 - of a gang
        feed: Iterator[Sequence[Tensor]],  # noqa: ARG002
        block_steps: int,  # noqa: ARG002
        clock: SpanClock,  # noqa: ARG002
    ) -> Sequence[contracts.GangBlock]:
        """Return blocks with and without exchange; none without ranks."""
        return ()

    def traced(
        self,
        trainer: Trainer,  # noqa: ARG002 - of a gang
        feed: Iterator[Sequence[Tensor]],  # noqa: ARG002
    ) -> contracts.GangTrace | None:
        """Profile a few steps on each rank; None without ranks."""
        return None

    def most(self, value: float) -> float:
        """Return the largest of all ranks' values."""
        return max(self.of_all(value))

    def of_all(self, value: T | None) -> list[T]:
        """Return every rank's value that has one, by rank."""
        return [] if value is None else [value]

    def seed(self, seed: int, replicas: int) -> int:  # noqa: ARG002 - of a gang
        """Return the seed of what a step draws at random; ``replicas`` draw differently."""
        return seed

    def leave(self) -> None:
        """Wait for all others, and part."""


@dataclass(frozen=True)
class _Counted:
    """The steps of a block that count, on one rank."""

    times: loop.StepTimes
    wall_s: float
    """Their length by the host's clock."""
    sm_clock_hz: float | None


@dataclass
class _Blocks:
    """The blocks so far: the slowest rank's times of each, and every rank's own means."""

    times: loop.StepTimes = field(default_factory=loop.StepTimes)
    wall_s: float = 0.0
    own: list[list[tuple[float, float]]] = field(default_factory=list)
    told: list[contracts.GangBlock] = field(default_factory=list)

    def take(self, block: Sequence[_Counted]) -> loop.StepTimes:
        """Add a block, given as each rank timed it; return the times of the slowest rank."""
        slowest = max(block, key=lambda one: sum(one.times.step))
        self.wall_s += slowest.wall_s
        self.own.append([(sum(one.times.step), sum(one.times.stall)) for one in block])
        self.told.append(_block(block))
        return slowest.times

    def ranks(self) -> tuple[contracts.RankTimes, ...]:
        """Each rank's own times, means over all steps."""
        steps = len(self.times.step)
        sums = (
            [sum(kind) / steps for kind in zip(*one, strict=True)]
            for one in zip(*self.own, strict=True)
        )
        return tuple(
            contracts.RankTimes(step_s=step, stall_s=max(0.0, stall)) for step, stall in sums
        )


class Gang(Solo):
    """One rank among others."""

    def __init__(
        self, place: contracts.GangRank, device: torch.device, passed: Callable[[], None]
    ) -> None:
        """Wait for all ranks. ``passed`` counts the places where they meet."""
        self.rank, self.world, self._passed = place.rank, place.world, passed
        own = device if device.type == "cuda" else None
        if own is None:  # together they have as many threads as one process would have
            torch.set_num_threads(max(1, torch.get_num_threads() // place.world))
        dist.init_process_group(
            "nccl" if own else "gloo",
            init_method=f"file://{place.rendezvous}",
            rank=place.rank,
            world_size=place.world,
            device_id=own,
        )
        # What the harness agrees on takes no room in the device's queue.
        self._host = dist.new_group(backend="gloo")

    def run(
        self,
        trainer: Trainer,
        feed: Iterator[Sequence[Tensor]],
        enough: Callable[[loop.StepTimes], bool],
        block_steps: int,
        clock: SpanClock,
    ) -> loop.TimedPass:
        """Run blocks of ``block_steps`` until rank 0's ``enough`` says so. The time of a block is
        that of the rank that took longest."""
        blocks, timed, over = _Blocks(), [], False
        while not over:
            timed.append(self._block(trainer, feed, block_steps, clock))
            slowest = blocks.take(self.of_all(_counted(timed[-1])))
            for number in range(block_steps):
                for name in _LISTS:
                    if values := getattr(slowest, name):
                        getattr(blocks.times, name).append(values[number])
                over = enough(blocks.times) or over
            over = self._as_rank_0(over)
        return self._joined(trainer, blocks, timed)

    def exchange(
        self,
        trainer: Trainer,
        feed: Iterator[Sequence[Tensor]],
        block_steps: int,
        clock: SpanClock,
    ) -> Sequence[contracts.GangBlock]:
        """Return blocks with and without exchange in turn."""
        blocks = []
        for exchanges in (True, False, False, True) * ACCOUNT_TURNS:
            trainer.exchanges = exchanges
            timed = self._block(trainer, feed, block_steps, clock)
            blocks.append(_block(self.of_all(_counted(timed)), exchanges=exchanges))
        trainer.exchanges = True
        return blocks

    def _block(
        self,
        trainer: Trainer,
        feed: Iterator[Sequence[Tensor]],
        block_steps: int,
        clock: SpanClock,
    ) -> loop.TimedPass:
        drain(trainer.device)
        self.meet()
        return loop.run(trainer, feed, _after(block_steps), clock, LEAD_STEPS, LEAD_STEPS)

    def traced(self, trainer: Trainer, feed: Iterator[Sequence[Tensor]]) -> contracts.GangTrace:
        """Profile a few steps on each rank, with ddp also without exchange; absent with its reason
        if a trace cannot be read."""
        gang = self._events(trainer, feed)
        is_ddp = trainer.recipe.parallel == "ddp"
        apart = self._events(trainer, feed, exchanges=False) if is_ddp else None
        return collectives.paired(self.of_all(_read(gang, apart)))

    def _events(
        self, trainer: Trainer, feed: Iterator[Sequence[Tensor]], *, exchanges: bool = True
    ) -> list[dict[str, Any]] | str:
        """Trace events of a few steps, or why their trace could not be made. Ranks meet within the
        profiler, which begins at different times on each."""
        stepped = False

        def steps() -> None:
            nonlocal stepped
            drain(trainer.device)
            self.meet()
            for number in range(LEAD_STEPS + TRACED_STEPS + 1):  # the last one ends those before
                with record_function(f"{timeline.STEP}{number}"):
                    trainer.step(trainer.place(next(feed)))
            stepped = True

        trainer.exchanges = exchanges
        try:
            return recording.traced(trainer.device, steps)
        except Exception as error:
            if not stepped:  # the training failed, or another rank
                raise
            return recording.sentence("A rank's trace could not be made", error)
        finally:
            trainer.exchanges = True

    def meet(self) -> None:
        """Wait until all ranks are here."""
        self._passed()
        dist.barrier(self._host)

    def seed(self, seed: int, replicas: int) -> int:
        """Return the seed of what a step draws at random; ``replicas`` draw differently."""
        return seed + _SEEDS_APART * (self.rank % replicas)

    def leave(self) -> None:
        """Wait for all others, and part."""
        self.meet()
        dist.destroy_process_group()

    def _joined(
        self, trainer: Trainer, blocks: _Blocks, timed: Sequence[loop.TimedPass]
    ) -> loop.TimedPass:
        clocks = [one.sm_clock_hz for one in timed if one.sm_clock_hz is not None]
        pressures = [one.cpu_pressure for one in timed if one.cpu_pressure is not None]
        compiles = [one.compile_s for one in timed if one.compile_s is not None]
        return loop.TimedPass(
            times=blocks.times,
            window=contracts.Window(start_s=timed[0].window.start_s, end_s=timed[-1].window.end_s),
            wall_s=blocks.wall_s,
            cpu_pressure=statistics.fmean(pressures) if pressures else None,
            loss=statistics.fmean(self.of_all(timed[-1].loss if trainer.knows_loss else None)),
            sm_clock_hz=statistics.fmean(clocks) if clocks else None,
            compile_s=sum(compiles) if compiles else None,
            ranks=blocks.ranks(),
            blocks=tuple(blocks.told),
        )

    def _as_rank_0(self, decision: bool) -> bool:
        told = [decision]
        dist.broadcast_object_list(told, src=0, group=self._host)
        return told[0]

    def of_all(self, value: T | None) -> list[T]:
        """Return every rank's value that has one, by rank."""
        self._passed()
        values: list[T | None] = [None] * self.world
        dist.all_gather_object(values, value, self._host)
        return [one for one in values if one is not None]


def with_share(recipe: Recipe) -> Recipe:
    """``recipe`` with the batch that each rank has of what all do in a step.

    Raises:
        Refused: the ranks cannot share it equally.
    """
    together = recipe.batch if recipe.strong_scaling else recipe.batch * recipe.gpus
    if together % recipe.replicas:
        raise Refused(
            f"scaling=strong needs a batch that {recipe.gpus} GPUs can share, and this case has "
            f"{recipe.batch}."
        )
    return replace(recipe, batch=together // recipe.replicas)


def is_of_a_peer(error: BaseException) -> bool:
    """Return True if ``error`` says no more than that another rank went away."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, dist.DistError) or _OF_A_PEER.search(str(link)):
            return True
        link = link.__cause__
    return False


def _read(
    gang: Sequence[timeline.Event] | str, apart: Sequence[timeline.Event] | str | None
) -> collectives.RankSteps | str:
    """This rank's traced steps, or why they cannot be read."""
    if isinstance(gang, str):
        return gang
    if isinstance(apart, str):
        return apart
    try:
        return collectives.rank_steps(gang, LEAD_STEPS, apart)
    except Exception as error:  # a trace is worth no measurement: whatever fails, is told
        return recording.sentence("A rank's trace could not be read", error)


def _after(steps: int) -> Callable[[loop.StepTimes], bool]:
    return lambda times: len(times.step) >= steps


def exchange_s(blocks: Sequence[contracts.GangBlock]) -> float | None:
    """Return the seconds that exchange adds to a step, as measured; None without blocks."""
    if not blocks:
        return None
    sending, silent = (
        [one.step_s for one in blocks if one.exchanges is is_on] for is_on in (True, False)
    )
    return statistics.fmean(sending) - statistics.fmean(silent)


def _counted(timed: loop.TimedPass) -> _Counted:
    lists = {name: getattr(timed.times, name)[LEAD_STEPS:] for name in _LISTS}
    wall_s = timed.wall_s - math.fsum(timed.times.step[:LEAD_STEPS])
    return _Counted(loop.StepTimes(**lists), wall_s, timed.sm_clock_hz)


def _block(told: Sequence[_Counted], *, exchanges: bool = True) -> contracts.GangBlock:
    return contracts.GangBlock(
        step_s=max(statistics.fmean(one.times.step) for one in told),
        sm_clock_hz=lowest(one.sm_clock_hz for one in told),
        exchanges=exchanges,
    )


def lowest(clocks: Iterable[float | None]) -> float | None:
    """Return the lowest of the ranks' clocks; None if one is not known."""
    known = list(clocks)
    return None if None in known else min(one for one in known if one is not None)
