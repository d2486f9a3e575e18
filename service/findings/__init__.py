"""Findings that somebody should know: one per cause, announced once, closed when it is over.

causes.py               puts changes that have one cause together (pure)
suspicion.py            finds suspicious points: what the history predicts, and what came (pure)
drifts.py               tells what goes on from where a finding began, little by little
growth.py               adds the series that show an open finding's cause later
slow_series.py          takes out the series that a slow worker alone had moved
witnesses.py            finds the other series that show a change whose cause is known
rules.py                tells when a change becomes a finding and when a finding is over (pure)
update.py               applies a new analysis to the findings that exist
opening.py              makes findings of changes that no finding reports yet
bad_nodes.py            findings about nodes that became slow
fastest_cases.py        findings about cases that overtook the fastest of their workload
failing_cases.py        findings about cases that gave results and now fail
bad_node_statistics.py  tells whether a node became slow in everything (pure)
gather_evidence.py      the changes that a finding is about, and what they are put down to
thresholds.py           from which size on a series' changes are reported (pure)
threshold_table.py      the thresholds that teams have chosen
lifecycle.py            the only module that changes a finding's state, and its actions
queries.py              reads findings
search.py               finds findings, and what they are about, by words
nights                  reports what the schedules of a night measured, and what that showed

`service.findings.pipeline` calls them in turn.
"""

from service.findings.lifecycle import ACTIONS, ActionName, Plan, act, plan
from service.findings.queries import (
    count_active,
    expected_false_since,
    failing_by_series,
    list_findings,
    load_finding,
    of_series,
)
from service.findings.rules import ACTIVE

__all__ = [
    "ACTIONS",
    "ACTIVE",
    "ActionName",
    "Plan",
    "act",
    "count_active",
    "expected_false_since",
    "failing_by_series",
    "list_findings",
    "load_finding",
    "of_series",
    "plan",
]
