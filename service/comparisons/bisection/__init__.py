"""A range of commits bisected: started, moved on, read.

Each probe is a comparison of one pair. `advance` reads what the pairs said, and asks the next one
or decides. Any replica may do it at any time, by compare-and-swap: no probe is asked twice.
"""

from service.comparisons.bisection.automatic import begin_unasked
from service.comparisons.bisection.ordered import start
from service.comparisons.bisection.probed import advance, advance_after, cancel
from service.comparisons.bisection.queries import (
    list_bisections,
    load_bisection,
    may_begin,
    of_finding,
)

__all__ = [
    "advance",
    "advance_after",
    "begin_unasked",
    "cancel",
    "list_bisections",
    "load_bisection",
    "may_begin",
    "of_finding",
    "start",
]
