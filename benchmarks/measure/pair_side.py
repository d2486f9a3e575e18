"""One side of a duet, from its first step to its last turn.

Both sides are resident and take turns on the device. What needs the device alone, one side does
after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from benchmarks.contracts import Turn
from benchmarks.diagnosis import paired, sanity
from benchmarks.measure import batch_source, conditions
from benchmarks.measure.in_turn import LEAD_TURNS, Baton, run_turns
from benchmarks.measure.passes import Passes, after

WARM_STEPS = 5
"""Steps of a side's warm-up, at least; the first turn, which does not count, goes on with it."""
WARM = 0.4
"""Share of a side's progress at the end of its warm-up."""


@dataclass(frozen=True)
class Side:
    """The measurements of one side of a duet."""

    turns: tuple[Turn, ...]
    peak_memory_b: int
    flags: tuple[str, ...]


class SidePasses(Passes):
    """Runs the passes of one side."""

    def measured(self, seed: int, baton: Baton) -> Side:
        """Measure the side.

        Raises:
            OtherSideGone: the other side ended before its time.
        """
        rank = self.ranks.rank
        batches: Iterator[Sequence[Tensor]] = batch_source.batches(self._trainer.recipe, seed, rank)
        self._first_step_alone(self._first_batches(batches), baton)
        # The other side does the same meanwhile, so nothing here could tell what is steady.
        warmed_up = self.watched("warmup", after(max(self._steps_of_side, self._workers)))
        with self._from_the_start(batches, seed, warmed_up) as warm:
            self.startup["reset"] -= warm.wall_s
            self.startup["warmup"] = warm.wall_s
            conditions.reset_peak(self._device)
            scale, retries = self._trainer.scale, conditions.allocator_retries(self._device)
            turns, loss = self._turns(batches, baton)
        known = self.ranks.of_all(loss if self._trainer.knows_loss else None)
        if not all(map(math.isfinite, known)):
            self._flags.append(f"turns.{sanity.NOT_FINITE}")
        if sanity.lost(scale, self._trainer.scale, sum(turn.steps for turn in turns)):
            self._flags.append(f"turns.{sanity.DISCARDED}")
        if self.ranks.most(conditions.allocator_retries(self._device) - retries) > 0:
            self._flags.append(paired.SHORT_OF_MEMORY)
        if self.ranks.most(baton.busy_while_waiting):
            self._flags.append(paired.BUSY_WHILE_WAITING)
        peak_b, _ = conditions.peak_memory(self._device)
        return Side(tuple(turns), round(self.ranks.most(peak_b)), tuple(self._flags))

    def _first_step_alone(self, batches: Sequence[Sequence[Tensor]], baton: Baton) -> None:
        """Take the first step while the other side waits.

        Libraries and compilers time their algorithms in it: beside another process they would
        choose by chance. Both sides meet before and after, whatever their code does.
        """
        self._reporter.tell("ready", 0.0)
        baton.meet()
        with baton.alone():
            self._first_step(batches)
            self._reporter.tell("ready", 0.1)
        baton.meet()

    def _turns(self, batches: Iterator[Sequence[Tensor]], baton: Baton) -> tuple[list[Turn], float]:
        total = baton.side.turns + LEAD_TURNS

        def tell(number: int) -> None:
            self._reporter.tell("turns", WARM + (1 - WARM) * number / total, number)

        def rest() -> None:  # the other side may take long
            self._reporter.tell("ready", WARM)

        rest()
        return run_turns(self._trainer, batches, baton, self._clock, self.ranks, tell, rest)

    @property
    def _steps_of_side(self) -> int:
        """Steps that warm a side up: a gradient scaler looks for its scale in them."""
        searches = self._trainer.recipe.scale_gradients
        return self.protocol.warmup_min_steps if searches else WARM_STEPS
