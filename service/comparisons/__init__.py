"""Two revisions measured against each other: started, moved on, read.

`advance` takes note of what the jobs measured, and then submits the next pairs, or
decides. Any replica may do it at any time, by compare-and-swap: no round is submitted twice.
"""

from service.comparisons.advance import advance, advance_after, cancel, move_on_after
from service.comparisons.queries import list_comparisons, load_comparison
from service.comparisons.start import start

__all__ = [
    "advance",
    "advance_after",
    "cancel",
    "list_comparisons",
    "load_comparison",
    "move_on_after",
    "start",
]
