"""What somebody should know: one finding per cause, announced once, closed when it is over.

values.py     findings as they are read
rules.py      when a change becomes a finding, which share one, and when it is over (pure)
again.py      tells a change that came again from the one that a closed finding is about
follow.py     what a new judgement means for the findings that exist
opening.py    changes that nobody has been told of become findings
members.py    the changes that a finding is about, and what they are put down to by now
nodes.py      findings about nodes that became slow
slowdown.py   whether a node became slow in everything (pure)
question.py   gathers what is known around a change and asks for its cause
lifecycle.py  the only module that changes a finding's state
read.py       reads findings

`service.findings.pipeline` calls them in turn.
"""

from service.findings.lifecycle import ACTIONS, Plan, act, plan
from service.findings.queries import (
    count_active,
    expected_false_since,
    list_findings,
    load_finding,
    of_series,
)
from service.findings.types import (
    ACTIVE,
    AffectedSeries,
    AlreadyReported,
    Candidate,
    Certainty,
    FindingEventView,
    FindingKind,
    FindingSummary,
    FindingView,
    PendingShift,
    Remeasured,
    SeriesName,
)

__all__ = [
    "ACTIONS",
    "ACTIVE",
    "AffectedSeries",
    "AlreadyReported",
    "Candidate",
    "Certainty",
    "FindingEventView",
    "FindingKind",
    "FindingSummary",
    "FindingView",
    "PendingShift",
    "Plan",
    "Remeasured",
    "SeriesName",
    "act",
    "count_active",
    "expected_false_since",
    "list_findings",
    "load_finding",
    "of_series",
    "plan",
]
