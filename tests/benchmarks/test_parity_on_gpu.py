"""Parity and the count of work where they are meant to run; skipped without an NVIDIA GPU."""

from pathlib import Path

import pytest
import torch

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, LongParityStatus, ParityStatus
from benchmarks.diagnosis import peaks
from benchmarks.environment import capture
from benchmarks.measure import flags, flops
from benchmarks.measure.long_run import LongRun
from benchmarks.measure.parity_check import Check
from benchmarks.measure.session import build
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Context

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize(
    "axes",
    [
        {"precision": "tf32"},
        {"precision": "fp16"},
        {"precision": "fp16", "optimizer": "fused"},
        {"precision": "bf16", "compile": "reduce-overhead"},
        {"precision": "bf16", "attention": "flex"},
        {"precision": "bf16", "attention": "flex", "compile": "default"},
    ],
    ids=lambda axes: "-".join(axes.values()),
)
def test_a_right_case_passes_on_the_gpu_and_gives_its_memory_back(
    tmp_path: Path, axes: dict[str, str]
) -> None:
    device = torch.device("cuda", 0)
    held_b = torch.cuda.memory_allocated()  # by tests before this one
    context = Context(device, tmp_path)
    case = catalog.normalise(Case(workload="nanogpt", preset="tiny", axes=axes), "cuda")
    recipe = build(case, context)
    facts = capture(device, flags.put_in_force(recipe), recipe.data_name).facts
    check = Check(case, context, facts, build)
    trainer = Trainer(recipe, device)
    check.follow(trainer)
    del trainer, recipe
    verdict = check.verdict()
    sound = (ParityStatus.PASS, ParityStatus.NONDETERMINISTIC)
    assert verdict.status in sound, verdict.reason
    torch._C._cuda_clearCublasWorkspaces()  # 64 MiB that a process keeps whatever it computes
    assert torch.cuda.memory_allocated() < held_b + 4 * 2**20


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize(
    ("workload", "axes"),
    [
        ("nanogpt", {"precision": "fp16", "optimizer": "fused"}),
        ("nanogpt", {"precision": "bf16", "compile": "default", "workers": "2"}),
        ("nanogpt", {"precision": "bf16", "optimizer": "fused", "graphs": "on"}),
        ("unet", {"precision": "bf16", "layout": "channels_last", "accumulation": "2"}),
    ],
    ids=lambda told: told if isinstance(told, str) else "-".join(told.values()),
)
def test_a_right_case_trains_no_worse_on_the_gpu_and_gives_its_memory_back(
    tmp_path: Path, workload: str, axes: dict[str, str]
) -> None:
    device = torch.device("cuda", 0)
    held_b = torch.cuda.memory_allocated()  # by tests before this one
    context = Context(device, tmp_path)
    case = catalog.normalise(Case(workload=workload, preset="tiny", axes=axes), "cuda")
    recipe = build(case, context)
    batch = recipe.batch
    facts = capture(device, flags.put_in_force(recipe), recipe.data_name).facts
    del recipe
    told = LongRun(case, batch, context, facts, build).compared()
    assert told.status is LongParityStatus.NO_WORSE, told.reason
    assert (told.steps, told.batch) == (250, batch)
    torch._C._cuda_clearCublasWorkspaces()
    assert torch.cuda.memory_allocated() < held_b + 4 * 2**20


def test_work_is_counted_on_the_gpu_and_kept(tmp_path: Path) -> None:
    device = torch.device("cuda", 0)
    context = Context(device, tmp_path)
    case = catalog.normalise(Case(workload="unet", preset="tiny"), "cuda")
    recipe = build(case, context)
    facts = capture(device, flags.put_in_force(recipe), recipe.data_name).facts
    efficiency = flops.efficiency(case, recipe.batch, context, facts, build)
    assert efficiency.work is not None, efficiency.reason
    assert efficiency.work.flops_by_formula is not None
    assert efficiency.work.flops_per_item == pytest.approx(
        efficiency.work.flops_by_formula, rel=0.02
    )
    assert (efficiency.work.roof_s is not None) == (peaks.match(facts) is not None)
    assert flops.efficiency(case, recipe.batch, context, facts, build) == efficiency
    assert len(list((tmp_path / "work").iterdir())) == 1
