"""One side of a duet: short windows in turn with another process on the same device.

Both processes stay resident. The one whose turn it is runs; the other one waits at a socket, and
its loader processes are stopped meanwhile. The sides alternate A B, B A, A B ..., so that a drift
favours neither.

A side may be a gang. Its rank 0 is at the socket; the others learn from it what came.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from benchmarks.contracts import DuetSide, Turn
from benchmarks.measure import loop
from benchmarks.measure.ranks import Solo, lowest
from benchmarks.measure.sm_clock import SpanClock
from benchmarks.measure.trainer import Trainer

LEAD_STEPS = 2
"""Steps at the start of a window that do not count: the device's queue is empty before them."""
LONG_S = 0.2
"""Length from which one uncounted step starts a window, and the host queues one step ahead."""
LEAD_TURNS = 1
"""First turns of each side that do not count: clock and caches settle into the alternation."""
BUSY = 0.5
"""Processors that a waiting side may use: a thread that goes on working takes one."""
STARVED = 0.05
"""Share of a window from which waiting for the loader decides how long a window lasts."""
_HERE, _BATON = b"h", b"b"
GONE = "The other side of the pair ended before its time."


class OtherSideGone(Exception):
    """The other side of the duet ended before its time."""


class Baton:
    """Passed between the two sides: only its holder uses the device."""

    def __init__(
        self, side: DuetSide, rank: int = 0, any_of: Callable[[bool], bool] = lambda own: own
    ) -> None:
        """``any_of`` waits for all ranks of this side, and says whether any of them said so."""
        self.side = side
        self._socket = socket.socket(fileno=side.socket_fd) if rank == 0 else None
        self._any_of = any_of
        self._first = side.first
        self._holding = side.first
        self._arrived: Counter[bytes] = Counter()
        self._waited_s = self._worked_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def meet(self) -> None:
        """Wait until the other side is as far as this one.

        Raises:
            OtherSideGone: it ended.
        """
        self._send(_HERE)
        self._await(_HERE)

    def turns(self, count: int) -> Iterator[int]:
        """Yield 0, 1, ... when it is this side's turn: A0, B0, B1, A1, A2, B2 ...

        Raises:
            OtherSideGone: it ended.
        """
        for number in range(count):
            for first in (True, False) if number % 2 == 0 else (False, True):
                if first == self._first:
                    self._take()
                    yield number
                else:
                    self._hand_over()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the baton for work that needs the device alone; the other side waits for it, if it
        asks for the same."""
        with suppress(OtherSideGone):  # then there is nobody to wait for
            self._take()
        yield
        with suppress(OtherSideGone):
            self._hand_over()

    @property
    def busy_while_waiting(self) -> bool:
        """Return True if this process worked while the other side was at it."""
        return self._worked_s > BUSY * self._waited_s > 0

    def _take(self) -> None:
        if not self._holding:
            from_s, cpu_s = time.perf_counter(), time.process_time()
            self._await(_BATON)
            self._waited_s += time.perf_counter() - from_s
            self._worked_s += time.process_time() - cpu_s
            self._holding = True

    def _hand_over(self) -> None:
        if self._holding:
            self._holding = False
            self._send(_BATON)

    def _send(self, what: bytes) -> None:
        """Send ``what``, once all ranks are done."""
        self._insist_on_other_side(is_gone=False)
        is_gone = False
        if self._socket is not None:
            try:
                self._socket.sendall(what)
            except OSError:
                is_gone = True
        self._insist_on_other_side(is_gone=is_gone)

    def _await(self, what: bytes) -> None:
        """Take what the other side sent, in whichever order it came."""
        is_gone = False
        while self._socket is not None and not self._arrived[what] and not is_gone:
            arrived = b""
            with suppress(OSError):
                arrived = self._socket.recv(1)
            is_gone = not arrived
            self._arrived[arrived] += 1
        self._insist_on_other_side(is_gone=is_gone)
        self._arrived[what] -= 1

    def _insist_on_other_side(self, *, is_gone: bool) -> None:
        """Wait for all ranks; raise on all of them or on none, as what follows may need them all.

        Raises:
            OtherSideGone: a rank knows that it is gone.
        """
        if self._any_of(is_gone):
            raise OtherSideGone(GONE)


@dataclass
class WindowRule:
    """Ends each window of a side as soon as the steps that count will take ``turn_s``.

    Those that are queued by then run in any case, and count. Each of them is taken to last as long
    as the fastest step so far, those of earlier windows included, so that a slow one ends no window
    early.

    Where steps wait for the loader, a window counts whole rounds of its processes: they deliver
    together, so that five steps of four processes would wait once or twice.
    """

    turn_s: float
    loaders: int = 0
    """Processes of the loader."""
    lead: int = LEAD_STEPS
    """First steps of the window that do not count."""
    was_starved: bool = False
    """The last window waited for the loader."""
    _fastest_s: float = math.inf
    _counted_s: float = 0.0
    _waited_s: float = 0.0

    def begin(self) -> int:
        """Begin a window; returns how many of its steps do not count. As many are queued ahead."""
        self.was_starved = self._is_starved()
        self._counted_s = self._waited_s = 0.0
        self.lead = 1 if LONG_S <= self._fastest_s < math.inf else LEAD_STEPS
        return self.lead

    def __call__(self, times: loop.StepTimes) -> bool:
        """Say whether the window may end; called once per finished step."""
        done, last_s = len(times.step), times.step[-1]
        if done > self.lead:
            self._counted_s += last_s
            self._waited_s += times.stall[-1]
        self.learn(last_s)
        queued = min(done, self.lead)  # and counted, so that as many count as are finished now
        if self._counted_s + queued * self._fastest_s < self.turn_s:
            return False
        return not (self._is_starved() and done % self.loaders)

    def steps(self) -> int:
        """Return how many steps fill the window that begins now: whole rounds of the loader if the
        last one waited for it."""
        known = self._fastest_s < math.inf
        steps = max(1, math.ceil(self.turn_s / self._fastest_s)) if known else 1
        rounds_of = max(1, self.loaders) if self.was_starved else 1
        return math.ceil(steps / rounds_of) * rounds_of

    def learn(self, *step_s: float) -> None:
        """Note steps, such as those that were queued when a window ended."""
        self._fastest_s = min(self._fastest_s, *step_s)

    def _is_starved(self) -> bool:
        return self.loaders > 0 and self._waited_s > STARVED * self._counted_s


def run_turns(
    trainer: Trainer,
    batches: Iterator[Sequence[Tensor]],
    baton: Baton,
    clock: SpanClock,
    ranks: Solo,
    tell: Callable[[int], None],
    rest: Callable[[], None] = lambda: None,
) -> tuple[list[Turn], float]:
    """Run this side's turns; returns those that count, and the loss of the last step.

    Args:
        trainer: what steps; warm, and at its initial weights.
        batches: without end, from the loader.
        baton: says when it is this side's turn, how many there are, and how long they are.
        clock: counts the device's cycles.
        ranks: the others of this side; a turn is told by the one that took longest.
        tell: called with the number of the turn at each step.
        rest: called after each turn.

    Raises:
        OtherSideGone: the other side ended.
    """
    side, turns = baton.side, list[Turn]()
    loss = math.nan
    rule, number = WindowRule(side.turn_s, len(multiprocessing.active_children())), 0

    def enough(times: loop.StepTimes) -> bool:
        tell(number)
        return rule(times)

    _signal_loader(signal.SIGSTOP)
    try:
        baton.meet()
        for number in baton.turns(LEAD_TURNS + side.turns):
            tell(number)
            lead, ends = _agreed(rule, enough, ranks)
            _signal_loader(signal.SIGCONT)
            timed = loop.run(trainer, batches, ends, clock, lead, lead)
            _signal_loader(signal.SIGSTOP)
            rule.learn(*timed.times.step)
            loss = timed.loss
            if number >= LEAD_TURNS:
                turns.append(_slowest(ranks.of_all(_turn(timed, lead))))
            rest()
    finally:
        _signal_loader(signal.SIGCONT)  # a process that is stopped cannot be ended in peace
    return turns, loss


def _agreed(
    rule: WindowRule, enough: Callable[[loop.StepTimes], bool], ranks: Solo
) -> tuple[int, Callable[[loop.StepTimes], bool]]:
    """Begin a window; returns how many of its steps do not count, and what ends it.

    Ranks wait for each other in each step, so that all of them have to make as many.
    """
    rule.lead = round(ranks.most(rule.begin()))
    if ranks.world == 1:
        return rule.lead, enough
    rule.was_starved = bool(ranks.most(rule.was_starved))
    steps = round(ranks.most(rule.steps()))

    def made(times: loop.StepTimes) -> bool:
        enough(times)
        return len(times.step) >= steps

    return rule.lead, made


def _slowest(told: Sequence[Turn]) -> Turn:
    """The turn of the rank that took longest, with the lowest clock: ranks wait for each other, so
    that all take as long as the one whose clock is lowest."""
    slowest = max(told, key=lambda one: one.step_s)
    return slowest.model_copy(update={"sm_clock_hz": lowest(one.sm_clock_hz for one in told)})


def _turn(timed: loop.TimedPass, lead: int) -> Turn:
    steps = timed.times.step[lead:]
    return Turn(
        window=timed.window,
        steps=len(steps),
        step_s=math.fsum(steps) / len(steps),
        sm_clock_hz=timed.sm_clock_hz,
    )


def _signal_loader(number: signal.Signals) -> None:
    """Stop the loader's processes, or let them go on.

    In the other side's turn they would prepare batches, and this side would find a queue that its
    loader cannot keep full.
    """
    for process in multiprocessing.active_children():
        if process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
