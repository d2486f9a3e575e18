"""Checks that a database keeps the promises about jobs, attempts, leases and results.

Reads in one transaction that changes nothing, a few jobs at a time. What is wrong is shown by the
shortest history, out of the log, that shows it.
"""

from service.maintenance.verify.invariants import PROMISES, check, verify
from service.maintenance.verify.values import (
    Breach,
    CheckOutcome,
    Event,
    Finding,
    VerificationReport,
)

__all__ = [
    "PROMISES",
    "Breach",
    "CheckOutcome",
    "Event",
    "Finding",
    "VerificationReport",
    "check",
    "verify",
]
