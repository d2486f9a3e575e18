"""Submissions: a suite or some cases become jobs, once, however often the request is sent.

request.py    what may be asked for
expansion.py  the jobs that a request means; nothing is read or stored
accept.py     queues them, once for each key
read.py       submissions as they are shown
"""

from service.submissions.accept import Accepted, digest_of, kept_as, submit
from service.submissions.expansion import expand
from service.submissions.read import (
    SubmissionSummary,
    SubmissionView,
    Submitted,
    answer_of,
    is_finished,
    list_submissions,
    load_submission,
)
from service.submissions.request import JobRequest, Source, SubmissionRequest, request_of

__all__ = [
    "Accepted",
    "JobRequest",
    "Source",
    "SubmissionRequest",
    "SubmissionSummary",
    "SubmissionView",
    "Submitted",
    "answer_of",
    "digest_of",
    "expand",
    "is_finished",
    "kept_as",
    "list_submissions",
    "load_submission",
    "request_of",
    "submit",
]
