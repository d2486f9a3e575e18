"""A suspicious result is measured again before anybody is told.

suspicion.py  which points are suspicious (what the history led one to expect, and what came)
usual.py      what each worker measured at the level before (pure)
verdict.py    what measuring again says: confirmed, not reproduced, bad node, environment (pure)
begin.py      suspicions become comparisons, within the day's budget
follow.py     decided comparisons become outcomes, and outcomes findings
read.py       what the API shows
"""

from service.findings.confirm.outliers import Suspicion, suspicions
from service.findings.confirm.queries import ConfirmationView, list_confirmations
from service.findings.confirm.resolve import follow_all
from service.findings.confirm.start import awaited, begin, not_reproduced

__all__ = [
    "ConfirmationView",
    "Suspicion",
    "awaited",
    "begin",
    "follow_all",
    "list_confirmations",
    "not_reproduced",
    "suspicions",
]
