"""Whether a database keeps the promises about jobs, attempts, leases and results.

Reads in one transaction that changes nothing, a few jobs at a time. What is wrong is shown by the
shortest history, out of the log, that shows it.
"""

from service.verify.promises import PROMISES, check, verify
from service.verify.values import Breach, Event, Finding, Outcome, Report

__all__ = ["PROMISES", "Breach", "Event", "Finding", "Outcome", "Report", "check", "verify"]
