"""Step times of processes: made with the noise that was measured, or read from a file.

A file holds JSON lines, one fresh process each, in the order in which they ran: ``name`` (which
configuration), its mean step time as ``step_s`` in seconds or ``ms`` in milliseconds, and, if it
ran elsewhere than others of that name, ``gpu``. Where `trials.agreement.record` wrote it, side B,
which had more to do, and what could not be measured are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

Times = npt.NDArray[np.float64]
GPU = len("GPU-") + 8
"""Letters of a GPU's identifier that tell it from others."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How the step times of one configuration vary, as measured on an H200."""

    name: str
    steps: int
    """In a timed pass."""
    cv: float
    """Standard deviation over mean of the steps of one process."""
    lag1: float
    """Autocorrelation of neighbouring steps."""
    between: float
    """Standard deviation of what a whole process has in common, beside what its steps explain."""
    carried: float = 0.0
    """Autocorrelation of that from one process to the next: a host that gets slower by the hour."""
    step_s: float = 0.05
    gpu_bound: bool = True


MEASURED = (
    Noise("resnet50, eager, fixed clock", 112, 0.00101, 0.0, 0.00163),
    Noise("gpt, compiled, power cap", 94, 0.0166, 0.54, 0.0),
    Noise("unet, compiled, power cap", 240, 0.0166, 0.51, 0.0006),
    Noise("tiny gpt, eager, launch-bound", 1_050, 0.127, 0.68, 0.158, 0.8, gpu_bound=False),
)


def made(noise: Noise, gates: int, processes: int, random: np.random.Generator) -> Times:
    """Mean step times in s of ``processes`` successive processes of each of ``gates`` gates.

    Every step is drawn; none of the means is.
    """
    common = _walk(random, gates, processes, noise.carried) * noise.between
    step_s = np.empty((gates, processes))
    for place in range(processes):
        steps = 1 + noise.cv * _walk(random, gates, noise.steps, noise.lag1)
        step_s[:, place] = noise.step_s * np.exp(common[:, place]) * steps.mean(axis=1)
    return step_s


def _walk(random: np.random.Generator, rows: int, length: int, lag1: float) -> Times:
    """Stationary first-order autoregression with a standard deviation of 1."""
    drawn = random.normal(size=(rows, length))
    drawn[:, 1:] *= np.sqrt(1 - lag1**2)
    return np.asarray(lfilter([1.0], [1.0, -lag1], drawn, axis=1), float)


def read(path: Path) -> dict[str, Times]:
    """Step times in s by configuration, in the order in which the processes ran.

    Raises:
        ValueError: a line is not of the documented form.
    """
    by_name: dict[str, list[float]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        row = json.loads(line)
        if row.get("status", "ok") != "ok" or row.get("side") == "B":
            continue
        step_s = row["step_s"] if "step_s" in row else row.get("ms", 0.0) / 1_000
        if not step_s > 0:
            raise ValueError(f"line {number} has neither step_s nor ms above zero")
        where = f" on {row['gpu'][:GPU]}" if "gpu" in row else ""
        by_name.setdefault(row["name"] + where, []).append(step_s)
    return {name: np.array(times) for name, times in by_name.items()}


def resampled(times: Times, gates: int, processes: int, random: np.random.Generator) -> Times:
    """Processes drawn from the recorded ones, with replacement."""
    return random.choice(times, (gates, processes))


def shuffled(times: Times, gates: int, random: np.random.Generator) -> Times:
    """The recorded processes, each once, in ``gates`` orders: no value stands twice in a gate."""
    return random.permuted(np.tile(times, (gates, 1)), axis=1)


def in_a_row(
    times: Times, gates: int, least: int, most: int, random: np.random.Generator
) -> list[Times]:
    """As many neighbouring processes as there are from a random one on, ``least`` to ``most``."""
    starts = random.integers(0, max(len(times) - least, 0) + 1, gates)
    return [times[start : start + most] for start in starts]


def hurt(times: Times, factor: float, random: np.random.Generator) -> Times:
    """The same with one process of the first twelve of each gate ``factor`` times as slow."""
    slowed = times.copy()
    place = random.integers(0, 12, len(times))
    slowed[np.arange(len(times)), place] *= factor
    return slowed


def spread(times: Times) -> float:
    """Standard deviation between processes, as a share."""
    return float(np.log(times).std(ddof=1))


def names(noises: Sequence[Noise]) -> Iterator[str]:
    """Of the configurations that the device limits."""
    return (noise.name for noise in noises if noise.gpu_bound)
