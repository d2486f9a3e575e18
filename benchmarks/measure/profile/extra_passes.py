"""The passes after FULL and SYNTH, where requested: phases and profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import contracts
from benchmarks.measure import cycles
from benchmarks.measure.profile import full_trace, modules, periodic, phases, recording, sample_cost
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch

UNRELIABLE = "trace_unreliable"
"""Flag of a profile that slowed the host so much that its idle times say nothing."""
SEVERAL_SHAPES = "A profile is of one step, and here batches of different lengths take turns."
AGREEMENT = 0.10
"""Busy shares under the profiler and in SYNTH must agree this closely."""


@dataclass(frozen=True)
class Beside:
    """The results of the passes beside timing."""

    phases: contracts.Phases | None = None
    input: contracts.Input | None = None
    profile: contracts.Profile | None = None
    flags: list[str] = field(default_factory=list)


def run(
    trainer: Trainer,
    ring: Sequence[Batch],
    timed: tuple[contracts.Pass, contracts.Pass],
    protocol: contracts.Protocol,
    reporter: Reporter,
    trace: Path | None = None,
    seed: int = 0,
) -> Beside:
    """Run the passes that ``protocol`` names, in steady state; a ``trace`` file implies a profile.

    ``ring`` are batches on the device, ``timed`` FULL and SYNTH, ``seed`` that of FULL's order.
    """
    full, synth = timed
    marked: contracts.Phases | None = None
    cost: contracts.Input | None = None
    profile: contracts.Profile | None = None
    flags: list[str] = []
    if protocol.phases:
        reporter.tell("phases", 1.0)
        marked = phases.measure(trainer, ring, full)
        if phases.perturbed(marked, synth):
            flags.append(phases.PERTURBED)
        reporter.tell("input", 1.0)
        cost = _sample_cost(trainer, ring)
    if (protocol.profile or trace is not None) and cycles.several_shapes(ring):
        profile = contracts.Profile(absent=SEVERAL_SHAPES)
    elif protocol.profile or trace is not None:
        reporter.tell("profile", 1.0)
        profile = recording.profile(trainer, ring, trace)
        profile = periodic.with_costs(profile, synth.step_trace.values())
        reporter.tell("layers", 1.0)
        profile = modules.with_layers(profile, trainer, ring)
        if unreliable(profile, synth):
            flags.append(UNRELIABLE)
    if profile is not None and trace is not None and not profile.absent:
        profile = _with_full(profile, trainer, seed, trace, reporter)
    return Beside(marked, cost, profile, flags)


def _sample_cost(trainer: Trainer, ring: Sequence[Batch]) -> contracts.Input:
    try:
        return sample_cost.measure(trainer, ring)
    except Exception as error:  # such as no further process: the speed was measured
        return contracts.Input(absent=recording.sentence("No sample could be fetched", error))


def _with_full(
    profile: contracts.Profile, trainer: Trainer, seed: int, trace: Path, reporter: Reporter
) -> contracts.Profile:
    """Add steps of FULL to the trace; ``profile`` notes why there are none."""
    try:
        full_trace.add(trainer, seed, trace, lambda: reporter.tell("trace", 1.0))
    except Exception as error:  # such as too little memory for one more batch
        return recording.noted(profile, "Steps of FULL could not be traced", error)
    return profile


def unreliable(profile: contracts.Profile, synth: contracts.Pass) -> bool:
    """Return True if the profiler disturbed the step so much that only kernel times can be used."""
    if profile.busy_s is None or not profile.step_s:
        return False
    under, free = profile.busy_s / profile.step_s, profile.busy_s * synth.steps / synth.wall_s
    return abs(under - min(1.0, free)) > AGREEMENT
