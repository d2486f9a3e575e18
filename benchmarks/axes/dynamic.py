"""Shapes of batches whose samples differ in length: one, one for each batch, or a few.

What fills a sample up counts for nothing: not in throughput, not in the loss, and with causal
attention it changes no real token (`precision=fp8` aside, whose scale is of all of a tensor). The
black edges of images do change batch norm and the mean over the plane, so that a case trains alike
only with equal padding.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "off"
VALUES = {
    "off": "every batch is padded to the preset's length or side: one shape",
    "on": "each batch is padded to its longest sample; compiled once, for any length",
    "bucketed": "each batch is padded to the next of four lengths; compiled once for each",
}
# FlexAttention is compiled by itself, for each shape anew. Where a length is no multiple of 128 its
# gradient may be NaN (https://github.com/pytorch/pytorch/issues/153799), as it was on an H100.
NEEDS = {
    "on": {
        "lengths": ("real",),
        "attention": ("auto", "math", "flash", "efficient", "cudnn"),
    },
    "bucketed": {
        "lengths": ("real",),
        "attention": ("auto", "math", "flash", "efficient", "cudnn"),
    },
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Pad batches in that way."""
    return replace(recipe, dynamic=value)
