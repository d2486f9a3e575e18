"""Chooses the cases that get the next pairs: a budget is spent where it may still decide."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from service.analysis.gate.decision import Case
from service.analysis.gate.forecast import settled
from service.analysis.gate.metrics import Levels
from service.analysis.gate.pairs import CaseRecord
from service.analysis.gate.sequential import Looks, half_width
from service.schemas.gate import MetricFinding
from service.schemas.policy import Limit, Policy


def next_places(
    cases: Sequence[Case],
    records: Sequence[CaseRecord],
    policy: Policy,
    affordable: Sequence[float],
    among: Collection[int] | None = None,
) -> list[int]:
    """Return the places of the open cases that are measured next.

    The first that was tried less than ``min_pairs`` times: its pairs follow each other, so that the
    next pair's processes are foreseen and load meanwhile, and a short budget decides some cases
    instead of none. Then one at a time, in rounds: first the closest to its limit of those that a
    last look would not decide yet. What even all that is left would not decide gives way.

    A last look spends all that is left of a case's error, which is exact only where the pairs' own
    values do not choose its time. So being close moves a case within its round and no further; in
    simulated gates no error became more frequent (the tests have some). The closest first in every
    round decided fewer cases: pairs went to those that their last look would have decided.

    Args:
        cases: as decided by the pairs so far.
        records: the pairs of each that were begun, and what was known of their noise.
        policy: of the gate.
        affordable: pairs of each that what is left of the budget has time for.
        among: the places to choose from; by default all.
    """
    tried = [len(record.pairs) for record in records]
    may = range(len(cases)) if among is None else among
    open_ = [place for place in may if not cases[place].settled]
    if first := [place for place in open_ if tried[place] < policy.min_pairs]:
        return first[:1]
    levels = Levels.of(policy, [case.case_key for case in cases])
    to_go = {place: pairs_to_go(cases[place], records[place], policy, levels) for place in open_}

    def order(place: int) -> tuple[bool, int, bool, float]:
        needed = to_go[place]
        return needed > affordable[place], tried[place], not needed, needed

    return sorted(open_, key=order)[:1]


def pairs_to_go(case: Case, record: CaseRecord, policy: Policy, levels: Levels) -> float:
    """Return after how many further pairs a last look decides, if they say what the others said.

    Infinite where even the most pairs do not. Trades are not reckoned with.
    """
    found = {finding.metric: finding for finding in case.metrics}
    limits = policy.rule_of(case.case_key).limits
    if not all(limit.metric in found for limit in limits):
        return max(levels.min_pairs - case.pairs, 1)
    return max(_of_limit(found[limit.metric], limit, levels, record) for limit in limits)


def _of_limit(finding: MetricFinding, limit: Limit, levels: Levels, record: CaseRecord) -> float:
    middle, noise = math.log1p(max(finding.change, -0.999)), finding.noise
    if not finding.consistent or noise is None:
        return math.inf
    prior = record.known.prior(limit.metric, at_one_clock=finding.clock is not None)
    few = levels.min_pairs, levels.max_pairs
    for count in range(finding.pairs, levels.max_pairs + 1):
        strict, plain = (
            _look(middle, half_width(noise, count, error, *few, prior))
            for error in (levels.strict, levels.plain)
        )
        if settled(strict, plain, limit=limit)[0][0]:
            return count - finding.pairs
    return math.inf


def _look(middle: float, half: float) -> Looks:
    return np.array([middle - half]), np.array([middle + half]), np.array([True])
