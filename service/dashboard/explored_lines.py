"""Reads what the explorer draws: each series thinned out, with its levels, changes and marks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from service import models
from service.analysis.attribution.environment import DIGESTS
from service.analysis.detection.windows import LEAST_POINTS
from service.dashboard import environments, figures, series_changes
from service.dashboard.environments import EnvironmentChange
from service.database.paging import batched
from service.history import explored
from service.history.queries import facts_of, points_of_results
from service.schemas import series as schemas

MOST_POINTS = 4_000
"""Points that are drawn at once, beside those that have to be."""
LEAST_OF_EACH = 50
MOST_FACTS = 3
"""Facts of a changed environment that are told in full."""
MOST_STEPS = 100
"""Newest steps of a series' workers into other environments that are looked at."""


@dataclass(frozen=True, slots=True)
class ExploredLine:
    """A series as it is drawn, with what else is known of it."""

    drawn: figures.Drawn
    total: int
    """Points that it has in the part that is looked at."""
    changes: tuple[series_changes.LevelChange, ...]
    measured: Sequence[schemas.SeriesPoint]
    """Where and in which environment it was measured; nothing if that never changed."""


def lines(
    session: Session,
    chosen: Sequence[schemas.SeriesName],
    part: explored.HistoryPart,
    base: str = "",
) -> list[ExploredLine]:
    """Read the series that have points in this part of their histories, in their order.

    The points of the revision ``base`` are among those that are drawn.
    """
    ids = [one.id for one in chosen]
    found = explored.outlines(session, ids, part)
    limit = max(MOST_POINTS // max(len(found), 1), LEAST_OF_EACH)
    kept = explored.results_at(session, ids, base) if base else set()
    return [
        _line(session, (number, series), found[series.id], part, limit, kept)
        for number, series in enumerate(chosen)
        if series.id in found
    ]


def _line(
    session: Session,
    numbered: tuple[int, schemas.SeriesName],
    outline: explored.Outline,
    part: explored.HistoryPart,
    limit: int,
    kept: Collection[str],
) -> ExploredLine:
    number, series = numbered
    changes = series_changes.changes_of(session, series)
    borders = _borders(session, series.id, outline, part, changes)
    edges = [at for border in borders for at in (border - 1, border)]
    steps = _steps(outline)
    keep = {*edges, *_firsts(outline).values(), *(at for step in steps for at in step)}
    keep |= {*np.flatnonzero(~outline.counts), *np.flatnonzero(outline.counts)[:1]}
    if kept:
        keep |= {at for at, result_id in enumerate(outline.ids) if result_id in kept}
    at = figures.decimate(outline.values, limit, sorted(keep))
    points = points_of_results(session, series.id, [outline.ids[place] for place in at])
    placed = dict(zip(at.tolist(), points, strict=True))
    drawn = figures.Drawn(
        number=number,
        series=schemas.Series.of(series, points),
        levels=_levels(outline, borders, placed),
        steps=tuple(replace(borders[b].step, result_id=outline.ids[b]) for b in sorted(borders)),
        reasons=series_changes.reasons(session, points),
    )
    every = _every_point(outline, placed, steps)
    return ExploredLine(drawn, len(outline.ids), tuple(changes), every)


def _borders(
    session: Session,
    series_id: str,
    outline: explored.Outline,
    part: explored.HistoryPart,
    changes: Sequence[series_changes.LevelChange],
) -> dict[int, series_changes.LevelChange]:
    """The changes of level inside this part of the history, by the number of their first point."""
    numbers = {result_id: number for number, result_id in enumerate(outline.ids)} if changes else {}
    found = {}
    for change in changes:
        placed = change.placed
        number = numbers.get(placed.first_bad_result)
        if number is None:
            number = explored.before(session, series_id, placed.first_bad_at, part)
        if 0 < number < len(outline.ids):
            found[number] = change
    return found


def _levels(
    outline: explored.Outline,
    borders: Mapping[int, series_changes.LevelChange],
    placed: Mapping[int, schemas.SeriesPoint],
) -> tuple[figures.Level, ...]:
    """The median of each stretch between changes, as a series' own page draws it."""
    if not borders and outline.counts.sum() < LEAST_POINTS:
        return ()
    levels = []
    for begin, end in pairwise([0, *sorted(borders), len(outline.ids)]):
        values = outline.values[begin:end][outline.counts[begin:end]]
        if len(values):
            levels.append(figures.Level(placed[begin], placed[end - 1], float(np.median(values))))
    return tuple(levels)


def _steps(outline: explored.Outline) -> list[tuple[int, int]]:
    """Where workers came into another environment, numbered by points."""
    measured = zip(outline.workers, outline.environments, strict=True)
    return environments.steps_of(measured)[-MOST_STEPS:]


def _firsts(outline: explored.Outline) -> dict[str, int]:
    """The first point of each worker."""
    firsts: dict[str, int] = {}
    for number, worker in enumerate(outline.workers):
        firsts.setdefault(worker, number)
    return firsts


def _every_point(
    outline: explored.Outline,
    placed: Mapping[int, schemas.SeriesPoint],
    steps: Sequence[tuple[int, int]],
) -> list[schemas.SeriesPoint]:
    """As many points as the history has, each of its worker and in its environment.

    Those that are not drawn are stood for by the one before them, which was measured alike.
    """
    if not steps:
        return []
    last: dict[str, schemas.SeriesPoint] = {}
    every = []
    for number, worker in enumerate(outline.workers):
        last[worker] = placed.get(number) or last[worker]
        every.append(last[worker])
    return every


def changed_for_all(
    session: Session, explored_lines: Sequence[ExploredLine]
) -> list[EnvironmentChange]:
    """Find what changed in every one of these series that was measured before and after it."""
    digests = {d for one in explored_lines for d in environments.around_changes(one.measured)}
    facts = facts_of(session, digests)
    groups: list[dict[int, EnvironmentChange]] = []
    for one in explored_lines:
        for change in environments.history_of(one.measured, facts).changes:
            if change.everywhere:
                _put(groups, one.drawn.number, change)
    return [
        next(iter(group.values()))
        for group in groups
        if {one.drawn.number for one in explored_lines if _covers(one, group)} <= group.keys()
    ]


def _put(
    groups: list[dict[int, EnvironmentChange]], number: int, change: EnvironmentChange
) -> None:
    """Add a change of one series to what changed alike, about then, in others."""
    for group in groups:
        other = next(iter(group.values()))
        together = (
            change.before.revision_at < other.after.revision_at
            and other.before.revision_at < change.after.revision_at
        )
        if number not in group and together and _facts(change) & _facts(other):
            group[number] = change
            return
    groups.append({number: change})


def _facts(change: EnvironmentChange) -> set[tuple[str, str | None, str | None]]:
    return {(one.fact, one.before, one.after) for one in change.differences}


def _covers(one: ExploredLine, group: Mapping[int, EnvironmentChange]) -> bool:
    change, points = next(iter(group.values())), one.drawn.series.points
    began, ended = points[0].revision_at, points[-1].revision_at
    return began <= change.before.revision_at and change.after.revision_at <= ended


def titles(session: Session, points: Sequence[schemas.SeriesPoint]) -> dict[str, str]:
    """Read title and author of these points' revisions, by name; those that are not known miss."""
    names = sorted({point.revision for point in points})
    row, found = models.Revision, {}
    query = select(row.name, row.title, row.author).where(row.title + row.author != "")
    for some in batched(names):
        for name, title, author in session.execute(query.where(row.name.in_(some))):
            found[name] = " · ".join(filter(None, (title, author)))
    return found


def counted(chosen: Sequence[schemas.SeriesName], lines: Sequence[ExploredLine]) -> str:
    """Say how many points there are and how many of them are drawn."""
    total = sum(line.total for line in lines)
    drawn = sum(len(line.drawn.series.points) for line in lines)
    thinned = f", {drawn:,} of them drawn with all extremes" if drawn < total else ""
    empty = len(chosen) - len(lines)
    without = f" {empty} more without a point here." if empty else ""
    return f"{total:,} point{'' if total == 1 else 's'} of {len(lines)} series{thinned}.{without}"


def left_out(drawn: Sequence[figures.Drawn], scene: figures.Scene) -> list[str]:
    """Say of which series nothing is drawn because there is nothing to show them against."""
    names = [scene.names[one.series.id] for one in drawn if figures.baseline_of(one, scene) is None]
    if not names:
        return []
    what = scene.base if scene.against == "revision" else figures.AGAINST[scene.against]
    return [f"Not drawn, without a value above zero at {what or 'a revision'}: {', '.join(names)}."]


def briefly(change: EnvironmentChange) -> str:
    """Name the fact that changed, and how many more did."""
    facts = [one for one in change.differences if one.fact not in DIGESTS]
    more = f" +{len(facts) - 1}" if len(facts) > 1 else ""
    return f"{facts[0].fact.partition('.')[2]}{more}"


def in_words(change: EnvironmentChange) -> str:
    """Say what changed for all, from what to what, and when."""
    facts = [one for one in change.differences if one.fact not in DIGESTS]
    said = [f"{one.fact} {one.before or 'absent'} → {one.after or 'absent'}" for one in facts]
    more = f" and {len(said) - MOST_FACTS} more" if len(said) > MOST_FACTS else ""
    when = f"{change.after.revision_at:%Y-%m-%d}"
    return f"Changed for all by {when}: {', '.join(said[:MOST_FACTS])}{more}."
