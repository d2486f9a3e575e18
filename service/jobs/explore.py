"""Submits cases that no suite measures, where a faster one may be: a search within a budget."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import combinations

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog import catalog, precision_tiers
from benchmarks.catalog.duration import expected_s
from service.analysis.exploration import MeasuredCase, plan
from service.history import ranking
from service.history.best import rankings
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.models import Job

PROTOCOL = precision_tiers.timed(
    precision_tiers.Tier.QUICK, contracts.Protocol(efficiency=True, parity=True)
)
"""One process; a case that changes the numbers is no speed-up."""
PRIORITY = -10
"""After everything else that waits."""
MOST_GROUPS = 4
"""Workloads and kinds of hardware that share what is left of the budget, at most: a compiled case
takes a minute and a half."""
MOST_CHANGES = 2
"""Axes on which a candidate differs from the best case."""
AUTO = "auto"
"""The preset under which cases wait whose device is not known."""
_NOT_VARIED = ("batch", "lengths", "kernel")
"""Another training, two of them; a name that only the workload knows. Nor are devices varied."""


def explore(session: Session, request: SubmissionRequest, budget_s: float, now: datetime) -> int:
    """Submit the cases from which most may be gained, for each workload and kind of hardware.

    The best case of each is varied by one or two axes; a model of what was measured lately chooses
    (`service.analysis.exploration`). Returns how many cases were submitted.

    Args:
        session: to read and to submit in.
        request: whose revision, project, labels and source they have.
        budget_s: seconds of the devices in all, as protocols say; the groups share it.
        now: the time.
    """
    groups = [one for one in rankings(session, now) if _is_for(one, request)]
    first = now.toordinal() % max(1, len(groups))
    groups = groups[first:] + groups[:first]  # where time is short, others are tried each night
    avoided = _avoided(session, request.project or "", now)
    count = 0
    for left, group in zip(range(len(groups), 0, -1), groups, strict=True):
        cases, spent_s = _chosen(group, avoided, budget_s / min(left, MOST_GROUPS))
        budget_s -= spent_s
        if cases:
            requires = request.requires | _labels(group)
            update = {"cases": cases, "requires": requires, "protocol": PROTOCOL}
            purpose = {"purpose": contracts.Purpose.HISTORY, "priority": PRIORITY}
            submit(session, request.model_copy(update=update | purpose), now)
            count += len(cases)
    return count


def _chosen(
    group: ranking.Ranking, avoided: frozenset[str], budget_s: float
) -> tuple[tuple[contracts.Case, ...], float]:
    measured = [MeasuredCase(one.series.case, one.point.value) for one in group.standings]
    device = group.best.comparability.get("hw.device", "")
    lasts_s = {
        case.key: (case, expected_s(case, PROTOCOL))
        for case in candidates(group.best.best.case, device)
        if avoided.isdisjoint({case.key, case.model_copy(update={"preset": AUTO}).key})
    }
    planned = [trial.case for trial in plan(measured, list(lasts_s.values()), budget_s)]
    return tuple(planned), sum(lasts_s[case.key][1] for case in planned)


def candidates(best: contracts.Case, device: str) -> Iterator[contracts.Case]:
    """Yield ``best`` and the cases that differ from it on one or two axes and can run there.

    A batch or another size stays: it is another training.
    """
    yield best
    moves = [
        (name, value)
        for name, axis in catalog.axes().items()
        if not axis.size and axis.role != "devices" and name not in _NOT_VARIED
        for value in axis.values
        if value != best.axes.get(name, axis.default)
    ]
    for changes in range(1, MOST_CHANGES + 1):
        for chosen in combinations(moves, changes):
            if len(dict(chosen)) == changes:
                moved = best.model_copy(update={"axes": best.axes | dict(chosen)})
                try:
                    yield catalog.normalise(moved, device or None)
                except catalog.Refused:
                    continue


def _is_for(group: ranking.Ranking, request: SubmissionRequest) -> bool:
    """Return True if a group is of the request's project and of hardware that it may run on."""
    labels = _labels(group)
    met = all(labels.get(name, value) == value for name, value in request.requires.items())
    return group.best.project == (request.project or "") and met


def _labels(group: ranking.Ranking) -> dict[str, str]:
    """Name the workers that have the hardware of a group, by the labels that each sets itself."""
    facts = group.best.comparability
    named = {"device": facts.get("hw.device"), "gpu": facts.get("hw.gpu.name")}
    return {name: value for name, value in named.items() if value}


def _avoided(session: Session, project: str, now: datetime) -> frozenset[str]:
    """Find the keys of cases that wait or run already, and of those that failed lately."""
    failed = (Job.state == contracts.JobState.FAILED) & (Job.finished_at >= now - ranking.LATELY)
    query = select(Job.case_key).where(Job.project == project)
    return frozenset(
        session.scalars(query.where(failed | Job.state.not_in(contracts.FINAL_STATES)))
    )
