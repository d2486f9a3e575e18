"""Parts of a batch that go through the model one after another before one update.

The batch of an optimizer step stays what it is: it is cut into k equal micro-batches, so that
memory falls, throughput counts the same samples, and the gradient is the same mean. Batch norm
takes its statistics from each micro-batch.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "1"
VALUES = {
    "1": "the whole batch at once",
    "2": "two halves",
    "4": "four quarters",
    "8": "eight eighths",
}
PATTERN = "[1-9][0-9]{0,2}"


def apply(value: str, recipe: Recipe) -> Recipe:
    """Cut the batch into that many parts."""
    return replace(recipe, accumulation=int(value))
