"""Values that a bisection keeps: what it explains, what it asked, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, FiniteFloat

from benchmarks import contracts
from benchmarks.catalog.metrics import metric
from service.schemas.bisections import BisectionOutcome, OtherCulprit, RangeCommit
from service.wording.bisected import noun_of, outcome_words

AT_OLD_LEVEL = 0.35
"""A value lies at the old level if it is within this share of the way to the new one."""


class ChangeToExplain(contracts.Contract):
    """The change of a finding's first series."""

    before: Annotated[FiniteFloat, Field(gt=0)]
    after: Annotated[FiniteFloat, Field(gt=0)]

    @property
    def log(self) -> float:
        """Log ratio of after to before, as measured."""
        return math.log(self.after / self.before)

    def at_old_level(self, values: Sequence[float]) -> bool:
        """Return True if values of today lie where the good end's did, by their geometric mean."""
        if not values or min(values) <= 0:
            return False
        today = math.fsum(map(math.log, values)) / len(values)
        return (today - math.log(self.before)) / self.log <= AT_OLD_LEVEL


class Subject(contracts.Contract):
    """The case and metric that a bisection explains, and the change to expect."""

    case: contracts.Case
    metric: contracts.Name
    change: ChangeToExplain | None = None
    """None where two revisions were named, and the bad end is to be worse."""
    protocol: contracts.Protocol | None = None

    @property
    def sign(self) -> int:
        """1 if the culprit made the metric worse, -1 if it made it better."""
        if self.change is None:
            return 1
        return -1 if (self.change.log > 0) == self._higher_is_better else 1

    def worse_by(self, difference: float) -> float:
        """Return how much worse a pair's commit was, as a share of the metric."""
        worse = self.sign * difference
        return -math.expm1(-worse) if self._higher_is_better else math.expm1(worse)

    @property
    def _higher_is_better(self) -> bool:
        return metric(self.metric).direction is contracts.Direction.HIGHER


class AskedProbe(contracts.Contract):
    """One pair that was asked for."""

    commit: int
    beside: int
    comparison: str | None = None
    """None where no worker had one of the two."""
    unusable: int | None = None
    """The place that no worker had."""
    reason: str = ""


class BisectionDecision(contracts.Contract):
    """How a bisection ended."""

    outcome: BisectionOutcome
    probability: FiniteFloat
    environment: FiniteFloat
    first: int | None
    last: int | None
    share: FiniteFloat | None
    processes: int
    others: tuple[OtherCulprit, ...] = ()

    def sentence(self, commits: Sequence[RangeCommit]) -> str:
        """Say it of the bisection's commits, in their order."""
        named = range(self.first or 0, (self.last or -1) + 1)
        return outcome_words(
            self.outcome,
            [commits[place] for place in named],
            self.probability,
            self.share,
            self.processes,
            [(commits[one.first : one.last + 1], one.share) for one in self.others],
            noun_of(commits[0].revision),
        )
