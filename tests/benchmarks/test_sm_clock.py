"""The SMs count their own cycles; where they cannot be asked, nobody invents a clock."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from statistics import fmean

import pytest
import torch

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.measure import batch_source, loop, session, sm_clock
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Context

HZ = 1_500_000_000


def stamp(at_ns: int, sms: range, hz: int = HZ) -> list[tuple[int, int, int]]:
    """Every SM twice, a little apart, each with a counter that began elsewhere."""
    return [
        (sm, at_ns + late, sm * 10**6 + (at_ns + late) * hz // 10**9)
        for late in (0, 700)
        for sm in sms
    ]


def test_the_mean_clock_is_that_of_the_sms_which_both_ends_show() -> None:
    begin, end = stamp(10**9, range(132)), stamp(3 * 10**9, range(1, 140))
    assert sm_clock.mean_hz(begin, end) == pytest.approx(HZ, rel=1e-9)


def test_sms_with_different_clocks_are_averaged() -> None:
    begin, end = (
        [*stamp(at, range(2), HZ), *stamp(at, range(2, 4), 2 * HZ)] for at in (10**9, 2 * 10**9)
    )
    assert sm_clock.mean_hz(begin, end) == pytest.approx(1.5 * HZ, rel=1e-9)


def test_without_an_sm_that_both_ends_show_nobody_knows() -> None:
    assert sm_clock.mean_hz(stamp(10**9, range(4)), stamp(2 * 10**9, range(4, 8))) is None
    assert sm_clock.mean_hz(stamp(10**9, range(4)), stamp(10**9, range(4))) is None


def test_a_driver_that_refuses_leaves_the_clock_to_telemetry(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(device: torch.device) -> None:
        raise OSError("cuModuleLoadData failed with CUDA error 222")

    monkeypatch.setattr(sm_clock, "SmClock", refuses)
    with caplog.at_level(logging.WARNING):
        assert sm_clock.of(torch.device("cuda", 0)).mean_hz() is None
    assert "222" in caplog.text


class Counting:
    """A clock that notes how many steps were queued at both ends of its span."""

    def __init__(self) -> None:
        self.steps = 0
        self.ends: list[int] = []

    def start(self) -> None:
        self.ends.append(self.steps)

    def stop(self) -> None:
        self.ends.append(self.steps)

    def mean_hz(self) -> float | None:
        return HZ


def test_the_span_holds_every_step_that_is_timed(tmp_path: Path) -> None:
    context, clock = Context(torch.device("cpu"), tmp_path), Counting()

    class Counted(Trainer):
        def step(self, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
            clock.steps += 1
            return super().step(batch)

    case = catalog.normalise(Case(workload="nanogpt", preset="tiny"), "cpu")
    recipe = session.build(case, context)
    batches = batch_source.batches(recipe, 0)
    timed = loop.run(Counted(recipe, context.device), batches, lambda t: len(t.step) > 1, clock)
    assert clock.ends == [0, len(timed.times.step)]
    assert timed.sm_clock_hz == HZ


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real NVIDIA GPU")
def test_the_sms_count_a_little_less_than_nvml_reads() -> None:
    """Less by 2 to 8 % on an H100 (benchmarks/results/h100)."""
    device = torch.device("cuda", 0)
    clock = sm_clock.SmClock(device)
    matrix, readings = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16), []
    clock.start()
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        for _ in range(50):
            matrix @ matrix
        torch.cuda.synchronize(device)
        readings.append(1e6 * torch.cuda.clock_rate(device))
    clock.stop()
    counted = clock.mean_hz()
    assert counted is not None
    assert 0.85 < counted / fmean(readings) < 1.02
