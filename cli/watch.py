"""Follows a submission until every case has come to an end."""

from __future__ import annotations

import time
from collections.abc import Callable

from cli.answers import SubmissionView
from cli.exits import Exit, Stop
from cli.progress import View
from cli.service_client import ServiceClient

_POLL_S = 0.5


def follow(
    client: ServiceClient,
    submission: SubmissionView,
    view: View,
    *,
    check: Callable[[], None] = lambda: None,
    timeout_s: float | None = None,
) -> SubmissionView:
    """Show ``submission`` until it is finished, and return it as it then is.

    Args:
        client: where to ask.
        submission: what to follow.
        view: what shows it.
        check: called at every look; raises when waiting has lost its sense.
        timeout_s: how long to wait at most; None waits as long as it takes.

    Raises:
        Stop: ``timeout_s`` has passed, or the service is away.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with view:
        view.show(submission)
        while not submission.finished:
            if deadline is not None and time.monotonic() >= deadline:
                raise Stop(
                    f"Submission {submission.id} is not finished after {timeout_s:g} s; it goes "
                    f"on, and `throughline report {submission.id}` shows what there is.",
                    Exit.TIMEOUT,
                )
            time.sleep(_POLL_S)
            check()
            submission = client.submission(submission.id)
            view.show(submission)
    return submission
