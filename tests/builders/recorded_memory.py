"""The memory of a step with chosen numbers, for tests of what is made out of it."""

from benchmarks.contracts import Memory, MemoryLine

MIB = 2**20


def a_memory() -> Memory:
    """Ten milliseconds: 10 MiB of weights, and 30 MiB of activations halfway."""
    return Memory(
        device_b=1024 * MIB,
        peak_b=40 * MIB,
        peak_at_s=0.005,
        reserved_b=64 * MIB,
        categories={"parameters": 10 * MIB, "activations": 30 * MIB},
        lines=(MemoryLine(source="model.py:7", category="activations", size_b=30 * MIB, blocks=3),),
        pools_b=(2 * MIB, MIB),
        phases_s={"forward": 0.001, "backward": 0.005, "optimizer": 0.009},
        at_s=(0.0, 0.005, 0.010),
        alive_b={
            "activations": (0, 30 * MIB, 0),
            "parameters": (10 * MIB,) * 3,
        },
        held_b=(64 * MIB,) * 3,
    )
