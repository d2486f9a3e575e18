"""The pairs of a bisection: the comparison of each, and what it measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from service import models
from service.analysis import bisection, gate
from service.analysis.gate.metrics import worse_by
from service.analysis.gate.noise import STORED, PairNoise
from service.comparisons.bisection.subject import AskedProbe, Subject
from service.schemas import comparisons as schemas
from service.schemas import policy
from service.schemas.bisections import BisectionRequest
from service.schemas.gate import Side

WAITS_S = 86_400.0
"""Longest wait of a probe for its worker, then it counts as lost; and for a list of commits."""
_BROKEN = (gate.Trouble.FAILED, gate.Trouble.UNSUPPORTED, gate.Trouble.PARITY)
BROKEN_TWICE = 2
"""Failures of a commit after which it is stepped around; one may be an accident of the machine."""


@dataclass(frozen=True, slots=True)
class ProbedPair:
    """One probe with its pair, as far as it is measured."""

    asked: AskedProbe
    pair: gate.Pair = field(default_factory=gate.Pair)
    state: schemas.ComparisonState | None = None
    """Of its comparison; None where there is none."""
    job_id: str | None = None
    worker: str | None = None
    reason: str = ""
    """What its comparison waits for."""

    @property
    def under_way(self) -> bool:
        """True while its comparison runs."""
        return self.state is schemas.ComparisonState.RUNNING

    @property
    def same_code(self) -> bool:
        """True if both sides are known to have run the same code."""
        ran = {"" if side is None else side.software for side in self.pair.sides}
        return len(ran) == 1 and ran != {""}

    @property
    def places(self) -> tuple[int, int]:
        """The commit and the one beside it."""
        return self.asked.commit, self.asked.beside

    @property
    def culprit(self) -> tuple[int, gate.Measured] | None:
        """The place of the side that could not be measured, and what it said."""
        sides = zip(self.places, (self.pair.contender, self.pair.baseline), strict=True)
        bad = [(place, side) for place, side in sides if side is not None and side.trouble]
        own = [one for one in bad if one[1].trouble is not gate.Trouble.MISSING]
        return next(iter(own or bad), None)


def comparison_of(
    request: BisectionRequest,
    subject: Subject,
    places: tuple[int, int],
    number: int,
    worker: str | None,
    source: str = "bisection",
) -> schemas.ComparisonRequest:
    """Make the comparison of one pair; ``places`` are of the commit and the one beside it."""
    commit, beside = (request.commits[place].revision for place in places)
    return schemas.ComparisonRequest(
        baseline=beside,
        contender=commit,
        case=subject.case,
        policy=policy.Policy(rules=(policy.Rule(limits=(policy.Limit(metric=subject.metric),)),)),
        budget_s=WAITS_S,
        requires=request.requires,
        worker=worker,
        protocol=subject.protocol,
        probe=number,
        priority=request.priority,
        timeout_s=request.timeout_s,
        source=source,
        project=request.project,
    )


def pairs_of(session: Session, row: models.BisectionRow) -> list[ProbedPair]:
    """Every probe of a bisection with what was measured, in the order of asking."""
    asked = [AskedProbe.model_validate(one) for one in row.probes]
    of_it = models.ComparisonRow.source == f"{models.PROBES}{row.id}"
    query = (
        select(models.ComparisonRow, models.ComparisonJob)
        .outerjoin(
            models.ComparisonJob, models.ComparisonJob.comparison_id == models.ComparisonRow.id
        )
        .where(of_it)
        .execution_options(populate_existing=True)
    )
    found: dict[str, ProbedPair] = {}
    by_id = {one.comparison: one for one in asked if one.comparison is not None}
    for compared, job in session.execute(query):
        if compared.id in by_id:
            before = found.get(compared.id) or ProbedPair(by_id[compared.id])
            found[compared.id] = _with(before, compared, job)
    return [found.get(one.comparison or "", ProbedPair(one)) for one in asked]


def _with(
    before: ProbedPair, compared: models.ComparisonRow, job: models.ComparisonJob | None
) -> ProbedPair:
    state = schemas.ComparisonState(compared.state)
    after = replace(before, state=state, worker=compared.worker, reason=compared.reason)
    if job is None:
        return after
    measured = None if job.measured is None else gate.Measured.model_validate(job.measured)
    pair = before.pair.model_copy(update={Side(job.side).value: measured})
    return replace(after, pair=pair, job_id=job.job_id)


def search_of(
    session: Session, row: models.BisectionRow, pairs: Sequence[ProbedPair]
) -> bisection.Search:
    """Read what the pairs say, as the judgement takes it."""
    request = BisectionRequest.model_validate(row.request)
    subject = Subject.model_validate(row.subject)
    probes = tuple(_probes(pairs, subject))
    return bisection.Search(
        commits=len(request.commits) - 1,
        probes=probes,
        expected=None if subject.change is None else abs(subject.change.log),
        noise=_noise(session, pairs, subject),
        at_old_level=_at_old_level(pairs, subject, len(request.commits) - 1),
        most_processes=request.most_processes,
    )


def _probes(pairs: Sequence[ProbedPair], subject: Subject) -> Iterator[bisection.Probe]:
    usable = [one for one in pairs if _tells(one, subject)]
    differences = iter(worse_by([one.pair for one in usable], subject.metric) if usable else ())
    for number, one in enumerate(pairs):
        told = subject.sign * next(differences) if _tells(one, subject) else None
        yield bisection.Probe(
            *one.places, told, None if told is not None else _unusable(pairs, number)
        )


def _tells(one: ProbedPair, subject: Subject) -> bool:
    """Return True if both sides have the metric, above zero."""
    sides = (side.metrics.get(subject.metric) for side in one.pair.sides if side is not None)
    return one.pair.whole and all(found is not None and found.value > 0 for found in sides)


def _unusable(pairs: Sequence[ProbedPair], number: int) -> int | None:
    """The place that a probe says cannot be measured: unbuildable once, or broken twice."""
    one = pairs[number]
    if one.asked.unusable is not None:
        return one.asked.unusable
    if one.culprit is None:
        return None
    place, side = one.culprit
    if side.trouble is gate.Trouble.UNBUILDABLE:
        return place
    before = (other.culprit for other in pairs[: number + 1])
    broken = sum(
        found is not None and found[0] == place and found[1].trouble in _BROKEN for found in before
    )
    return place if side.trouble in _BROKEN and broken >= BROKEN_TWICE else None


def _noise(session: Session, pairs: Sequence[ProbedPair], subject: Subject) -> PairNoise | None:
    """The noise that was known when the first pair was submitted."""
    first = next((one.asked.comparison for one in pairs if one.asked.comparison), None)
    row = None if first is None else session.get(models.ComparisonRow, first)
    if row is None or not row.noise:
        return None
    known = STORED.validate_python(row.noise)[0]
    return known.noise if known.metric == subject.metric else None


def _at_old_level(pairs: Sequence[ProbedPair], subject: Subject, bad: int) -> bool:
    if subject.change is None:
        return False
    ends = [one.pair.contender for one in pairs if one.places == (bad, 0) and _tells(one, subject)]
    values = [side.metrics[subject.metric].value for side in ends if side is not None]
    return subject.change.at_old_level(values)
