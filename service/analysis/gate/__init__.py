"""The gate's decision: measured pairs and a policy in, a decision out.

Pure: no session, no clock, no HTTP. `sequential` turns pairs into an interval that holds however
often one looks, `decision` decides on each case by the policy's rule, and joins them. `forecast`
tells beforehand what to expect, and `order` which case is measured next.
"""

from service.analysis.gate.decision import Decision, decide, decide_cases, may_be_in_turn
from service.analysis.gate.order import next_places
from service.analysis.gate.pairs import CaseRecord, Measured, Metric, Pair, Trouble, side_of

__all__ = [
    "CaseRecord",
    "Decision",
    "Measured",
    "Metric",
    "Pair",
    "Trouble",
    "decide",
    "decide_cases",
    "may_be_in_turn",
    "next_places",
    "side_of",
]
