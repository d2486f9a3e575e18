"""Python's garbage collector inside the timed passes.

It stops the process at moments of its own, for longer the more objects there are. Well-kept
training loops run it between steps of their choice; the harness runs it before each pass.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "off"
VALUES = {
    "off": "collected and frozen before a pass, and still within it",
    "on": "collects when it likes, as in a script that does nothing about it",
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Keep the collector out of the passes, or let it work."""
    return replace(recipe, collect_garbage=value == "on")
