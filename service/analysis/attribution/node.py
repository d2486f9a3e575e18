"""Tells whether one machine is slow in everything, which no change of code or library explains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.diagnosis.disturbances import OTHER_PROCESSES as SHARED
from service.analysis.attribution.quantities import flags
from service.analysis.attribution.types import Evidence, Measurement, Question, Residual
from service.analysis.statement import Statement
from service.schemas.findings import Part, State, Strength

PERSISTENCE = 2
"""Rounds in a row in which the machine must stand apart: one bad night is not a bad node."""
LEAST_SERIES = 2
"""Of one series alone nobody can say that everything is slow."""
EVERYTHING = 0.75
"""Share of the series that must lean the same way: a noisy one may stray."""
LEAST_CONTRAST = 0.005
"""Below half a percent machines of one kind differ among themselves."""
NOISE_MULTIPLE = 2.0
"""The median over series must stand this far beyond the noise of a single result elsewhere."""
SHARE_OF_EFFECT = 0.25
"""A node that is slower by less than a quarter of the effect explains little of it."""
TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for normal noise."""
SHARED_DEVICE = "shared_device"
"""The statement that a device was shared; it names no worker."""


@dataclass(frozen=True, slots=True)
class Round:
    """One revision on one worker, held against the other workers at that revision."""

    revision: str
    contrasts: tuple[float, ...]
    """For each series: how much worse than the others, in logs, sorted."""

    def stands_apart(self, threshold: float) -> bool:
        """Return True if the worker leans one way in nearly everything, and far enough."""
        leaning = sum(contrast > 0 for contrast in self.contrasts)
        enough = len(self.contrasts) >= LEAST_SERIES
        return enough and leaning >= EVERYTHING * len(self.contrasts) and (
            median(self.contrasts) >= threshold
        )  # fmt: skip


def evidence(question: Question) -> tuple[Evidence, ...]:
    """Say whether the change is one machine's; empty if nothing was measured after it."""
    if not question.after:
        return ()
    shared = _shared_device(question)
    return _of_machines(question) if shared is None else (shared, *_of_machines(question))


def workers(side: Iterable[Measurement]) -> str:
    """Name the workers that measured a side, as a person writes it: ``w1, w2 and w3``."""
    return _listed({measurement.worker for measurement in side})


def _listed(names: Iterable[str]) -> str:
    *others, last = sorted(names)
    return f"{', '.join(others)} and {last}" if others else last


def _of_machines(question: Question) -> tuple[Evidence, ...]:
    names = _listed(question.seen_on)
    if len(question.seen_on) > 1:
        says = Statement.of("same_on", workers=names)
        return (_said(names, State.UNCHANGED, Strength.STRONG, says),)
    elsewhere = _elsewhere_good(question, names)
    by_residuals = _by_residuals(question, names)
    return (by_residuals,) if elsewhere is None else (elsewhere, by_residuals)


def _shared_device(question: Question) -> Evidence | None:
    """Another process computed on the device whenever it was slow, and never when it was not."""
    sides = (question.before, question.after)
    fast, slow = reversed(sides) if question.improvement else sides
    if min(len(fast), len(slow)) < PERSISTENCE:
        return None
    if not all(SHARED in flags(run) for run in slow) or any(SHARED in flags(run) for run in fast):
        return None
    says = Statement.of(SHARED_DEVICE, slow=len(slow), others=len(fast))
    names = ", ".join(sorted({measurement.worker for measurement in slow}))
    return _said(names, State.CHANGED, Strength.STRONG, says)


def _elsewhere_good(question: Question, worker: str) -> Evidence | None:
    """A revision that is at the new level on ``worker`` and at the old one on another."""
    slow = {measurement.revision for measurement in question.after}
    others = sorted(
        (measurement.revision, measurement.worker)
        for measurement in question.before
        if measurement.revision in slow and measurement.worker != worker
    )
    if not others:
        return None
    revision, other = others[0]
    repeated = len(question.after) >= PERSISTENCE
    says = Statement.of("other_level_elsewhere", revision=revision, worker=worker, other=other)
    strength = Strength.STRONG if repeated else Strength.WEAK
    return _said(worker, State.CHANGED, strength, says)


def _by_residuals(question: Question, worker: str) -> Evidence:
    sign = -1.0 if question.improvement else 1.0
    met = rounds(question.residuals, worker, sign)
    newest = met[-PERSISTENCE:]
    if not newest:
        says = Statement.of("no_other_worker", worker=worker)
        return _said(worker, State.UNCLEAR, Strength.WEAK, says)
    limit = threshold(question, worker)
    apart = [one.stands_apart(limit) for one in newest]
    contrasts = [contrast for one in newest for contrast in one.contrasts]
    size, count = median(contrasts), min(len(one.contrasts) for one in newest)
    if all(apart) and len(newest) >= PERSISTENCE:
        kind = "worker_faster" if question.improvement else "worker_slower"
        by = math.expm1(size)
        says = Statement.of(kind, worker=worker, by=by, series=count, revisions=len(newest))
        return _said(worker, State.CHANGED, Strength.STRONG, says, size)
    if not any(apart) and size < limit / 2 and count >= LEAST_SERIES:
        says = Statement.of("worker_alike", worker=worker, series=count)
        return _said(worker, State.UNCHANGED, Strength.WEAK, says, size)
    says = Statement.of("worker_unclear", worker=worker)
    return _said(worker, State.UNCLEAR, Strength.WEAK, says, size)


def rounds(residuals: Iterable[Residual], worker: str, sign: float = 1.0) -> list[Round]:
    """Each revision that ``worker`` and another measured, in the order in which ``worker`` did.

    A result is held against the others' of its series and revision; where nobody else measured
    that series, against theirs of that revision in all series.
    """
    known = list(residuals)
    of_worker = [residual for residual in known if residual.worker == worker]
    first = {
        revision: min(one.measured_at for one in of_worker if one.revision == revision)
        for revision in {residual.revision for residual in of_worker}
    }
    rows = []
    for revision in sorted(first, key=lambda name: (first[name], name)):
        here = [residual for residual in known if residual.revision == revision]
        contrasts = _contrasts(here, worker, sign)
        if contrasts:
            rows.append(Round(revision, tuple(sorted(contrasts))))
    return rows


def _contrasts(here: Sequence[Residual], worker: str, sign: float) -> list[float]:
    others = [residual for residual in here if residual.worker != worker]
    contrasts = []
    for series in {residual.series for residual in here if residual.worker == worker}:
        of_worker = [e.log_residual for e in here if e.worker == worker and e.series == series]
        beside = [residual for residual in others if residual.series == series] or others
        if beside:
            contrasts.append(sign * (median(of_worker) - _of_workers(beside)))
    return contrasts


def _of_workers(residuals: Sequence[Residual]) -> float:
    by_worker: dict[str, list[float]] = {}
    for residual in residuals:
        by_worker.setdefault(residual.worker, []).append(residual.log_residual)
    return median(median(values) for values in by_worker.values())


def threshold(question: Question, worker: str) -> float:
    """Return how far a worker must at least stand apart, in logs."""
    others = [abs(one.log_residual) for one in question.residuals if one.worker != worker]
    noise = TO_SIGMA * median(others) if others else 0.0
    least = SHARE_OF_EFFECT * abs(math.log1p(max(question.effect, -0.99)))
    return max(LEAST_CONTRAST, NOISE_MULTIPLE * noise, least)


def _said(
    worker: str, known: State, strength: Strength, says: Statement, size: float | None = None
) -> Evidence:
    change = None if size is None else math.expm1(size)
    return Evidence(Part.NODE, worker, known, strength, says, change=change)
