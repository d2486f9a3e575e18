"""Equal parts of a batch that are on their way through the stages of `parallel=pp` at once.

torch's 1F1B schedule: after the first parts a stage does one forward, one backward. It needs at
least as many parts as stages; with m parts and n stages a stage rests (n - 1) / (m + n - 1).
"""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "devices"
DEFAULT = "4"
VALUES = {"2": "two", "4": "four", "8": "eight", "16": "sixteen", "32": "thirty-two"}
NEEDS = {
    "2": {"parallel": ("pp",)},
    "8": {"parallel": ("pp",)},
    "16": {"parallel": ("pp",)},
    "32": {"parallel": ("pp",)},
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Cut a batch into that many parts."""
    return replace(recipe, microbatches=int(value))
