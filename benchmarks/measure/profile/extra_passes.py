"""The passes beside timing: phases and profile, after FULL and SYNTH, where they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.contracts import Pass, Phases, Profile, Protocol
from benchmarks.measure.profile import phases, recording
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch

UNRELIABLE = "trace_unreliable"
"""Flag of a profile whose host was so much slower that its idle times tell nothing."""
AGREEMENT = 0.10
"""Busy shares under the profiler and in SYNTH must agree this closely."""


@dataclass(frozen=True)
class Beside:
    """The results of the passes beside timing."""

    phases: Phases | None = None
    profile: Profile | None = None
    flags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TimedPasses:
    """The timed passes that these are held against."""

    full: Pass
    synth: Pass


def run(
    trainer: Trainer,
    ring: Sequence[Batch],
    timed: TimedPasses,
    protocol: Protocol,
    reporter: Reporter,
    trace: Path | None = None,
) -> Beside:
    """Run what ``protocol`` asks for.

    Args:
        trainer: in steady state.
        ring: batches on the device.
        timed: what was timed before.
        protocol: which of the passes to run.
        reporter: told of each.
        trace: where the profiler's trace is kept; asks for a profile by itself.
    """
    marked: Phases | None = None
    profile: Profile | None = None
    flags: list[str] = []
    if protocol.phases:
        reporter.tell("phases", 1.0)
        marked = phases.measure(trainer, ring, timed.full)
        if phases.perturbed(marked, timed.synth):
            flags.append(phases.PERTURBED)
    if protocol.profile or trace is not None:
        reporter.tell("profile", 1.0)
        profile = recording.profile(trainer, ring, trace)
        if unreliable(profile, timed.synth):
            flags.append(UNRELIABLE)
    return Beside(marked, profile, flags)


def unreliable(profile: Profile, synth: Pass) -> bool:
    """Return True if, of a step that the profiler disturbed, only kernel times can be used."""
    if profile.busy_s is None or not profile.step_s:
        return False
    under, free = profile.busy_s / profile.step_s, profile.busy_s * synth.steps / synth.wall_s
    return abs(under - min(1.0, free)) > AGREEMENT
