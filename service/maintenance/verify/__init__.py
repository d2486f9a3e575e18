"""Checks that a database keeps the promises about jobs, attempts, leases and results.

Reads in one transaction that changes nothing, a few jobs at a time. What is wrong is shown by the
shortest history, out of the log, that shows it.
"""

from service.maintenance.verify.invariants import verify
from service.maintenance.verify.values import CheckOutcome, Event, Finding, VerificationReport

__all__ = ["CheckOutcome", "Event", "Finding", "VerificationReport", "verify"]
