"""Waits that come every few steps are found with their line, their period and their cost."""

import io
import itertools
import random
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.contracts import Case, ProcessSpec, Profile, Protocol, Synchronization
from benchmarks.diagnosis import conclude, waste
from benchmarks.measure import compilation, session
from benchmarks.measure.device import choose
from benchmarks.measure.profile import periodic, recording
from benchmarks.measure.profile.observation import Observation
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe
from cli.output import result_panel
from cli.output.console import Console


@pytest.mark.parametrize(
    ("at", "steps", "every"),
    [
        ([0, 10, 20], 24, 10),
        ([7, 17, 27], 37, 10),
        ([1, 3, 5], 6, 2),
        ([7, 17, 27], 38, None),  # not at 37
        ([12, 22, 32], 34, None),  # not at 2
        ([20, 80], 101, None),  # any two have a distance
        ([0, 10, 21], 24, None),
        ([5], 24, None),
        (range(24), 24, None),
    ],
)
def test_a_period_is_one_number_of_steps_throughout(
    at: list[int], steps: int, every: int | None
) -> None:
    assert periodic.period(at, steps) == every


def steps_of(count: int, every: int, extra_s: float, seed: int = 1) -> list[float]:
    """Steps of 10 ms with 1 % of noise; some are far slower, whatever the period."""
    noise = random.Random(seed)
    return [
        0.01 * noise.gauss(1, 0.01) * (3 if noise.random() < 0.02 else 1)
        + (extra_s if place % every == 3 % every else 0.0)
        for place in range(count)
    ]


