"""GPUs that train one model together, a process (a rank) on each: a gang. On a CPU, processes."""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "devices"
DEFAULT = "1"
VALUES = {
    "1": "one GPU",
    "2": "two GPUs of one host",
    "4": "four GPUs of one host",
    "8": "eight GPUs of one host",
}
NEEDS = {
    "2": {"parallel": ("ddp", "fsdp2", "tp", "pp")},
    "4": {"parallel": ("ddp", "fsdp2", "tp", "pp")},
    "8": {"parallel": ("ddp", "fsdp2", "tp", "pp")},
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Count that many ranks."""
    return replace(recipe, gpus=int(value))
