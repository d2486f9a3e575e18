"""Pairs measured in turn, with the noise that was recorded on an H100 at its power limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from builders.gate_records import process

from benchmarks.contracts import Direction
from service.analysis.gate import Measured, Pair
from service.analysis.gate.pairs import Metric, Timed


@dataclass(frozen=True)
class Noise:
    """Standard deviations of logarithms; see benchmarks/results/h100."""

    slope: float = -0.65
    """Slope of log step time on log clock."""
    clock: float = 0.006
    """Difference of a pair's clocks as a whole ..."""
    clock_turn: float = 0.006
    """... and from turn to turn."""
    process: float = 0.001
    """Difference of a pair's times at one clock ..."""
    turn: float = 0.002
    """... and from turn to turn."""
    wild: float = 0.025
    """Share of turns that are off by 19 %."""


def pair(
    random: np.random.Generator,
    noise: Noise,
    slower: float = 0.0,
    clock: float = 0.0,
    turns: int = 6,
) -> Pair:
    """One pair; the contender takes ``slower`` more time at one clock, and its clock is higher by
    ``clock``."""
    clocks = clock + noise.clock * random.normal() + noise.clock_turn * random.normal(size=turns)
    times = slower + noise.process * random.normal() + noise.slope * clocks
    times += noise.turn * random.normal(size=turns) + 0.19 * (random.random(turns) < noise.wild)
    return Pair(
        baseline=side("old", np.zeros(turns), np.zeros(turns)),
        contender=side("new", times, clocks),
    )


def side(software: str, times: np.ndarray, clocks: np.ndarray) -> Measured:
    """A side with these logarithms of step time (of 50 ms) and of clock (of 1.5 GHz)."""
    step_s, clock_hz = 0.05 * np.exp(times), 1.5e9 * np.exp(clocks)
    turns = tuple(
        Timed(step_s=float(one), sm_clock_hz=float(hz))
        for one, hz in zip(step_s, clock_hz, strict=True)
    )
    kept = np.sort(times)[1:-1]  # the other side's are all alike: differences are in this order
    mean_s = float(0.05 * np.exp(kept.mean()))
    whole = process(32 / mean_s, software)
    step = Metric(value=mean_s, unit="s", direction=Direction.LOWER)
    return whole.model_copy(
        update={"turns": turns, "metrics": {**whole.metrics, "step_time": step}}
    )
