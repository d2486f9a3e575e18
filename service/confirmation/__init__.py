"""A suspicious result is measured again before anybody is told.

suspicion.py  which points are suspicious (what the history led one to expect, and what came)
usual.py      what each worker measured at the level before (pure)
verdict.py    what measuring again says: confirmed, not reproduced, bad node, environment (pure)
begin.py      suspicions become comparisons, within the day's budget
follow.py     decided comparisons become outcomes, and outcomes findings
read.py       what the API shows
"""

from service.confirmation.begin import awaited, begin, not_reproduced
from service.confirmation.follow import follow_all
from service.confirmation.read import ConfirmationView, list_confirmations
from service.confirmation.suspicion import Suspicion, suspicions

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
