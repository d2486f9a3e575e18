"""A kernel of a workload's own: put in place, held against eager, and found where it is wrong."""

import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from builders import loaded
from builders.example_runs import BRIEF, EXAMPLES, result_of, run
from torch import Tensor, nn

from benchmarks import workload_module
from benchmarks.catalog import catalog
from benchmarks.catalog.catalog import Refused
from benchmarks.contracts import Case, Parity, ParityStatus, Result, Status, Work
from benchmarks.measure import flops, parity_check
from benchmarks.measure.session import build
from benchmarks.workload import Context

WORDMODEL = "wordmodel.bench:build"
NVCC = shutil.which("nvcc") or Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")
NEEDS_NVCC = pytest.mark.skipif(
    not (torch.cuda.is_available() and Path(NVCC).exists()),
    reason="needs a real NVIDIA GPU, and nvcc",
)
TRITON = pytest.param("triton", "cuda", marks=pytest.mark.gpu)
CUDA = pytest.param("cuda", "cuda", marks=[pytest.mark.gpu, NEEDS_NVCC])
KERNELS = [("triton", "cpu"), TRITON, CUDA]
"""What ``kernel=`` says, and on which device: on a CPU PyTorch stands for Triton."""
LIBRARIES = {"triton": "wordmodel", "cuda": "wordmodel_cuda"}
BF16 = {"precision": "bf16"}


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(torch.device("cpu"), tmp_path)


def a_case(workload: str = WORDMODEL, **axes: str) -> Case:
    return Case(workload=workload, preset="tiny", axes=axes)


