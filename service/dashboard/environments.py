"""Fingerprints for people: facts in groups, and what differs between two of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from service.analysis.attribution.environment import DIGESTS, changed
from service.dashboard.figures import EnvironmentMark
from service.schemas.series import SeriesPoint
from service.wording import formats

GROUPS = {"hw": "Hardware", "sw": "Software", "flag": "Settings in force"}


SHOWN = 20
"""How many of the newest changes of a history are listed in full."""
FACTS_SHOWN = 50
"""How many facts of a change a page lists; a driver's update changes five."""


RESTLESS = 0.25
"""What changes at more than this share of a worker's measurements is a reading, and no setting."""
FEW = 2
"""So many changes of a fact on one worker are none too many, however short its history."""
LOOKED_AT = 1_000
"""Newest steps of single workers whose facts are read: a page must not read them without bound."""


@dataclass(frozen=True, slots=True)
class FingerprintDifference:
    """One fact that is not the same before and after, and the workers on which it is not."""

    fact: str
    before: str | None
    after: str | None
    workers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """A place in a history at which the environment of workers changed, numbered as in the chart.

    Each worker is compared with its own past: workers may differ for ever.
    """

    number: int
    before: SeriesPoint
    """The last point before the change, of any worker that changed."""
    after: SeriesPoint
    """The first point after it."""
    workers: tuple[str, ...]
    """Those that changed."""
    everywhere: bool
    """Whether all workers changed that measured before and after."""
    differences: tuple[FingerprintDifference, ...]

    @property
    def facts(self) -> int:
        """How many facts changed; one that workers had otherwise before is one."""
        return len({difference.fact for difference in self.differences})

    @property
    def mark(self) -> EnvironmentMark:
        """Give the change as a mark for the chart."""
        where = "" if self.everywhere else f" on {self.on}"
        return EnvironmentMark(self.before, self.after, f"env {self.number}{where}")

    @property
    def on(self) -> str:
        """The worker that changed, or how many did."""
        count = len(self.workers)
        return self.workers[0] if count == 1 else formats.counted(count, "worker")


@dataclass(frozen=True, slots=True)
class EnvironmentHistory:
    """The changes of environment along a history, and what changes too often to be one."""

    changes: tuple[EnvironmentChange, ...]
    restless: tuple[str, ...]
    """Facts that are another at more than `RESTLESS` of some worker's measurements."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Two measurements of one worker, one after the other, in unlike environments."""

    before: int
    """Index of the first one."""
    after: int
    worker: str
    differences: tuple[FingerprintDifference, ...] = ()

    @property
    def facts(self) -> set[str]:
        return {one.fact for one in self.differences}


