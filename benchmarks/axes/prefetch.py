"""The next batch copied to the device beside the computation, on a stream of its own.

FULL then tells how much of the copying that hid (`overlap`); the copy that a step still waits for
is its `copy` time. SYNTH has nothing to copy.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "input"
DEFAULT = "off"
VALUES = {
    "off": "copied on the compute stream, between two steps",
    "on": "copied on a side stream while the step before is computed",
}
NEEDS = {"on": {"device": ("cuda",), "pinning": ("on",)}}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Copy beside the computation or not."""
    return replace(recipe, prefetch=value == "on")
