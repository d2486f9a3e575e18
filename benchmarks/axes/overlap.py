"""Exchanges the gradients of `parallel=ddp` beside the backward pass, or after it.

Compiled, torch breaks the graph where a bucket ends, so that it can be sent: better overlap, less
fusion. Without overlap one bucket holds all gradients, and the graph stays whole.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "devices"
DEFAULT = "on"
VALUES = {
    "on": "each bucket is sent as soon as its gradients are there",
    "off": "all gradients are sent together when the last one is there",
}
NEEDS = {"off": {"parallel": ("ddp",)}}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Send early or together."""
    return replace(recipe, overlap=value == "on")
