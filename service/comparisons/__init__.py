"""Two revisions measured against each other: started, moved on, read.

`start` stores what is wanted. `advance` moves one comparison on: it takes note of what its jobs
found, and then submits the next round of pairs, or decides. Any replica may do it at any time: what
it changes, it changes by compare-and-swap, so that no round is submitted twice. `read` tells where
it stands; its ``decision`` is there once its state is ``decided``.
"""

from service.comparisons.advance import advance, advance_after, advance_all, cancel, move_on_after
from service.comparisons.queries import list_comparisons, load_comparison
from service.comparisons.start import AcceptedComparison, start

__all__ = [
    "AcceptedComparison",
    "advance",
    "advance_after",
    "advance_all",
    "cancel",
    "list_comparisons",
    "load_comparison",
    "move_on_after",
    "start",
]
