"""Real ranks on the CPU: they train as one process would, and fall together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

import psutil
import pytest
import torch
from builders import loaded, real_gangs
from builders.measured import a_failure
from builders.real_gangs import GANG, asking, measured, spec

from benchmarks import lead
from benchmarks.catalog import catalog
from benchmarks.contracts import PEER_GONE, Case, ProcessSpec, Result, Status
from benchmarks.measure import graphs
from benchmarks.measure.batch_source import EndlessShuffle
from benchmarks.measure.session import build
from benchmarks.workload import Context


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_gangs.surround(tmp_path, monkeypatch)


@pytest.fixture
def forked_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that need not load torch; the test of a lead that is killed has ranks as they are."""
    loaded.forked_ranks(monkeypatch)


def ranks_below(pid: int) -> list[psutil.Process]:
    return [one for one in psutil.Process(pid).children(recursive=True) if _is_a_rank(one)]


def _is_a_rank(process: psutil.Process) -> bool:
    try:
        return "benchmarks" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def left_of(place: Path) -> list[psutil.Process]:
    """Processes of a gang that began in ``place``, wherever they hang now."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("THROUGHLINE_CACHE_DIR") == str(place / "cache"):
                found.append(process)
        except psutil.Error:
            continue
    return [one for one in found if one.pid != os.getpid() and _lives(one)]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone_within(place: Path, limit_s: float) -> list[psutil.Process]:
    until_s = time.monotonic() + limit_s
    while (left := left_of(place)) and time.monotonic() < until_s:
        time.sleep(0.05)
    return left


@pytest.mark.usefixtures("forked_ranks")
def test_two_ranks_give_one_result_that_counts_the_items_of_both(tmp_path: Path) -> None:
    """Passes beside timing are left out, and the result says so."""
    result = measured(asking(spec(), parity=True, profile=True))
    assert result.status is Status.OK, result.reason
    assert result.parity is None
    assert result.batch_items == 16
    (replicate,) = result.replicates
    for timed in (replicate.full, replicate.synth):
        assert len(timed.ranks) == 2
        step_s = sum(timed.step_trace.values()) / timed.steps
        assert max(rank.step_s for rank in timed.ranks) <= step_s * (1 + 1e-5)
        assert timed.rate == pytest.approx(16 / step_s, rel=1e-4)
    assert lead.ONE_PROCESS_ONLY in result.flags
    (efficiency,) = (s.values[0] for s in result.samples if s.metric == "scaling_efficiency")
    assert 0.01 < efficiency < 10
    assert not gone_within(tmp_path, 6.0)


@pytest.mark.usefixtures("forked_ranks")
@pytest.mark.parametrize(
    ("fault", "status", "why"),
    [
        ("is killed", Status.CRASHED, "Rank 1 of 2: It was killed by SIGKILL"),
        ("takes too much", Status.OOM, "Rank 1 of 2: A batch of 8 does not fit"),
    ],
)
def test_all_ranks_fall_within_seconds_and_the_reason_is_the_first_ones(
    fault: str, status: Status, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", fault)
    result = measured(spec())
    left = gone_within(tmp_path, 6.0)  # loaders look for their parent every five seconds
    assert (result.status, result.samples, result.replicates) == (status, (), ())
    assert result.reason.startswith(why)
    assert not left


RANK = """
import os, sys, time
from pathlib import Path

rank = int(os.environ["RANK"])
time.sleep(0.2 * rank)
if rank == 1 and os.environ["FAULT"] == "ends":
    sys.exit(3)
