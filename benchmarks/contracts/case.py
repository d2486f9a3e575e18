"""The case that is measured, and the protocol that times it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchmarks.contracts.values import Contract, Flag, Name, Seconds, Value, Workload


class Case(Contract):
    """A workload with one value on each axis.

    ``axes`` names only what differs from the axes' defaults, so that adding an axis later
    continues every series; `benchmarks.catalog.catalog.normalise` brings a case into that form.
    """

    workload: Workload
    preset: Name = "auto"
    """``auto`` becomes ``full`` on a GPU and ``tiny`` on a CPU; a result always names which."""
    axes: dict[Name, Value] = Field(default_factory=dict, max_length=64)

    @property
    def gpus(self) -> int:
        """GPUs of one worker that it needs."""
        return int(self.axes.get("gpus", "1"))

    @property
    def is_of_gang(self) -> bool:
        """Return True if ranks measure it; with `gpus=1` it is one rank, in the wrapper."""
        return self.axes.get("parallel", "none") != "none"

    @property
    def is_compiled(self) -> bool:
        """Return True if a compiler writes its kernels."""
        return self.axes.get("compile", "off") != "off"

    @property
    def key(self) -> str:
        """One line that names the case, such as ``resnet50:full layout=channels_last``."""
        settings = "".join(f" {axis}={value}" for axis, value in sorted(self.axes.items()))
        return f"{self.workload}:{self.preset}{settings}"


def workload_of(key: str) -> tuple[str, str]:
    """Workload and preset out of a case's key; a user's own workload has a colon in its name."""
    workload, _, preset = key.partition(" ")[0].rpartition(":")
    return workload, preset


class Protocol(Contract):
    """The protocol that times a case, stored with every result; see docs/measurement.md."""

    replicates: Annotated[int, Field(strict=True, ge=1, le=50)] = 1
    """Fresh processes. The process is the unit of replication, not the step."""
    warmup_min_steps: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 10
    warmup_min_s: Seconds = 3.0
    warmup_max_steps: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 200
    warmup_max_s: Seconds = 60.0
    settle_c: Annotated[float, Field(strict=True, gt=0, le=1_000)] = 2.0
    """Warm-up waits until the device's temperature stays within this span for 5 s ..."""
    settle_max_s: Seconds = 20.0
    """... or until so long has passed; 0 does not wait for it."""
    window_min_s: Seconds = 5.0
    window_max_s: Seconds = 30.0
    window_min_steps: Annotated[int, Field(strict=True, ge=2, le=100_000)] = 30
    window_min_blocks: Annotated[int, Field(strict=True, ge=2, le=1_000)] = 10
    window_max_blocks: Annotated[int, Field(strict=True, ge=2, le=1_000)] = 60
    block_min_steps: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 5
    block_min_s: Seconds = 0.25
    precision: Annotated[float, Field(strict=True, gt=0, lt=1)] = 0.005
    """Stop a pass once the 95 % half-width over block means is at most this share of the mean."""
    phases: Flag = False
    """Mark the phases of a step, after the timed passes of a job's first process."""
    profile: Flag = False
    """Profile a few steps there; the verdict then tells compute from memory."""
    parity: Flag = False
    """After the timed passes of a job's first process: hold 20 steps against fp32 eager."""
    long_parity: Flag = False
    """There: hold the loss of some hundred steps from several seeds against fp32 eager."""
    efficiency: Flag = False
    """Count there what a step has to do, and what share of the device's rates it reached."""
    account: Flag = False
    """In each launch of a gang measure its parts by themselves too: where the scaling goes."""
    trace: Flag = False
    """Keep that profile's Chrome trace beside the result; whoever asks for it gets the profile."""

    def of_replicate(self, number: int) -> Protocol:
        """Return the protocol of process ``number``, from 1: only the first has the passes beside
        timing."""
        return self if number == 1 else self.timing_only()

    def timing_only(self) -> Protocol:
        """Without the passes beside timing."""
        return self.model_copy(update=dict.fromkeys(BESIDE, False))


BESIDE = ("phases", "profile", "parity", "long_parity", "efficiency", "trace")
"""Passes beside the timing, each switched by its field."""
