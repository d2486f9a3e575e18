"""Gangs of real ranks on the CPU, with a small model that can have a fault."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import lead
from benchmarks.catalog import catalog
from benchmarks.contracts import Case, ProcessSpec, Protocol, Result

ROOT = Path(__file__).parents[2]
GANG = {"gpus": "2", "parallel": "ddp"}
BRIEF = Protocol(
    warmup_min_steps=4,
    warmup_min_s=0.05,
    warmup_max_steps=12,
    window_min_s=0.1,
    window_max_s=0.5,
    window_min_steps=4,
    window_min_blocks=2,
    window_max_blocks=2,
    block_min_steps=2,
    block_min_s=0.01,
    settle_max_s=0.0,
)
PATIENCE_S, SILENT_S = 3.0, 5.0
SLOW_S = 0.05
"""The delay that the model below puts into each exchange of gradients, or each step of rank 1."""
MODEL = """
import os
import signal
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.workload import Recipe

PRESETS = {"tiny": {"batch": 8}}
FAULT, AT, SLOW_S = os.environ["FAULT"], 20, 0.05
steps = 0


def loss(model, batch):
    global steps
    steps += 1
    if os.environ["RANK"] == "1" and (steps >= AT or FAULT in ("exchanges slowly", "dies at once")):
        fail()
    return model(batch[0]).square().mean()


if FAULT == "exchanges slowly":
    import torch.nn.parallel.distributed as ddp
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    class Slow(ddp.DistributedDataParallel):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            self.register_comm_hook(None, wait)

    def wait(_, bucket):
        time.sleep(SLOW_S)
        return allreduce_hook(None, bucket)

    from benchmarks.measure import ranks, wrappers

    wrappers.DistributedDataParallel = Slow
    ranks.ACCOUNT_TURNS = 2  # such steps take long, and differ by nothing else


def fail():
    if FAULT in ("is killed", "dies at once"):
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "stops":
        os.kill(os.getpid(), signal.SIGSTOP)
    if FAULT == "takes too much":
        torch.empty(2**50)
    if FAULT == "exchanges slowly":
        time.sleep(SLOW_S)
    while FAULT == "hangs":
        time.sleep(0.1)


def build(size, context):
    return Recipe(
        model=nn.Linear(64, 64),
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 1e-3},
        dataset=TensorDataset(torch.randn(64, 64)),
        batch=size["batch"],
        loader_options={"num_workers": 1},
    )
"""


def surround(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks find the model below, keep what they make in ``tmp_path``, and have no fault."""
    (tmp_path / "ganged.py").write_text(MODEL)
    paths = [str(ROOT), str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("FAULT", "none")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def spec(workload: str = "ganged:build", **axes: str) -> ProcessSpec:
    """A gang of two ranks on the CPU."""
    case = catalog.normalise(Case(workload=workload, axes={**GANG, **axes}))
    return ProcessSpec(case=case, protocol=BRIEF, device="cpu")


def measured(asked: ProcessSpec, silent_s: float = SILENT_S) -> Result:
    """The Result of its launch."""
    return Result.model_validate_json(lead.measured(asked, PATIENCE_S, silent_s))


def asking(asked: ProcessSpec, **more: bool) -> ProcessSpec:
    """The same with passes of the protocol switched on."""
    return asked.model_copy(update={"protocol": asked.protocol.model_copy(update=more)})