print(Path(f"rank-{rank}").read_text())
"""
"""Stands in for a rank without loading torch: the first one loses the other, and says so first."""


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("raises", "Rank 1 of 2: ValueError: the data is bad"),
        ("ends", "Rank 1 of 2: It ended with exit code 3"),
    ],
)
def test_a_rank_that_lost_another_is_not_the_reason_though_it_says_so_first(
    fault: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "__main__.py").write_text(RANK)
    reasons = (("Another rank went away.", (PEER_GONE,)), ("ValueError: the data is bad", ()))
    for rank, (reason, flags) in enumerate(reasons):
        lost = a_failure(Status.RUNTIME_ERROR, reason).model_copy(update={"flags": flags})
        (tmp_path / f"rank-{rank}").write_text(lost.model_dump_json())
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.chdir(tmp_path)
    result = measured(spec())
    assert (result.status, result.samples) == (Status.RUNTIME_ERROR, ())
    assert result.reason.startswith(why)


@pytest.mark.usefixtures("forked_ranks")
@pytest.mark.parametrize("fault", ["hangs", pytest.param("stops", marks=pytest.mark.slow)])
def test_a_rank_that_hangs_is_named_and_ends_all(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", fault)
    began_s = time.monotonic()
    result = measured(spec())
    assert result.status is Status.TIMEOUT
    assert result.reason.startswith("Rank 1 of 2: It hangs"), result.reason
    assert time.monotonic() - began_s < 60
    rank_0, rank_1 = result.log_tail.split("Rank 1:")
    assert "Collective" in rank_0, "the one that waits tells what it waits in"
    assert "gloo:" in rank_0
    told = "It does not answer." if fault == "stops" else "in fail"
    assert told in rank_1
    assert not result.samples
    assert not gone_within(tmp_path, 6.0)


@pytest.mark.slow
def test_a_rank_that_is_stopped_before_its_first_sign_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = 'os.environ["RANK"] == "1" and os.kill(os.getpid(), signal.SIGSTOP)'
    (tmp_path / "sitecustomize.py").write_text(f"import os, signal\n{stops}\n")
    began_s = time.monotonic()
    result = measured(spec(), silent_s=2.0)  # that it is stopped is seen, however busy all are
    assert time.monotonic() - began_s < lead.START_S
    assert result.status is Status.TIMEOUT
    assert result.reason.startswith("Rank 1 of 2: It hangs"), result.reason
    assert "before it began" in result.reason
    assert "It does not answer." in result.log_tail.split("Rank 1:")[1]
    assert not gone_within(tmp_path, 6.0)


def test_a_lead_that_is_killed_takes_all_ranks_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "hangs")
    words = [sys.executable, "-m", "benchmarks", "ganged:build", "gpus=2", "parallel=ddp"]
    child = subprocess.Popen(
        [*words, "--device", "cpu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert child.stderr is not None
        for line in child.stderr:  # both run by then
            if line.startswith(b"warmup"):
                break
        assert len(ranks_below(child.pid)) >= 2
        os.kill(child.pid, signal.SIGKILL)
        printed, _ = child.communicate(timeout=20)
    finally:
        child.kill()
    assert printed == b""
    assert not gone_within(tmp_path, 7.0)


def test_order_and_place_of_one_gpu_alone_change_from_launch_to_launch() -> None:
    asked = spec("nanogpt", precision="bf16", scaling="strong")
    told = []
    for seed in range(4):
        update = {"seed": seed, "devices": ("cuda:0", "cuda:1", "cuda:2")}
        told.append(lead.rounds(asked.model_copy(update=update)))
    names = [[part.name for part in one] for one in told]
    assert names == [["gang", "single"], ["single", "gang"]] * 2
    alone = [part for one in told for part in one if not part.case.is_of_gang]
    assert {tuple(part.case.axes.items()) for part in alone} == {(("precision", "bf16"),)}
    assert [part.devices for part in alone] == [("cuda:0",)] * 2 + [("cuda:1",)] * 2
    single = catalog.normalise(Case(workload="unet", axes={"parallel": "ddp"}))
    assert len(lead.rounds(ProcessSpec(case=single))) == 1


def test_ranks_share_the_order_of_one_process() -> None:
    def first(count: int, *share: int) -> list[int]:
        return list(islice(EndlessShuffle(10, 3, *share), count))

    assert sorted(first(9, 0, 2) + first(9, 1, 2)) == sorted(first(18))
    assert first(9, 1, 2) == first(18)[1::2]


SMALL_GPT = """
from benchmarks.workloads.nanogpt import FACTS, build
ITEM = "token"
PRESETS = {"tiny": {"batch": 2, "layers": 2, "head": 32, "width": 64, "length": 32,
                    "vocabulary": 256, "text": 2_000_000}}
"""
"""nanoGPT with a block and a head for each rank: what is compared needs no more arithmetic."""
TRAIN = """
import json, math, sys
from pathlib import Path
from benchmarks.contracts import Case, GangRank
from benchmarks.data.cache import cache_folder
from benchmarks.measure.device import choose
from benchmarks.measure import batch_source, graphs, ranks
from benchmarks.measure.session import build
from benchmarks.workload import Context


def whole(weight):
    return weight.full_tensor() if hasattr(weight, "full_tensor") else weight


