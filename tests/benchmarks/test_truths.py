"""Steps whose limit is known beforehand are told right: on a GPU, and from what a GPU recorded."""

import json
from pathlib import Path

import pytest
import torch
from builders.profiled import H200

from benchmarks.contracts import Replicate
from benchmarks.diagnosis.verdict import diagnose
from benchmarks.measure import batch_source, check_recipe
from benchmarks.measure.trainer import Trainer
from trials.truths.measured import RECORDED, measure, names_the_limit
from trials.truths.models import TRUTHS

RECORDINGS = sorted(RECORDED.glob("*.json"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a real NVIDIA GPU")
@pytest.mark.parametrize("name", TRUTHS)
def test_a_truth_is_told_right_on_this_gpu(name: str) -> None:
    verdict = diagnose((measure(name, torch.device("cuda", 0)),), H200)
    assert names_the_limit(TRUTHS[name], verdict), verdict


@pytest.mark.skipif(not RECORDINGS, reason="no GPU has recorded the truths yet")
@pytest.mark.parametrize("path", RECORDINGS or [Path("none")], ids=lambda path: path.stem)
def test_a_recorded_truth_is_told_right(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    replicate = Replicate.model_validate(document["replicate"])
    verdict = diagnose((replicate,), H200)
    assert names_the_limit(TRUTHS[document["truth"]], verdict), verdict


def test_the_truths_that_fit_a_cpu_train() -> None:
    cpu = torch.device("cpu")
    for name in ("sleeping", "tiny"):
        recipe = TRUTHS[name].build(cpu)
        batch = check_recipe.batch(next(iter(batch_source.loader(recipe, seed=0))), recipe.batch)
        assert torch.isfinite(Trainer(recipe, cpu).step(batch))
