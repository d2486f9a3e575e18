"""Steps whose limit is known beforehand are told right: on a GPU, and from what a GPU recorded."""

import json
from functools import cache
from pathlib import Path

import pytest
import torch
from builders.profiled import H200

from benchmarks.contracts import Bottleneck, Pass, Replicate
from benchmarks.diagnosis.conclude import ceilings
from benchmarks.diagnosis.disturbances import THROTTLED
from benchmarks.diagnosis.roofline import Ceilings
from benchmarks.diagnosis.verdict import diagnose
from benchmarks.measure import batch_source, canary, check_recipe
from benchmarks.measure.trainer import Trainer
from trials.truths.measured import RECORDED, measure, names_the_limit
from trials.truths.models import TRUTHS
from trials.truths.parts import Truth

RECORDINGS = sorted(RECORDED.rglob("*.json"))


@cache
def this_gpu() -> Ceilings | None:
    return ceilings({"hw.device": "cuda"}, canary.measure(torch.device("cuda", 0)).readings)


def recorded(path: Path) -> tuple[Truth, Replicate, Ceilings | None]:
    document = json.loads(path.read_text(encoding="utf-8"))
    reached = document.get("canary")  # the oldest recordings have none
    of_device = ceilings({"hw.device": "cuda"}, reached) if reached else H200
    replicate = Replicate.model_validate(document["replicate"])
    return TRUTHS[document["truth"]], replicate, of_device


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real NVIDIA GPU")
@pytest.mark.parametrize("name", TRUTHS)
def test_a_truth_is_told_right_on_this_gpu(name: str) -> None:
    verdict = diagnose((measure(name, torch.device("cuda", 0)),), this_gpu())
    assert names_the_limit(TRUTHS[name], verdict), verdict


@pytest.mark.skipif(not RECORDINGS, reason="no GPU has recorded the truths yet")
@pytest.mark.parametrize("path", RECORDINGS or [Path("none")], ids=lambda path: path.stem)
def test_a_recorded_truth_is_told_right(path: Path) -> None:
    truth, replicate, of_device = recorded(path)
    verdict = diagnose((replicate,), of_device)
    assert names_the_limit(truth, verdict), verdict


@pytest.mark.parametrize("slower", [1.3, 2.0])
def test_matrix_products_at_a_throttled_clock_are_limited_by_it(slower: float) -> None:
    """Simulated: the recorded step and its kernels take longer, and the worker has flagged why."""
    _, replicate, of_device = recorded(RECORDED / "h200" / "products.json")
    assert replicate.profile is not None
    assert replicate.profile.busy_s is not None
    longer = {
        "full": held_back(replicate.full, slower),
        "synth": held_back(replicate.synth, slower),
    }
    profile = replicate.profile.model_copy(update={"busy_s": replicate.profile.busy_s * slower})
    flagged = {**longer, "profile": profile, "flags": (THROTTLED,)}
    verdict = diagnose((replicate.model_copy(update=flagged),), of_device)
    assert verdict.bottleneck is Bottleneck.COMPUTE
    assert "held its clock back" in verdict.sentence


def held_back(timed: Pass, slower: float) -> Pass:
    """The pass with every time longer but the host's."""
    times = {name: getattr(timed, name) * slower for name in ("wall_s", "work_s", "copy_s")}
    rates = {"rate": timed.rate / slower, "half_width": (timed.half_width or 0.0) / slower}
    return timed.model_copy(update=times | rates)


def test_the_truths_that_fit_a_cpu_train() -> None:
    cpu = torch.device("cpu")
    for name in ("sleeping", "tiny"):
        recipe = TRUTHS[name].build(cpu)
        batch = check_recipe.batch(next(iter(batch_source.loader(recipe, seed=0))), recipe.batch)
        assert torch.isfinite(Trainer(recipe, cpu).step(batch))
