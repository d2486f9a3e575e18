"""Holds what a service told against what had happened. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.contracts import Case
from trials.nights.cells import cases_of, named, named_alone

NEAR = 3
"""Nights by which a finding may misplace what it is about, and still be about it."""
IN_TIME = 3
LEAST_SHARE = 0.5
"""Of a finding's cells, that an event must have moved."""
ALIKE = 0.8
"""Of the cells that an event moved or a finding names, those that are in both, from which on a
finding names the right ones."""
RANKED = "overtaken"
"""Kind of findings that say which case is the fastest, and not what happened."""
WIDE = 12
"""Cells from which on many have moved."""


@dataclass(frozen=True)
class Truth:
    """An event, as it is to be told."""

    kind: str
    first: int
    until: int
    """The first night that shows it no more."""
    ramp: int
    size: float
    finding: str
    """Kind of the finding; empty: there should be none."""
    metrics: tuple[str, ...]
    causes: tuple[str, ...]
    says: tuple[str, ...]
    worker: str
    cells: frozenset[int]
    """Cases on a kind of hardware, by number."""

    @property
    def extent(self) -> str:
        """Size and cells of a step in throughput by the code, for the table; else empty."""
        if self.metrics != ("throughput",) or self.causes != ("code",):
            return ""
        count = len(self.cells)
        wide = "one cell" if count == 1 else f"2 to {WIDE - 1} cells"
        return f"{abs(self.size):.0%} in {f'{WIDE} cells or more' if count >= WIDE else wide}"


@dataclass(frozen=True)
class Told:
    """A finding, as the API told it on the last morning on which it was open."""

    opened: int
    """The night after which it was there."""
    kind: str
    state: str
    cause: str
    certainty: str
    first_bad: int
    worker: str
    metric: str
    """Of its headline; empty for a node."""
    cells: frozenset[int]
    """That it says have moved in what its headline speaks of."""
    series: int
    first_headline: str
    headline: str
    sentence: str


@dataclass(frozen=True)
class Judged:
    """A finding with what it is about."""

    told: Told
    truth: Truth | None
    """None: it is about nothing that happened."""
    again: bool = False
    """Whether the same event was told before."""
    named: frozenset[int] = frozenset()
    """All cells of the factor that its sentence names, if that names all of one."""
    case: str = ""
    """Key of the only case with the settings that its headline names."""

    @property
    def metric(self) -> bool:
        """Return True if the headline speaks of the right metric."""
        truth = self._of()
        return self.told.kind == "bad_node" or self.told.metric in truth.metrics

    @property
    def factor(self) -> bool:
        """Return True if it names the right cells, and its headline the right words.

        A sentence that names all cases of the planted factor says what happened, also before all of
        them are measured.
        """
        truth, told = self._of(), self.told
        if truth.worker:
            return told.worker == truth.worker
        words = all(
            word == self.case or word.lower() in told.headline.lower() for word in truth.says
        )
        return words and (self.named == truth.cells or alike(told.cells, truth.cells))

    @property
    def listed(self) -> bool:
        """Return True if the series that it lists by now are of the right cells."""
        return bool(self.told.worker) or alike(self.told.cells, self._of().cells)

    @property
    def direction(self) -> bool:
        """Return True if it is a finding of the right kind."""
        return self.told.kind == self._of().finding

    @property
    def cause(self) -> bool:
        """Return True if it names the right class of cause."""
        return self.told.cause in self._of().causes

    @property
    def wrong(self) -> list[str]:
        """What is wrong with it."""
        if self.truth is None:
            return ["false"]
        parts = ("metric", "factor", "direction", "cause")
        return (["again"] if self.again else []) + [p for p in parts if not getattr(self, p)]

    def _of(self) -> Truth:
        assert self.truth is not None
        return self.truth


def alike(named: frozenset[int], moved: frozenset[int]) -> bool:
    return len(named & moved) >= ALIKE * len(named | moved)


