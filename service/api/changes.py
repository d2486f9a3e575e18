"""The route that compares two revisions by their history."""

from __future__ import annotations

from typing import Literal

from fastapi import Response
from fastapi.responses import PlainTextResponse

from benchmarks.contracts import Line, Name, Revision
from service.api.dependencies import DatabaseSession
from service.api.router import Noun
from service.auth.permissions import Permission
from service.history import revisions
from service.history.queries import usual_metric
from service.jobs import report
from service.schemas.series import Changes
from service.wording import markdown

router = Noun("/changes", "changes")


@router.get("", response_model=Changes, responses={200: {"content": {"text/markdown": {}}}})
@Permission.READ.required
def compare(
    session: DatabaseSession,
    baseline: Revision,
    contender: Revision,
    suite: Name | None = None,
    metric: Line | None = None,
    project: Name | None = None,
    format: Literal["json", "markdown"] = "json",  # noqa: A002 - the name in the address
) -> Changes | Response:
    """Compare two revisions case by case; with `suite`, every case of it has a row at least.

    It reads what was measured before; `POST /comparisons` measures. With `project` only its
    histories are read, else all, one by one. A revision may be abbreviated like a commit; one that
    was never submitted is refused with 422.

    Without `metric` it is throughput; where no series has that, the metric of the most series.

    The verdict is `faster`, `slower`, `unclear` or `missing`. With fewer than three processes a
    side the noise of the series' own history decides; where that is not known the verdict is
    `unclear`. A difference below 0.5 % (1 % between two workers) is `unclear` too. `undecided`
    marks a possible slowdown that nobody has measured well enough. Of several results of a revision
    the one with the most replicates counts, then the latest.
    """
    cases = None if suite is None else report.cases_of(suite)
    baseline, contender = (revisions.find(session, name) for name in (baseline, contender))
    metric = metric or usual_metric(session)
    changes = report.changes_between(session, baseline, contender, metric, cases, project)
    if format == "markdown":
        text = markdown.changes(changes, baseline, contender)
        return PlainTextResponse(f"{text}\n", media_type="text/markdown")
    return Changes(
        baseline=baseline, contender=contender, suite=suite, metric=metric, changes=changes
    )