def operator(kernel: str, cache: Path) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss by that operator; the one in CUDA C++ is built if this process has it not yet."""
    if kernel == "cuda":
        module = importlib.import_module("wordmodel.cuda_kernels")
        module.load(Context(torch.device("cuda"), cache))
    loss = importlib.import_module("wordmodel.cross_entropy").cross_entropy
    return partial(loss, library=LIBRARIES[kernel])


def loss_and_gradient(loss: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    logits = logits.clone().requires_grad_()
    made = loss(logits, targets)
    made.backward()
    assert logits.grad is not None
    return made.detach(), logits.grad


@pytest.mark.parametrize("columns", [3, 2_048, 5_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("kernel", "device"), KERNELS)
def test_the_operator_gives_pytorchs_loss_and_gradient(
    tmp_path: Path, kernel: str, device: str, dtype: torch.dtype, columns: int
) -> None:
    random = torch.Generator().manual_seed(1)
    logits = (torch.randn(7, columns, generator=random) * 20).to(device, dtype)
    targets = torch.randint(columns, (7,), generator=random).to(device)
    ours = loss_and_gradient(operator(kernel, tmp_path), logits, targets)
    theirs = loss_and_gradient(F.cross_entropy, logits.float(), targets)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    rounded = torch.finfo(dtype).eps
    torch.testing.assert_close(ours[1].float(), theirs[1], rtol=max(1e-4, rounded), atol=1e-6)


@pytest.mark.parametrize(("kernel", "device"), KERNELS)
def test_the_operator_is_registered_as_torch_wants_it(
    tmp_path: Path, kernel: str, device: str
) -> None:
    operator(kernel, tmp_path)
    library = getattr(torch.ops, LIBRARIES[kernel])
    logits = torch.randn(4, 9, device=device, requires_grad=True)
    targets = torch.randint(9, (4,), device=device)
    torch.library.opcheck(library.cross_entropy, (logits, targets))
    row = torch.randn(4, device=device)
    torch.library.opcheck(library.cross_entropy_gradient, (row, logits.detach(), targets, row))


def test_its_gradient_is_that_of_its_loss(tmp_path: Path) -> None:
    loss = operator("triton", tmp_path)
    logits = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(9, (4,))
    assert torch.autograd.gradcheck(lambda x: loss(x, targets), (logits,))


FAULTS = {
    ("triton", "cpu", "loss"): (
        "cross_entropy.py",
        "return sums - wide",
        "return sums * 1.001 - wide",
    ),
    ("triton", "cpu", "gradient"): (
        "cross_entropy.py",
        "((probabilities - target)",
        "((probabilities - target) * 1.001",
    ),
    ("triton", "cuda", "loss"): (
        "triton_kernels.py",
        "logarithm - target)",
        "logarithm * 1.001 - target)",
    ),
    ("triton", "cuda", "gradient"): ("triton_kernels.py", "slope = (", "slope = 1.001 * ("),
    ("cuda", "cuda", "loss"): ("cuda_kernels.cu", "= logarithm - ", "= logarithm * 1.001f - "),
    ("cuda", "cuda", "gradient"): ("cuda_kernels.cu", "slope = (", "slope = 1.001f * ("),
}
"""By kernel, device and what is wrong: the file whose code runs there, and in which of its lines
one part in a thousand is too much."""


def plant(project: Path, kernel: str, device: str, wrong: str) -> None:
    """Plant that fault in the copy of the example."""
    name, right, planted = FAULTS[kernel, device, wrong]
    path = project / "wordmodel" / name
    text = path.read_text()
    assert text.count(right) == 1
    path.write_text(text.replace(right, planted))


def compared(
    tmp_path: Path, kernel: str, device: str, wrong: str = "", axes: tuple[str, ...] = ()
) -> tuple[Result, Parity]:
    """The example measured as its documents say; with a fault planted in its kernel, as a worker
    does, without the command line."""
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "wordmodel", project / "wordmodel")
    if wrong:
        plant(project, kernel, device, wrong)
    case = (f"{WORDMODEL}:tiny", f"kernel={kernel}", *axes)
    cache = tmp_path / "cache"
    if wrong:
        words = ("benchmarks", *case, "--protocol", json.dumps(BRIEF | {"parity": True}))
        environment = {**os.environ, "THROUGHLINE_CACHE_DIR": str(cache)}
        asked = (*words, "--device", device)
        finished = loaded.run(*asked, environment=environment, folder=project)
    else:
        words = ("cli", "bench", *case, "--protocol", json.dumps(BRIEF), "--parity", "--json")
        finished = run(cache, *words, at=project, device=device)
    result = result_of(finished)
    assert result.parity is not None, result.reason
    return result, result.parity


@pytest.mark.parametrize(("kernel", "device"), KERNELS)
def test_the_right_kernel_passes_and_is_a_case_of_its_own(
    tmp_path: Path, kernel: str, device: str
) -> None:
    result, parity = compared(tmp_path, kernel, device)
    assert parity.status is ParityStatus.PASS, parity.reason
    assert result.status is Status.OK
    assert result.case.key == f"wordmodel.bench:build:tiny kernel={kernel}"


@pytest.mark.parametrize(
    ("wrong", "sentence", "sees", "sees_not"),
    [
        pytest.param(
            *("loss", "the loss up to step", "loss_1", "gradient_norm_1"), marks=pytest.mark.slow
        ),
        ("gradient", "the gradient's norm at", "gradient_norm_1", "loss_1"),
    ],
)
@pytest.mark.parametrize(("kernel", "device"), KERNELS)
def test_a_kernel_that_is_wrong_by_one_part_in_a_thousand_is_found(
    tmp_path: Path, kernel: str, device: str, wrong: str, sentence: str, sees: str, sees_not: str
) -> None:
    result, parity = compared(tmp_path, kernel, device, wrong)
    assert result.status is Status.PARITY_FAIL
    assert parity.status is ParityStatus.FAIL
    assert sentence in parity.reason
    holds = {agreement.quantity: agreement.holds for agreement in parity.agreements}
    assert (holds[sees], holds[sees_not]) == (False, True)


@pytest.mark.parametrize(("kernel", "device"), [TRITON, CUDA])
def test_the_kernel_is_faster_than_eager_on_a_gpu(tmp_path: Path, kernel: str, device: str) -> None:
    def rate(*axes: str) -> float:
        words = ("cli", "bench", WORDMODEL, "precision=bf16", *axes, "--protocol")
        finished = run(tmp_path, *words, json.dumps(BRIEF), "--json", device=device)
        result = result_of(finished)
        assert result.status is Status.OK, result.reason
        return result.replicates[0].synth.rate

    assert rate(f"kernel={kernel}") > 1.1 * rate()


@pytest.mark.parametrize(("kernel", "device"), [TRITON, CUDA])
def test_the_right_kernel_passes_in_a_compiled_model(
    tmp_path: Path, kernel: str, device: str
) -> None:
    result, parity = compared(tmp_path, kernel, device, axes=("compile=default",))
    assert parity.status is ParityStatus.PASS, parity.reason
    assert result.status is Status.OK


def test_cuda_without_its_compiler_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("wordmodel.cuda_kernels")
    monkeypatch.setattr(module, "LIBRARY", "wordmodel_not_built")
    monkeypatch.setattr("torch.utils.cpp_extension.CUDA_HOME", None)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda _: (9, 0))
    with pytest.raises(Refused, match="kernel=cuda needs nvcc on the PATH"):
        module.load(Context(torch.device("cuda"), tmp_path))


@pytest.mark.parametrize("of", [parity_check.reference_of, parity_check.base_of, catalog.baseline])
def test_a_kernel_is_held_against_eager(of: Any) -> None:
    case = a_case(kernel="triton", batch="8", **BF16)
    assert "kernel" not in of(case).axes
    assert of(case).axes["batch"] == "8"


BARE = """
from dataclasses import replace
import torch
from torch import nn
from torch.utils.data import TensorDataset
from benchmarks.workload import Recipe