def train(name, axes):
    case = Case(workload="small_gpt:build", preset="tiny", axes=axes)
    recipe = build(case, Context(device, cache_folder(), seed=5))
    place = GangRank(rank=rank, world=world, rendezvous=Path(folder) / name)
    gang = ranks.Gang(place, device, lambda: None) if "parallel" in axes else ranks.Solo()
    trainer = graphs.trainer(recipe, device)

    def losses():
        batches = batch_source.batches(recipe, 5, rank)
        return [float(trainer.step(trainer.place(next(batches)))) for _ in range(12)]

    first = losses()
    weights = float(sum(whole(p.detach()).double().sum() for p in trainer.model.parameters()))
    trainer.rewind(5)
    exact = 0.0 if device.type == "cpu" else 1e-5  # a GPU adds up in another order each time
    again = zip(losses(), first, strict=True)
    assert all(math.isclose(*both, rel_tol=exact) for both in again) or not trainer.knows_loss
    gang.leave()
    return first if trainer.knows_loss else None, weights


rank, world, folder, cases, kind = json.loads(sys.argv[1])
device = choose(kind if kind == "cpu" else f"cuda:{rank}")
print(json.dumps({name: train(name, axes) for name, axes in cases.items()}))
"""
Trained = tuple[list[float] | None, float]
"""Losses of twelve steps, of a rank that knows them, and the sum of its weights after them."""


def trained(
    folder: Path, world: int, cases: dict[str, dict[str, str]], device: str = "cpu"
) -> dict[str, list[Trained]]:
    """Train each case, by one process or by ranks; return what each of them has in the end."""
    (folder / "train.py").write_text(TRAIN)
    asked = [json.dumps([rank, world, str(folder), cases, device]) for rank in range(world)]
    run = partial(loaded.run, "train", environment=os.environ, folder=folder)
    with ThreadPoolExecutor() as ranks:
        processes = list(ranks.map(run, asked))
    told = [json.loads(one.stdout.splitlines()[-1]) for one in processes]
    return {name: [(losses, end) for losses, end in (one[name] for one in told)] for name in cases}


WAYS = {
    "ddp": {"batch": "2"},
    "ddp, strong": {"batch": "4", "scaling": "strong"},
    "ddp, parts": {"batch": "2", "accumulation": "2", "bucket_mb": "1"},
    "ddp, together": {"batch": "2", "overlap": "off"},
    "fsdp2": {"batch": "2"},
    "fsdp2, parts": {"batch": "2", "accumulation": "2", "checkpointing": "blocks"},
    "fsdp2, kept": {"batch": "4", "scaling": "strong", "reshard": "off"},
    "tp": {"batch": "2"},
    "tp, strong": {"batch": "4", "scaling": "strong", "accumulation": "2"},
    "pp": {"batch": "2", "microbatches": "2"},
    "pp, strong": {"batch": "4", "scaling": "strong", "checkpointing": "blocks"},
}
FEW = ("ddp", "fsdp2", "tp", "pp")
"""One of each kind."""


TWO_GPUS = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs"),
]
DEVICES = ["cpu", pytest.param("cuda", marks=TWO_GPUS)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "ways", [FEW, pytest.param(tuple(WAYS), marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_ranks_train_as_one_process_with_their_batch(
    tmp_path: Path, device: str, ways: tuple[str, ...]
) -> None:
    """Each way by two ranks, beside one process with the batch that they have together."""
    alone = {"alone": {"batch": "4"}, "one rank": {"batch": "4", "parallel": "ddp"}}
    gangs = {way: {"gpus": "2", "parallel": way.partition(",")[0], **WAYS[way]} for way in ways}
    (tmp_path / "small_gpt.py").write_text(SMALL_GPT)
    single = trained(tmp_path, 1, alone, device)
    both = trained(tmp_path, 2, gangs, device)
    ((losses, weights),) = single["alone"]
    ((of_one_rank, _),) = single["one rank"]
    exact = 0.0 if device == "cpu" else 1e-5
    assert of_one_rank == pytest.approx(losses, rel=exact, abs=0.0), "the wrapper changes nothing"
    assert losses is not None
    assert losses[-1] < losses[0], "it learns, so the comparison says something"
    for way, ranks in both.items():
        is_pipeline = way.startswith("pp")
        known = [of_rank for of_rank, _ in ranks if of_rank is not None]
        assert len(known) == (1 if is_pipeline else 2), way
        together = [sum(of_step) / len(known) for of_step in zip(*known, strict=True)]
        assert together == pytest.approx(losses, rel=1e-5), way
        if not is_pipeline:  # there each has weights of its own
            assert [end for _, end in ranks] == pytest.approx([weights] * 2, rel=1e-5), way


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({"gpus": "2"}, "gpus=2 needs parallel=ddp or fsdp2 or tp or pp, and this case has"),
        ({"parallel": "tp"}, "parallel=tp needs gpus=2 or 4 or 8, and this case has gpus=1."),
        ({**GANG, "reshard": "off"}, "reshard=off needs parallel=fsdp2, and this case has"),
        ({**GANG, "microbatches": "8"}, "microbatches=8 needs parallel=pp, and this case has"),
        ({"bucket_mb": "5"}, "bucket_mb=5 needs parallel=ddp, and this case has parallel=none."),
        (
            {**GANG, "bucket_mb": "5", "overlap": "off"},
            "bucket_mb=5 needs overlap=on, and this case has overlap=off.",
        ),
        (
            {"gpus": "2", "parallel": "fsdp2", "precision": "fp16"},
            "parallel=fsdp2 needs precision=fp32 or tf32 or bf16, and this case has",
        ),
        (
            {"gpus": "2", "parallel": "pp", "accumulation": "2"},
            "parallel=pp needs accumulation=1, and this case has accumulation=2.",
        ),
        ({"scaling": "strong"}, "scaling=strong needs gpus=2 or 4 or 8, and this case has gpus=1."),
        ({**GANG, "graphs": "on"}, "parallel=ddp needs graphs=off, and this case has graphs=on."),
        ({**GANG, "lengths": "real"}, "parallel=ddp needs lengths=preset, and this case has"),
        ({**GANG, "batch": "auto"}, "batch=auto needs parallel=none, and this case has"),
    ],
)
def test_a_combination_that_no_gang_runs_is_refused(axes: dict[str, str], why: str) -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(Case(workload="nanogpt", axes=axes), "cuda")
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("workload", "why"),
    [
        ("unet", "parallel=tp needs tensor_parallel=yes, and unet declares no tensor_parallel in"),
        ("resnet50", "parallel=tp needs tensor_parallel=yes, and resnet50 declares no tensor_par"),
    ],
)
def test_a_model_that_says_not_how_to_share_its_layers_is_refused(workload: str, why: str) -> None:
    axes = {"gpus": "2", "parallel": "tp"}
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(Case(workload=workload, axes=axes), "cpu")
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        (
            {"batch": "3", "scaling": "strong"},
            "scaling=strong needs a batch that 2 GPUs can share, and this case has 3.",
        ),
        (
            {"batch": "3", "parallel": "pp"},
            "parallel=pp needs microbatches= of 2 or more that divide the batch, and this case has "
            "4 of a batch of 6.",
        ),
    ],
)
def test_a_batch_that_ranks_cannot_share_is_refused(
    axes: dict[str, str], why: str, tmp_path: Path
) -> None:
    device = torch.device("cpu")
    case = catalog.normalise(spec("nanogpt", **axes).case, "cpu")
    with pytest.raises(catalog.Refused) as refused:
        graphs.trainer(build(case, Context(device, tmp_path)), device)
    assert str(refused.value) == why


@pytest.mark.usefixtures("forked_ranks")
def test_a_model_that_ranks_cannot_share_is_refused_by_each_in_one_sentence() -> None:
    result = measured(spec(parallel="pp"))
    assert result.status is Status.UNSUPPORTED
    assert result.reason == (
        "parallel=pp needs pipeline=yes, and ganged:build declares no pipeline in its FACTS."
    )


def test_a_speed_up_is_told_against_as_many_gpus() -> None:
    case = Case(workload="nanogpt", axes={**GANG, "precision": "bf16", "workers": "4"})
    assert catalog.baseline(case).axes == {**GANG, "workers": "4"}


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")
@pytest.mark.parametrize("parallel", ["ddp", "fsdp2", "tp", "pp"])
def test_each_way_is_measured_over_nccl_against_one_gpu_alone(parallel: str) -> None:
    asked = spec("nanogpt", parallel=parallel, precision="bf16").model_copy(
        update={"device": None, "devices": ("cuda:0", "cuda:1")}
    )
    result = Result.model_validate_json(lead.measured(asked))
    assert result.status is Status.OK, result.reason
    assert lead.NOT_ALONE not in result.flags
    (efficiency,) = (s.values[0] for s in result.samples if s.metric == "scaling_efficiency")
    assert 0.01 < efficiency < 1.5
    assert len(result.replicates[0].full.ranks) == 2


def test_a_gang_of_more_gpus_than_offered_is_refused() -> None:
    with pytest.raises(catalog.Refused, match="gpus=2 needs a worker that offers 2 GPUs"):
        lead.measured(spec().model_copy(update={"devices": ("cpu",)}))
