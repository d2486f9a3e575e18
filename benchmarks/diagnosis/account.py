"""Draws up the account of a gang's step from the parts of one launch. Pure.

GPUs at their power limit change their clock from part to part by more than some parts are long. How
step time follows the clock is told by the launch's own blocks, and all parts are compared at the
clock that the gang had. What that clock adds is a part of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from benchmarks.contracts import Account, GangBlock, Result
from benchmarks.diagnosis.clock_slope import Values, clock_slope

SURE = 3.0
"""Standard errors by which time must follow the clock: parts' clocks differ by more than those of
the blocks that tell how."""


def account(gang: Result, single: Result, beside: Result, apart: Result | None) -> Account:
    """Return the account of one launch, whose parts were all measured well.

    Args:
        gang: with blocks with and without exchange in turn, if it can do without.
        single: one GPU alone, without a wrapper.
        beside: the same on all GPUs at once.
        apart: all ranks without exchange; None where nothing runs without.
    """
    in_turn = gang.replicates[0].exchange_blocks
    sending = [one for one in in_turn if one.exchanges]
    silent = [one for one in in_turn if not one.exchanges]
    others = [one for one in (single, beside, apart) if one is not None]
    clock = _Clock(_blocks(gang), [*map(_blocks, others), sending, silent])
    single_s, beside_s, gang_s = clock.step_s(single), clock.step_s(beside), _step_s(gang)
    wrapper_s, exchange_s = None, gang_s - beside_s
    if apart is not None and in_turn:
        wrapper_s = clock.step_s(apart) - beside_s
        exchange_s = clock.mean_s(sending) - clock.mean_s(silent)
    return Account(
        single_s=_step_s(single),
        clock_s=single_s - _step_s(single) if clock.slope else None,
        neighbours_s=beside_s - single_s,
        wrapper_s=wrapper_s,
        exchange_s=exchange_s,
        gang_s=gang_s,
    )


class _Clock:
    """Tells step times at the clock of the gang."""

    def __init__(self, gang: Sequence[GangBlock], others: Sequence[Sequence[GangBlock]]) -> None:
        groups = [group for group in (gang, *others) if group]
        known = bool(gang) and all(one.sm_clock_hz for group in groups for one in group)
        logs = [_logs(group) for group in groups] if known else []
        self.slope = clock_slope(logs, SURE) if known else 0.0
        self._gang_hz = _hz(gang) if self.slope else 0.0

    def step_s(self, part: Result) -> float:
        return _step_s(part) * self._factor(_blocks(part))

    def mean_s(self, blocks: Sequence[GangBlock]) -> float:
        return fmean(one.step_s for one in blocks) * self._factor(blocks)

    def _factor(self, blocks: Sequence[GangBlock]) -> float:
        return (self._gang_hz / _hz(blocks)) ** self.slope if self.slope and blocks else 1.0


def _blocks(part: Result) -> Sequence[GangBlock]:
    return part.replicates[0].synth.blocks


def _step_s(part: Result) -> float:
    return part.batch_items / part.replicates[0].synth.rate


def _hz(blocks: Sequence[GangBlock]) -> float:
    return fmean(one.sm_clock_hz or 0.0 for one in blocks)


def _logs(blocks: Sequence[GangBlock]) -> tuple[Values, Values]:
    told = np.log([(one.step_s, one.sm_clock_hz or 1.0) for one in blocks])
    return told[:, 0], told[:, 1]
