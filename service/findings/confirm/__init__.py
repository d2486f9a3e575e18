"""Measures a suspicious result again before it is reported.

start.py      starts comparisons for suspicions, within the day's budget
verdict.py    the outcome: confirmed, not reproduced, bad node, environment (pure)
resolve.py    turns decided comparisons into outcomes, and outcomes into findings
queries.py    what the API shows
"""

from service.findings.confirm.queries import ConfirmationView, list_confirmations
from service.findings.confirm.resolve import follow_all
from service.findings.confirm.start import begin, decided, not_reproduced
from service.findings.suspicion import Suspicion, suspicions

__all__ = [
    "ConfirmationView",
    "Suspicion",
    "begin",
    "decided",
    "follow_all",
    "list_confirmations",
    "not_reproduced",
    "suspicions",
]