def loss(model, batch):
    return (model(batch[0]) - batch[1]).square().mean()

def exchanged(recipe):
    return replace(recipe, model=nn.Sequential(recipe.model, nn.Dropout(0.0)).eval())

def forgotten(recipe):
    recipe.model.eval()

def build(size, context):
    data = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
    return Recipe(nn.Linear(3, 1), loss, torch.optim.SGD, nn.Module.parameters, data, batch=4,
                  kernels={"exchanged": exchanged, "forgotten": forgotten})
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module `fused`, which is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fused.py").write_text(BARE)
    workload_module.load.cache_clear()
    yield tmp_path
    sys.modules.pop("fused", None)
    workload_module.load.cache_clear()


@pytest.mark.parametrize(
    ("workload", "kernel", "sentence"),
    [
        ("fused:build", "cuda", "no kernel=cuda: choose .*: eager, exchanged, forgotten"),
        (WORDMODEL, "cuda", "kernel=cuda needs device=cuda, and this worker has device=cpu"),
        ("nanogpt", "triton", "no kernel=triton: choose one of its recipe's: eager"),
        ("fused:build", "forgotten", "kernel=forgotten returned NoneType, and a Recipe is needed"),
    ],
)
def test_a_kernel_that_is_not_there_or_gives_no_recipe_is_refused(
    project: Path, context: Context, workload: str, kernel: str, sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        build(a_case(workload, kernel=kernel), context)


def test_a_model_with_a_kernel_in_it_is_in_train_mode(project: Path, context: Context) -> None:
    recipe = build(a_case("fused:build", kernel="exchanged"), context)
    assert isinstance(recipe.model, nn.Sequential)
    assert all(module.training for module in recipe.model.modules())


def test_a_changed_kernel_changes_the_digest_of_the_code(project: Path) -> None:
    def digest() -> str:
        workload_module.load.cache_clear()
        return workload_module.load("fused:build").code

    def write(path: str, text: str) -> None:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)

    seen = [digest()]
    for path in ("kernel.cu", "csrc/bound.cpp", "csrc/tile.cuh", "csrc/_built.so"):
        write(path, "int one;")
        seen.append(digest())
        write(path, "int two;")
        seen.append(digest())
    assert len(set(seen)) == len(seen)
    for path in (
        "venv/lib/site-packages/torch/x.cpp",
        ".cache/generated.cpp",
        "notes.txt",
        "a/b/far.so",
    ):
        write(path, "int one;")
    assert digest() == seen[-1]


def test_traffic_is_counted_with_the_kernel_and_arithmetic_without_it(context: Context) -> None:
    workload_module.load.cache_clear()
    eager, fused = (
        flops._kept(a_case(**BF16, **axes), 64, context, {}, build)
        for axes in ({}, {"kernel": "triton"})
    )
    assert eager.moved_b is not None
    assert fused.moved_b is not None
    assert fused.flops_per_item == eager.flops_per_item > 0
    # The log-probabilities and their gradients, of 64 rows of 1,000 in fp32, are not there.
    assert eager.moved_b - fused.moved_b > 4 * 64 * 1_000 * 4


def test_a_kernel_whose_flops_are_not_registered_has_no_roofline() -> None:
    eager = Work(flops_per_item=9.0, roof_s=3.0, moved_b=8.0)
    own = Work(flops_per_item=5.0, roof_s=1.0, moved_b=6.0)
    assert flops._with_kernel(eager, own) == Work(flops_per_item=9.0, moved_b=6.0)
    whole = own.model_copy(update={"flops_per_item": 9.0})
    assert flops._with_kernel(eager, whole) == whole