@pytest.mark.parametrize("every", [2, 10, 50])
def test_the_cost_of_a_step_is_what_each_such_step_takes_longer_over_the_period(every: int) -> None:
    cost = periodic.cost_s(steps_of(200, every, 0.005), every)
    assert cost == pytest.approx(0.005 / every, rel=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_costs_nothing(seed: int) -> None:
    assert periodic.cost_s(steps_of(200, 10, 0.0, seed), 10) == 0.0


def test_a_pass_of_few_rounds_tells_no_cost() -> None:
    assert periodic.cost_s(steps_of(39, 10, 0.005), 10) is None


def test_waits_of_one_period_share_one_cost() -> None:
    waits = [
        Synchronization(what=".item()", source="a.py:1", every=10),
        Synchronization(what=".cpu()", source="a.py:2", every=10),
        Synchronization(what=".item()", source="a.py:3"),
    ]
    profile = Profile(synchronizations=tuple(waits))
    told = periodic.with_costs(profile, steps_of(200, 10, 0.005)).synchronizations
    assert [wait.cost_s for wait in told] == [pytest.approx(0.0005, rel=0.1), None, None]


def printing(every: int) -> Trainer:
    count = itertools.count(4)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        out: Tensor = model(batch[0]).pow(2).mean()
        if next(count) % every == 0:
            print(out.item())  # noqa: T201
        return out

    recipe = Recipe(
        model=nn.Linear(8, 8),
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=TensorDataset(torch.randn(16, 8)),
        batch=4,
        optimizer_options={"lr": 1e-3},
    )
    return Trainer(recipe, torch.device("cpu"))


RING = [(torch.randn(4, 8),)]


def test_a_loss_that_is_printed_every_tenth_step_is_found_and_each_step_is_not_said_to_wait(
    capsys: pytest.CaptureFixture[str],
) -> None:
    profile = recording.profile(printing(10), RING)
    (wait,) = profile.synchronizations
    assert (wait.every, wait.calls) == (10, 1)
    assert wait.source.endswith(line_of_here("print(out.item())"))
    assert profile.notes == ()
    assert capsys.readouterr().out


def test_a_wait_that_cuda_reported_too_is_told_once() -> None:
    line = line_of_here("print(out.item())")
    seen = Observation(waits=Counter({("a call that waits for the device", "b.py:1"): 1}))
    periodic.watch(printing(10), RING, seen)
    (wait,) = seen.every
    assert wait[1].endswith(line)
    assert len(seen.waits) == 2, "another line's stays"
    again = Observation(waits=Counter({("a call that waits for the device", wait[1]): 1}))
    periodic.watch(printing(10), RING, again)
    assert again.waits == {wait: 1}


def test_a_wait_that_comes_now_and_then_is_not_said_to_come_in_each_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice in the steps that are watched: no period, and surely not every step."""
    monkeypatch.setattr(periodic, "STEPS", 16)
    line = next(iter(recording.profile(printing(10), RING).synchronizations), None)
    assert line is None
    here = f"test_periodic_waits.py:{line_of_here('print(out.item())').rpartition(':')[2]}"
    seen = Observation()
    trainer = printing(10)
    periodic.watch(trainer, RING, seen)
    (what, source) = next(iter(_waits_of(printing(1))))
    assert source.endswith(here)
    reported = Observation(waits=Counter({("a call that waits for the device", source): 1}))
    periodic.watch(printing(10), RING, reported)
    assert (reported.waits, reported.every) == ({}, {})
    (note,) = reported.notes
    assert note == f"The host waits in 1 of 16 steps at {source} ({what})."
    assert capsys.readouterr().out


def _waits_of(trainer: Trainer) -> Counter[tuple[str, str]]:
    return recording.observe(trainer, RING)[1].waits


def line_of_here(words: str) -> str:
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(text, 1) if line.strip().startswith(words))
    return f"{Path(__file__).name}:{place}"


def test_steps_that_are_too_long_to_be_watched_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "MOST_S", 0.0)
    seen = Observation()
    periodic.watch(printing(10), RING, seen)
    assert (seen.every, seen.notes) == ({}, [periodic.TOO_LONG])


PLANTED = """
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.workload import Recipe

PRESETS = {"tiny": {}}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.steps = nn.Linear(64, 64), 0

    def forward(self, x):
        x = self.layer(x)
        for _ in range(4):
            x = x.clone()
        return x


def loss(model, batch):
    out = model(batch[0]).pow(2).mean()
    model.steps += 1
    if model.steps % 10 == 0:
        last = out.item()
        time.sleep(0.03)
    return out


def build(size, context):
    rows = 256 if context.device.type == "cpu" else 8192
    data = TensorDataset(torch.randn(64, rows, 64))
    return Recipe(Net(), loss, torch.optim.SGD, nn.Module.parameters, data, batch=32,
                  optimizer_options={"lr": 1e-3})
"""


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_planted_copy_and_a_planted_wait_in_a_users_own_model_are_suggested_with_their_lines(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text(PLANTED, encoding="utf-8")
    lines = [line.strip() for line in PLANTED.splitlines()]
    clone, item = (lines.index(words) + 1 for words in ("x = x.clone()", "last = out.item()"))
    protocol = {"window_min_steps": 80, "window_max_s": 3.0, "window_min_s": 1.0}
    protocol |= {"settle_max_s": 0.0, "profile": True, "warmup_min_s": 0.1}
    monkeypatch.setattr(compilation, "graphs", lambda: 0)  # whatever other tests compiled
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(tmp_path / "cache"))
    case = Case(workload="planted:build")
    spec = ProcessSpec(case=case, protocol=Protocol.model_validate(protocol))
    result = session.measure(spec, choose(device), Reporter(None, "planted"))
    result = conclude.concluded(result)
    replicate = result.replicates[0]
    assert replicate.profile is not None
    (copy,) = replicate.profile.copies
    assert (copy.kind, copy.source, copy.calls) == ("clone", f"planted.py:{clone}", 4)
    (wait,) = replicate.profile.synchronizations
    assert (wait.source, wait.every) == (f"planted.py:{item}", 10)
    assert wait.cost_s is not None
    assert 0.002 < wait.cost_s < 0.01, "30 ms every tenth step, and what a busy machine adds"
    assert result.verdict is not None
    suggested = " ".join(one.sentence for one in result.verdict.suggestions)
    assert f"planted.py:{item} makes the host wait every 10 steps" in suggested
    both = " ".join(waste.sentences(result.replicates, {}))  # whatever the noise of this machine
    assert f"planted.py:{clone} copies 4 times a step" in both
    shown = io.StringIO()
    result_panel.show(result, Console(file=shown, width=300))
    panel = shown.getvalue()
    assert f"4 x {copy.what} at planted.py:{clone}, " in panel
    assert f"planted.py:{item}: {wait.what}, every 10 steps, " in panel
