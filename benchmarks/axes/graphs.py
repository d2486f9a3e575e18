"""The whole optimizer step as one CUDA graph, captured by hand and replayed.

Takes away what the host needs to launch kernels one by one. `compile=reduce-overhead` captures
parts of the step by itself, so the two exclude each other; a gradient scaler reads on the host
what the device found, recomputed blocks save the generator's state, which no graph can hold, and
a graph has one shape.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "off"
VALUES = {
    "off": "each kernel is launched by the host",
    "on": "forward, backward and update replayed as one graph",
}
NEEDS = {
    "on": {
        "device": ("cuda",),
        "precision": ("fp32", "tf32", "bf16", "fp8"),
        "compile": ("off", "default"),
        "checkpointing": ("off",),
        "dynamic": ("off",),
    }
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Capture the step or not."""
    return replace(recipe, graphs=value == "on")
