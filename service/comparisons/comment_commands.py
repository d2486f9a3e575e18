"""Commands that people write as comments on a pull request, and what is answered."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError
from sqlalchemy.orm import Session

from benchmarks import contracts
from service.comparisons import bisection
from service.comparisons.advance import advance
from service.comparisons.start import start
from service.outbox.pull_request_news import rows_of
from service.schemas import gate
from service.schemas.bisections import BisectionRequest
from service.schemas.comparisons import ComparisonRequest
from service.schemas.errors import ServiceError
from service.schemas.pull_requests import PullRequest
from service.wording.pull_request import text
from service.wording.statements import decision_of

SOURCE = "comment"
_COMMAND = re.compile(r"^/throughline(?:[ \t]+([^\r\n]*))?\s*$", re.MULTILINE)
_SUITE = "smoke"
HELP = """\
| comment | does |
| --- | --- |
| `/throughline gate [suite]` | measures this pull request against where it left its base |
| `/throughline rerun` | measures the last gate again |
| `/throughline bisect` | looks for the commit of the regression that the last gate found |
| `/throughline help` | shows this |"""
NO_GATE = "There is no gate of this pull request yet: write `/throughline gate`."


@dataclass(frozen=True, slots=True)
class Command:
    """The request in a comment."""

    verb: str
    """``gate``, ``rerun``, ``bisect``; anything else asks for help."""
    suite: str = _SUITE


def read(comment: str) -> Command | None:
    """The first command of a comment; None if it has none."""
    found = _COMMAND.search(comment)
    if found is None:
        return None
    match (found[1] or "").split():
        case ["gate"]:
            return Command("gate")
        case ["gate", suite]:
            return Command("gate", suite)
        case ["rerun" | "bisect" as verb]:
            return Command(verb)
    return Command("help")


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """The place of a command, and what it may use."""

    pull_request: str
    """Its key."""
    comment: str
    """Names the comment, so that a hook that comes twice starts one gate."""
    project: str | None
    address: str
    """Begins links."""


def obey(
    session: Session,
    command: Command,
    asked: CommandPlace,
    at: tuple[str, PullRequest] | None,
    now: datetime,
) -> str:
    """Do what a comment asks for; the answer in Markdown.

    ``at`` is the commit where the pull request left its base, and the pull request as it is now:
    what a gate needs.
    """
    try:
        with session.begin_nested():
            match command.verb:
                case "gate" if at is not None:
                    return _gate(session, command.suite, asked, at, now)
                case "rerun":
                    return _rerun(session, asked, now)
                case "bisect":
                    return _bisect(session, asked, now)
    except ServiceError as error:
        return f"Not started: {text(error.detail)}"
    except ValidationError:
        pass
    return HELP


def _gate(
    session: Session, suite: str, asked: CommandPlace, at: tuple[str, PullRequest], now: datetime
) -> str:
    baseline, pull_request = at
    request = ComparisonRequest(
        baseline=baseline,
        contender=pull_request.head,
        suite=suite,
        pull_request=pull_request,
        source=SOURCE,
        project=asked.project,
    )
    return _begin(session, request, asked, now)


def _rerun(session: Session, asked: CommandPlace, now: datetime) -> str:
    for row in rows_of(session, asked.pull_request):
        request = row.parsed_request
        return _begin(session, request.model_copy(update={"source": SOURCE}), asked, now)
    return NO_GATE


def _begin(session: Session, request: ComparisonRequest, asked: CommandPlace, now: datetime) -> str:
    made = start(session, request, now, asked.comment).comparison_id
    advance(session, made, now)
    link = f"{asked.address}/comparisons/{made}"
    return f"[The gate]({link}) has started. Its outcome will stand in the comment about gates."


def _bisect(session: Session, asked: CommandPlace, now: datetime) -> str:
    """Bisect the largest slowdown that the newest decided gate found."""
    row = next((one for one in rows_of(session, asked.pull_request) if one.decision), None)
    if row is None:
        return NO_GATE
    decision = decision_of(row.decision)
    worse = [
        (case.metrics[0], row.cases[place])
        for place, case in enumerate(decision.cases)
        if case.verdict is gate.CaseVerdict.WORSE and case.metrics
    ]
    if not worse:
        return "The last gate found no slowdown, so there is nothing to bisect."
    metric, case = min(worse, key=lambda one: one[0].change)
    if not (contracts.is_commit(row.baseline) and contracts.is_commit(row.contender)):
        return "The last gate compared no two commits, so nothing lies between them to bisect."
    request = BisectionRequest(
        ends=contracts.CommitRange(good=row.baseline, bad=row.contender),
        case=contracts.Case.model_validate(case),
        metric=metric.metric,
        source=SOURCE,
        project=row.project or None,
    )
    made = bisection.start(session, request, now)
    bisection.advance(session, made, now)
    return f"[The bisection]({asked.address}/bisections/{made}) has started."
