"""Follows a submission until every case has come to an end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from cli.client import ServiceClient
from cli.exits import Away, Exit, Stop
from cli.output.progress import View
from service.schemas.jobs import SubmissionView

LOOK_S = 1.0
"""How long the service may hold each request: what is shown is at most this old."""
PATIENCE_S = 60.0
"""How long a service may be away, as while it is restarted."""
RETRY_S = 1.0


def follow(
    client: ServiceClient,
    submission: SubmissionView,
    view: View,
    *,
    check: Callable[[], None] = lambda: None,
    timeout_s: float | None = None,
) -> SubmissionView:
    """Show ``submission`` until it is finished, and return it as it then is.

    ``check`` is called at every look and raises when waiting is pointless. Without ``timeout_s`` it
    waits without limit.
    """
    deadline_s = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
    away_since_s: float | None = None
    with view:
        view.show(submission)
        while not submission.finished:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                shows = f"throughline report {submission.id} --url {client.url}"
                raise Stop(
                    f"Submission {submission.id} is not finished after {timeout_s:g} s; it goes "
                    f"on, and `{shows}` shows what there is.",
                    Exit.TIMEOUT,
                )
            check()
            try:
                submission = client.submission(submission.id, min(LOOK_S, left_s))
            except Away as away:
                away_since_s = _bear(away, away_since_s, view)
                continue
            away_since_s = None
            view.show(submission)
    return submission


def _bear(away: Away, since_s: float | None, view: View) -> float:
    """Pause, and say so the first time; return since when the service has been away."""
    now_s = time.monotonic()
    if since_s is None:
        since_s = now_s
        view.say(f"The service is away; asking again for {PATIENCE_S:g} s.")
    if now_s - since_s >= PATIENCE_S:
        raise away
    time.sleep(RETRY_S)
    return since_s
