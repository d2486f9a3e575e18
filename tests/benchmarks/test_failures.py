"""Whatever goes wrong becomes a status and one sentence that says what to do."""

import importlib

import pytest
import torch

from benchmarks.catalog.catalog import Refused
from benchmarks.contracts import Status
from benchmarks.data import UnusableData
from benchmarks.measure.failures import classify


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 60 GiB"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("Caught OutOfMemoryError in pin memory thread for device 0."),
    ],
)
def test_a_batch_that_does_not_fit_is_oom_with_its_size(error: Exception) -> None:
    status, sentence = classify(error, batch=4096)
    assert status is Status.OOM
    assert sentence.startswith("A batch of 4096 does not fit")


def test_memory_that_ran_out_inside_the_compiler_is_oom_too() -> None:
    outer = torch._dynamo.exc.Unsupported("call_function of a thing")
    outer.__cause__ = torch.OutOfMemoryError("CUDA out of memory.")
    assert classify(outer, 8)[0] is Status.OOM


def test_a_refused_combination_keeps_its_sentence() -> None:
    assert classify(Refused("tf32 needs a GPU."), 1) == (Status.UNSUPPORTED, "tf32 needs a GPU.")


def test_an_error_inside_the_compiler_is_a_compile_error_also_when_wrapped() -> None:
    inner = torch._dynamo.exc.Unsupported("call_function of a thing")
    outer = RuntimeError("while compiling")
    outer.__cause__ = inner
    for error in (inner, outer):
        status, sentence = classify(error, 1)
        assert status is Status.COMPILE_ERROR
        assert sentence.startswith("torch.compile ")


def test_a_kernel_that_triton_cannot_compile_is_not_put_down_to_torch_compile() -> None:
    broken = type("CompilationError", (Exception,), {"__module__": "triton.compiler.errors"})
    status, sentence = classify(broken("at 3:4: block must be a power of two"), 1)
    assert status is Status.COMPILE_ERROR
    assert sentence == "Triton failed: at 3:4: block must be a power of two"


def test_a_missing_compiler_is_named() -> None:
    missing = importlib.import_module("torch._inductor.exc").InvalidCxxCompiler()
    error = torch._dynamo.exc.BackendCompilerFailed(lambda: None, missing, None)
    status, sentence = classify(error, 1)
    assert status is Status.COMPILE_ERROR
    assert sentence.startswith("torch.compile found no C++ compiler on this worker: install one ")


def test_missing_python_headers_are_named() -> None:
    error = torch._dynamo.exc.BackendCompilerFailed(
        lambda: None, RuntimeError("fatal error: Python.h: No such file or directory"), None
    )
    status, sentence = classify(error, 1)
    assert status is Status.COMPILE_ERROR
    assert "python3-dev" in sentence


def test_a_loader_without_shared_memory_is_told_how_to_get_some() -> None:
    error = RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error.")
    status, sentence = classify(error, 1)
    assert status is Status.RUNTIME_ERROR
    assert "/dev/shm" in sentence


def test_any_other_error_is_one_printable_line() -> None:
    status, sentence = classify(ValueError("first\x00 line\nsecond line"), 1)
    assert status is Status.RUNTIME_ERROR
    assert sentence == "ValueError: first  line"


@pytest.mark.parametrize(
    "text",
    [
        "The folder /photos holds no images.",
        "Caught UnusableData in DataLoader worker process 0.\nOriginal Traceback (most recent call "
        "last):\n  ...\nbenchmarks.data.UnusableData: The folder /photos holds no images.\n",
    ],
    ids=["in this process", "in a loader process"],
)
def test_data_that_cannot_be_used_are_told_in_their_own_sentence(text: str) -> None:
    status, sentence = classify(UnusableData(text), 1)
    assert (status, sentence) == (Status.RUNTIME_ERROR, "The folder /photos holds no images.")
