"""One simulated history from its first night to its inbox."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Case
from trials.nights.cells import Cells, cases_of, numbered
from trials.nights.events import FIRST, Draw, Event, drawn
from trials.nights.fleet import NODES, Fleet, number_of
from trials.nights.score import History, Told, Truth
from trials.nights.service import Nights, Spent, team

MEMORY = Path("/dev/shm")
"""Where the database lies, if there is such a place: the disk is not what is measured."""


@dataclass(frozen=True)
class Plan:
    """What to simulate."""

    seed: int
    nights: int = 60
    cases: int = 43
    every: int = 5
    """Nights from the begin of one event to that of the next."""
    kinds: tuple[str, ...] = ()
    """In their order; all of them in a random one if empty."""
    quiet: bool = False
    """Whether nothing happens."""
    first: int = FIRST
    """Night of the first event."""
    analysed_from: int = 0
    """The first night after which results are analysed: before, there is nothing to be found."""


def simulate(
    plan: Plan, after: Callable[[int, Nights], None] = lambda _night, _team: None
) -> History:
    """Live through a history; ``after`` is called after each night."""
    cases = cases_of(plan.cases)
    draw = Draw(random.Random(plan.seed), cases, NODES)
    events = [] if plan.quiet else drawn(draw, plan.first, plan.nights, plan.every, plan.kinds)
    cells = numbered(cases)
    where = MEMORY if MEMORY.is_dir() else None
    spent: list[Spent] = []
    told: dict[str, Told] = {}
    with (
        tempfile.TemporaryDirectory(dir=where) as folder,
        team(Path(folder), Fleet(plan.seed, events), cases) as nights,
    ):
        for night in range(plan.nights):
            spent.append(nights.night(night, analysed=night >= plan.analysed_from))
            _read(nights, night, cells, told)
            after(night, nights)
    return History(
        seed=plan.seed,
        nights=plan.nights,
        cases=plan.cases,
        every=plan.every,
        truths=tuple(_truth(event, cases, cells) for event in events),
        told=tuple(told.values()),
        analysis_s=tuple(round(one.analysis_s, 3) for one in spent),
        analysis_wall_s=tuple(round(one.analysis_wall_s, 3) for one in spent),
        jobs=sum(one.jobs for one in spent),
    )


def _truth(event: Event, cases: Sequence[Case], cells: Cells) -> Truth:
    factor = event.factor
    shown = {case.key for case in cases if factor.covers(case)}
    gpus = {gpu for worker, gpu in NODES.items() if factor.on(gpu, worker)}
    return Truth(
        kind=event.kind,
        first=event.first,
        until=event.until,
        ramp=event.ramp,
        size=event.size,
        finding=event.finding,
        metrics=event.headlines,
        causes=event.causes,
        says=factor.says,
        worker=factor.worker,
        cells=frozenset(at for (key, gpu), at in cells.items() if key in shown and gpu in gpus),
    )


def _read(nights: Nights, night: int, cells: Cells, told: dict[str, Told]) -> None:
    """Read the inbox of a morning: what is new or still open, and what has closed since."""
    for summary in nights.findings():
        known = told.get(summary["id"])
        if known is None or summary["state"] in ("open", "acknowledged"):
            new = _told(nights.finding(summary["id"]), night, cells)
            first = known or new
            known = replace(new, opened=first.opened, first_headline=first.first_headline)
        told[summary["id"]] = replace(known, state=summary["state"])


def _told(finding: Mapping[str, Any], night: int, cells: Cells) -> Told:
    summary, series = finding["summary"], finding["series"]
    name = series[0]["series"]["metric"] if series else ""
    subject = metric(name).subject
    about = [one["series"] for one in series if metric(one["series"]["metric"]).subject == subject]
    about += [one["series"] for one in finding["failed"]]
    return Told(
        opened=night,
        kind=summary["kind"],
        state=summary["state"],
        cause=summary["cause"],
        certainty=summary["certainty"],
        first_bad=number_of(summary["first_bad"]),
        worker=summary["worker"] or "",
        metric=name,
        cells=frozenset(_cell(one, cells) for one in about),
        series=len(series),
        first_headline=summary["headline"],
        headline=summary["headline"],
        sentence=summary["sentence"],
    )


def _cell(series: Mapping[str, Any], cells: Cells) -> int:
    case = Case.model_validate(series["case"])
    return cells[case.key, series["comparability"]["hw.gpu.name"]]
