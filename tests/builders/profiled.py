"""Profiles with chosen numbers, for tests of what is made out of them. Computed, not measured."""

from collections.abc import Iterator, Mapping, Sequence

from builders.measured import a_pass, a_replicate

from benchmarks.contracts import (
    Demand,
    KernelTime,
    Layer,
    Layers,
    NeedlessCopy,
    Operation,
    Pass,
    Profile,
    Replicate,
    Synchronization,
)
from benchmarks.diagnosis.roofline import Ceilings

H200 = Ceilings(4.28e12, {"bf16": 802e12, "tf32": 381e12, "fp32": 51e12})
"""What an NVIDIA H200 was measured to reach: copy, and matrix products of each arithmetic."""


def a_demand(flops: float, moved_b: float, *, fusable: bool = False) -> Demand:
    """An operation in bf16."""
    return Demand(
        name="aten.op", arithmetic="bf16", flops=flops, moved_b=moved_b, calls=1, fusable=fusable
    )


COMPUTE = (a_demand(80e12, 10e9), a_demand(0.0, 40e9, fusable=True))
"""0.1 s of arithmetic and 0.01 s of memory traffic on an H200."""
MEMORY = (a_demand(0.0, 300e9), a_demand(0.0, 100e9, fusable=True), a_demand(8e12, 10e9))
"""0.09 s of memory traffic and 0.01 s of arithmetic."""
MIXED = (a_demand(40e12, 10e9), a_demand(0.0, 200e9, fusable=True))
"""Half of each, and arithmetic alone once it is fused."""


def a_profile(
    busy_s: float,
    seconds: Mapping[str, float] | None = None,
    demands: Sequence[Demand] = (),
    *,
    exposed_s: float = 0.0,
    waits: Sequence[Synchronization] = (),
    operations: Sequence[Operation] = (),
    small_s: float | None = None,
    allocations: float = 0.0,
    copies: Sequence[NeedlessCopy] = (),
) -> Profile:
    """A profile of five steps."""
    return Profile(
        steps=5,
        step_s=0.11,
        busy_s=busy_s,
        kernels=500.0,
        launches=480.0,
        seconds=dict(seconds or {"gemm": busy_s}),
        exposed_communication_s=exposed_s,
        demands=tuple(demands),
        synchronizations=tuple(waits),
        operations=tuple(operations),
        small_s=small_s,
        device_allocations=allocations,
        copies=tuple(copies),
    )


def profiled(profile: Profile, timed: Pass | None = None) -> Replicate:
    """A process whose loader costs nothing, with a profile; its step takes 0.1 s."""
    timed = timed or a_pass(0.1)
    return a_replicate(timed, timed).model_copy(update={"profile": profile})


def a_layer(name: str, class_name: str, forward_s: float, flops: float = 0.0) -> Layer:
    """A module whose backward takes twice as long as its forward."""
    return Layer(
        name=name,
        class_name=class_name,
        calls=1.0,
        forward_s=forward_s,
        backward_s=2 * forward_s,
        flops=flops,
        kept_b=2**20,
        weights_b=2**22 if class_name == "Linear" else 0,
    )


def kernels(**seconds: float) -> tuple[KernelTime, ...]:
    """Kernels of these seconds, the same in every step, each called twice; longest first."""
    times = (KernelTime(name=name, self_s=s, range_s=0.0, calls=2.0) for name, s in seconds.items())
    return tuple(sorted(times, key=lambda time: -time.self_s))


def a_transformer(unit_s: float, twice: str = "") -> Layers:
    """Twelve blocks, each of 3 + 9 + 24 units; ``twice`` does its work twice, and so do the modules
    within it. All modules take 450 units, and 50 lie outside.
    """
    return Layers(
        of="step",
        steps=3,
        outside_s=50 * unit_s,
        noise=0.01,
        modules=tuple(_doubled(layer, twice) for layer in _transformer(unit_s)),
    )


def _transformer(unit_s: float) -> Iterator[Layer]:
    yield a_layer("", "GPT", 0.0)
    yield a_layer("wte", "Embedding", 2 * unit_s)
    for number in range(12):
        block = f"blocks.{number}"
        yield a_layer(block, "Block", 0.0)
        yield a_layer(f"{block}.norm", "LayerNorm", unit_s)
        yield a_layer(f"{block}.attn", "Attention", 3 * unit_s, 2e9)
        yield a_layer(f"{block}.mlp", "Linear", 8 * unit_s, 24e9)
    yield a_layer("head", "Linear", 4 * unit_s, 12e9)


def _doubled(layer: Layer, twice: str) -> Layer:
    if not twice or not f"{layer.name}.".startswith(f"{twice}."):
        return layer
    fields = ("calls", "forward_s", "backward_s", "flops", "kept_b")
    return layer.model_copy(update={name: 2 * getattr(layer, name) for name in fields})
