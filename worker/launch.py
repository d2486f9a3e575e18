"""A process of a job, before it is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from benchmarks.contracts import DuetSide, JobSpec, ProcessSpec
from worker.settings import Settings
from worker.supervisor import Watch
from worker.targets.target import Target


@dataclass(frozen=True)
class Local:
    """Options of a person who measures here, beside the job's own."""

    caches: Path | None = None
    """The folder that keeps compiled code from one job to the next."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """On top of what every child gets."""
    seed: int = 0
    """Of the first replicate; each further one adds one."""
    trace: Path | None = None
    """The file in which the process keeps the profiler's trace."""
    beat: tuple[float, float] | None = None
    """As `ProcessSpec.beat`."""
    until_s: float = inf
    """When every process is to be gone, on CLOCK_MONOTONIC."""


NO_WISHES = Local()


@dataclass(frozen=True)
class Launch:
    """One side's process: the values that stay the same when it is repeated."""

    spec: JobSpec
    target: Target
    folder: Path
    until_s: float
    watch: Watch
    first_c: float | None
    """The device's temperature before the first process."""
    caches: Path | None
    """Where compiled code is kept, if other replicates of the case need it."""
    local: Local

    def process(
        self, settings: Settings, trace: Path | None = None, duet: DuetSide | None = None
    ) -> ProcessSpec:
        """The process's specification; equal replicates of all cases have the same seed."""
        root = settings.data_root
        return ProcessSpec(
            case=self.spec.case,
            protocol=self.spec.protocol,
            seed=self.local.seed + self.spec.replicate - 1,
            device=settings.device,
            devices=settings.devices if settings.gpus and self.spec.case.is_of_gang else None,
            data_root=root.expanduser().absolute() if root else None,
            trace=self.local.trace or trace,
            beat=self.local.beat,
            duet=duet,
        )