def grouped(facts: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """Sort facts into hardware, software and settings, each group under its heading."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for prefix, heading in GROUPS.items():
        members = [
            (name.partition(".")[2], value)
            for name, value in sorted(facts.items())
            if name.startswith(prefix + ".")
        ]
        if members:
            groups[heading] = members
    return groups


def differences(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[FingerprintDifference, ...]:
    """List the facts that differ, in the order of their names."""
    return tuple(
        FingerprintDifference(fact, before.get(fact), after.get(fact))
        for fact in sorted(before.keys() | after.keys())
        if before.get(fact) != after.get(fact)
    )


def own_steps(points: Sequence[SeriesPoint]) -> list[tuple[int, int]]:
    """Give the indexes of each point and of its worker's next one, where their digests differ."""
    return steps_of((point.worker, point.environment) for point in points)


def steps_of(measured: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
    """Give the same for workers and digests, in the order of the history."""
    last: dict[str, tuple[int, str]] = {}
    steps = []
    for index, (worker, environment) in enumerate(measured):
        before, known = last.get(worker, (index, environment))
        if known != environment:
            steps.append((before, index))
        last[worker] = index, environment
    return steps


def around_changes(points: Sequence[SeriesPoint]) -> set[str]:
    """Digests of the environments around the newest steps of workers."""
    newest = own_steps(points)[-LOOKED_AT:]
    return {points[index].environment for step in newest for index in step}


def newest_step(points: Sequence[SeriesPoint]) -> tuple[SeriesPoint, ...]:
    """Give the newest point and its worker's one before, if their digests differ; else nothing."""
    steps = own_steps(points)
    newest = steps[-1] if steps and steps[-1][1] == len(points) - 1 else ()
    return tuple(points[index] for index in newest)


def tells(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return True if a machine's facts say what changed between two of its measurements."""
    return any(d.fact not in DIGESTS for d in changed_facts(before, after))


def changed_facts(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[FingerprintDifference, ...]:
    """List the facts of one machine that changed, without what only names it, or a moment."""
    return tuple(d for d in differences(before, after) if changed(d.fact, d.before, d.after))


def history_of(
    points: Sequence[SeriesPoint], facts: Mapping[str, Mapping[str, str]]
) -> EnvironmentHistory:
    """List the changes of environment along a history; ``facts`` is by environment digest.

    What several workers changed at the same revisions, or of the same facts while others had not
    measured yet, is one change. A step whose facts are not known is none.
    """
    steps = list(_known_steps(points, facts))
    since = steps[0].before if steps else 0
    measured = Counter(point.worker for point in points[since:])
    moved = Counter((step.worker, fact) for step in steps for fact in step.facts)
    restless = {
        (worker, fact)
        for (worker, fact), count in moved.items()
        if count > max(FEW, RESTLESS * measured[worker])
    }
    groups: list[list[_Step]] = []
    for step in steps:
        kept = tuple(d for d in step.differences if (step.worker, d.fact) not in restless)
        if any(difference.fact not in DIGESTS for difference in kept):
            _put(points, groups, replace(step, differences=kept))
    spans = _spans(points)
    return EnvironmentHistory(
        tuple(_change(points, spans, number, group) for number, group in enumerate(groups, 1)),
        tuple(sorted({fact for _, fact in restless} - DIGESTS)),
    )


def _known_steps(
    points: Sequence[SeriesPoint], facts: Mapping[str, Mapping[str, str]]
) -> Iterator[_Step]:
    """The steps of workers whose facts are known, in the order of the points after them."""
    for before, after in own_steps(points):
        one, other = (facts.get(points[index].environment) for index in (before, after))
        if one is not None and other is not None:
            yield _Step(before, after, points[after].worker, changed_facts(one, other))


def _put(points: Sequence[SeriesPoint], groups: list[list[_Step]], step: _Step) -> None:
    """Add a step to the group that it may have happened with and looks like, or begin one."""
    near = takewhile(lambda group: step.before < group[0].after, reversed(groups))
    group = next((group for group in near if _alike(points, group[0], step)), None)
    if group is None:
        groups.append([step])
    else:
        group.append(step)


def _alike(points: Sequence[SeriesPoint], one: _Step, other: _Step) -> bool:
    ends = ((one.before, other.before), (one.after, other.after))
    return bool(one.facts & other.facts) or all(
        points[left].revision == points[right].revision for left, right in ends
    )


def _spans(points: Sequence[SeriesPoint]) -> dict[str, tuple[int, int]]:
    """The indexes of the first and the last point of each worker."""
    spans: dict[str, tuple[int, int]] = {}
    for index, point in enumerate(points):
        spans[point.worker] = (spans.get(point.worker, (index,))[0], index)
    return spans


def _change(
    points: Sequence[SeriesPoint],
    spans: Mapping[str, tuple[int, int]],
    number: int,
    group: Sequence[_Step],
) -> EnvironmentChange:
    first = group[0].after
    witnesses = {worker for worker, (begin, end) in spans.items() if begin < first <= end}
    workers = tuple(sorted({step.worker for step in group}))
    on: dict[FingerprintDifference, set[str]] = {}
    for step in group:
        for difference in step.differences:
            on.setdefault(difference, set()).add(step.worker)
    return EnvironmentChange(
        number=number,
        before=points[max(step.before for step in group)],
        after=points[first],
        workers=workers,
        everywhere=witnesses <= set(workers),
        differences=tuple(
            replace(difference, workers=tuple(sorted(where)))
            for difference, where in sorted(on.items(), key=lambda item: item[0].fact)
        ),
    )
