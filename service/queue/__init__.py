"""The only package that changes the state of a job or an attempt.

Every change is a compare-and-swap: the statement names what the caller saw, and the row count says
whether it was still so. A worker holds an *attempt*, by number and secret, never a job; so a
frozen worker that wakes up cannot finish what another is running.
"""

from service.queue.candidates import has_work
from service.queue.grant import lease, submit
from service.queue.hold import complete, heartbeat, release, start, taken_from
from service.queue.recover import cancel, grant_amnesty, sweep
from service.queue.values import Completion, Holder, Swept, Terms

__all__ = [
    "Completion",
    "Holder",
    "Swept",
    "Terms",
    "cancel",
    "complete",
    "grant_amnesty",
    "has_work",
    "heartbeat",
    "lease",
    "release",
    "start",
    "submit",
    "sweep",
    "taken_from",
]