def judged(
    told: Iterable[Told], truths: Sequence[Truth], cases: Sequence[Case] = ()
) -> list[Judged]:
    """Each finding with the event that it is about, in the order in which they were opened."""
    seen: set[int] = set()
    rows = []
    for finding in sorted(told, key=lambda one: one.opened):
        place = _about(finding, truths)
        if place is None:
            rows.append(Judged(finding, None))
            continue
        whole, alone = named(finding.sentence, cases), named_alone(finding.headline, cases)
        rows.append(Judged(finding, truths[place], place in seen, whole, alone))
        seen.add(place)
    return rows


def _about(told: Told, truths: Sequence[Truth]) -> int | None:
    """The event that a finding is best put down to; what ends one is put down to it as well."""
    fits = [(_misfit(told, truth), place) for place, truth in enumerate(truths)]
    known = [(misfit, place) for misfit, place in fits if misfit is not None]
    return min(known)[1] if known else None


def _misfit(told: Told, truth: Truth) -> tuple[float, ...] | None:
    """How badly a finding fits an event, the smaller the better; None if it is about another."""
    if not truth.finding or told.opened < truth.first:
        return None
    nearest = min(_distances(told, truth))
    if nearest > NEAR:
        return None
    if told.kind == "bad_node":
        if told.worker != truth.worker:
            return None
    elif len(told.cells & truth.cells) < LEAST_SHARE * len(told.cells):
        return None
    either = len(told.cells | truth.cells) or 1
    overlap = len(told.cells & truth.cells) / either
    other_way = told.kind != truth.finding
    other_metric = bool(told.metric) and told.metric not in truth.metrics
    begun = abs(told.first_bad - truth.first)  # of two that fit alike, the one that began there
    return float(other_way) + float(other_metric), nearest, -overlap, begun


def _distances(told: Told, truth: Truth) -> tuple[int, int]:
    """Revisions from where a finding begins to where an event does, and to where it ends."""
    grown = truth.first + truth.ramp - 1
    begin = max(truth.first - told.first_bad, told.first_bad - grown, 0)
    return begin, abs(truth.until - told.first_bad)


def _of_its_begin(told: Told, truth: Truth) -> bool:
    begin, end = _distances(told, truth)
    return begin <= end


def waited(rows: Iterable[Judged], truth: Truth) -> int | None:
    """Nights until an event was told, the night of its begin counted; None if it never was."""
    about = (row.told for row in rows if row.truth is truth)
    nights = [told.opened - truth.first + 1 for told in about if _of_its_begin(told, truth)]
    return min(nights, default=None)


@dataclass(frozen=True)
class History:
    """What happened in one history, and what was told."""

    seed: int
    nights: int
    cases: int
    every: int
    """Nights from the begin of one event to that of the next."""
    truths: tuple[Truth, ...]
    told: tuple[Told, ...]
    analysis_s: tuple[float, ...]
    """Of a processor, after each night."""
    analysis_wall_s: tuple[float, ...]
    jobs: int

    def judged(self) -> list[Judged]:
        """Its findings, with what each is about."""
        changes = (one for one in self.told if one.kind != RANKED)
        return judged(changes, self.truths, cases_of(self.cases))


def table(histories: Sequence[History]) -> list[str]:
    """The figures of all histories together, then those of each kind of event."""
    each = [(history, history.judged()) for history in histories]
    return [
        "| figure | value |",
        "| --- | --- |",
        *(f"| {name} | {value} |" for name, value in _figures(each)),
        "",
        "| event | causes | nights until told | findings | all right |",
        "| --- | --- | --- | --- | --- |",
        *_by_kind(each),
    ]


Scored = Sequence[tuple[History, Sequence[Judged]]]


def _told(each: Scored) -> list[tuple[Truth, int | None]]:
    """Every event that should be told, and after how many nights it was."""
    return [
        (truth, waited(rows, truth))
        for history, rows in each
        for truth in history.truths
        if truth.finding
    ]


