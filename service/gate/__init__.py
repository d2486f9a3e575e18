"""The gate's judgement: measured pairs and a policy in, a decision out.

Pure: no session, no clock, no HTTP. `sequential` turns pairs into an interval that holds however
often one looks, `cases` judges one case by the policy's rule, `decision` joins the cases.
"""

from service.gate.cases import CaseFinding, judge_case
from service.gate.decision import Decision, Outcome, Used, decide, judge_all
from service.gate.measured import CaseRecord, Measured, Pair, Side, Trouble, software_of
from service.gate.metrics import Levels, MetricFinding
from service.gate.policy import Limit, Policy, Rule, Trade
from service.gate.sequential import Answer, Estimate, estimate
from service.gate.words import GOOD, Verdict

__all__ = [
    "GOOD",
    "Answer",
    "CaseFinding",
    "CaseRecord",
    "Decision",
    "Estimate",
    "Levels",
    "Limit",
    "Measured",
    "MetricFinding",
    "Outcome",
    "Pair",
    "Policy",
    "Rule",
    "Side",
    "Trade",
    "Trouble",
    "Used",
    "Verdict",
    "decide",
    "estimate",
    "judge_all",
    "judge_case",
    "software_of",
]