def _figures(each: Scored) -> Iterator[tuple[str, str]]:
    rows = [row for _, found in each for row in found]
    about = [row for row in rows if row.truth is not None]
    told = _told(each)
    case_nights = sum(history.nights * history.cases for history, _ in each)
    false = len(rows) - len(about)
    known = sum(nights is not None for _, nights in told)
    sizes = sorted(
        {f"{one.nights} nights of {one.cases} cases, every {one.every} nights" for one, _ in each}
    )
    yield "histories", f"{len(each)} ({', '.join(sizes)})"
    yield "causes, of them told", f"{len(told)}, {known}"
    yield "findings a cause that was told", f"{len(about) / max(1, known):.2f}"
    yield "false findings per 1,000 case-nights", f"{1_000 * false / case_nights:.2f}"
    for part in ("metric", "factor", "direction", "cause"):
        right = sum(bool(getattr(row, part)) for row in about)
        yield f"headline names the right {part}", f"{right} of {len(about)}"
    yield "new fastest cases", f"{sum(t.kind == RANKED for one, _ in each for t in one.told)}"
    yield "lists the right cells", f"{sum(row.listed for row in about)} of {len(about)}"
    for extent in sorted({truth.extent for truth, _ in told} - {""}):
        yield f"nights until told: {extent}", _nights(n for t, n in told if t.extent == extent)
    spent = [s for history, _ in each for s in history.analysis_s]
    wall = [s for history, _ in each for s in history.analysis_wall_s]
    yield "analysis after a night, processor s", f"{median(spent):.1f}, at most {max(spent):.1f}"
    yield "analysis after a night, s", f"{median(wall):.1f}, at most {max(wall):.1f}"
    yield "measurements", f"{sum(history.jobs for history, _ in each):,}"


def _by_kind(each: Scored) -> Iterator[str]:
    told = _told(each)
    rows = [row for _, found in each for row in found if row.truth is not None]
    for kind in sorted({truth.kind for truth, _ in told}):
        waits = [nights for truth, nights in told if truth.kind == kind]
        about = [row for row in rows if row.truth is not None and row.truth.kind == kind]
        right = sum(not row.wrong for row in about)
        yield f"| {kind} | {len(waits)} | {_nights(waits)} | {len(about)} | {right} |"


def _nights(waits: Iterable[int | None]) -> str:
    """Median and share within three nights; what was never told comes last."""
    known = sorted(float("inf") if nights is None else nights for nights in waits)
    middle = known[(len(known) - 1) // 2]
    named = "never" if middle == float("inf") else f"{middle:g}"
    soon = sum(nights <= IN_TIME for nights in known)
    return f"{named}; {soon} of {len(known)} within three"


def inbox(history: History) -> Iterator[str]:
    """Every finding of a history as a person would read it, with what had happened."""
    rows = history.judged()
    for truth in history.truths:
        nights = waited(rows, truth)
        when = "no finding expected" if not truth.finding else f"told after {nights}"
        until = f" until {truth.until}" if truth.until < history.nights else ""
        yield (
            f"EVENT {truth.kind}: {truth.size:+.1%} in {len(truth.cells)} cells from "
            f"{truth.first}{until} ({when})"
        )
    for row in rows:
        told = row.told
        yield ""
        yield f"[{', '.join(row.wrong) or 'right'}] night {told.opened}: {told.headline}"
        if told.first_headline != told.headline:
            yield f"    first: {told.first_headline}"
        yield f"    {told.sentence}"
        about = "nothing" if row.truth is None else f"{row.truth.kind} from {row.truth.first}"
        yield (
            f"    about {about}; {told.kind}, {told.cause}, {told.certainty}, {told.state}; "
            f"{told.metric}, {len(told.cells)} cells, {told.series} series, since {told.first_bad}"
        )
