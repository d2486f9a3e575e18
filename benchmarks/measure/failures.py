"""Turns what can go wrong in a child process into a status and one sentence."""

from __future__ import annotations

import re

import torch

from benchmarks.catalog.catalog import Refused, UnknownName
from benchmarks.contracts import Status
from benchmarks.data import UnusableData

_OUT_OF_MEMORY = re.compile(
    r"CUDA error: out of memory|OutOfMemoryError|STATUS_ALLOC_FAILED"
    r"|DefaultCPUAllocator|can't allocate memory|Cannot allocate memory"
)
"""Libraries below torch, loader processes and the pinning thread each say it in their own words."""
_SHARED_MEMORY = re.compile(r"Bus error|shared memory|No space left on device: '/dev/shm")
_NO_KERNEL = re.compile(r"No available kernel|No viable backend for scaled_dot_product_attention")
NO_KERNEL = (
    "The attention kernel that was chosen has nothing for this workload's shapes and precision on "
    "this device: choose another attention=."
)
_COMPILERS = ("torch._dynamo", "torch._inductor", "torch.fx", "triton")
_NO_COMPILER = re.compile(r"InvalidCxxCompiler|No working C\+\+ compiler|Failed to find C compiler")


def classify(error: BaseException, batch: int) -> tuple[Status, str]:
    """Return status and sentence of a measurement that failed with a batch of ``batch`` samples."""
    text = str(error)
    refused = isinstance(error, Refused | UnknownName)
    if refused or _NO_KERNEL.search(text):
        return Status.UNSUPPORTED, text if refused else NO_KERNEL
    chain = _chain(error)
    if any(is_out_of_memory(link) for link in chain):
        return Status.OOM, (
            f"A batch of {batch} does not fit in this device's memory: "
            "choose a smaller batch=, or a precision that needs less."
        )
    if any(type(link).__module__.startswith(_COMPILERS) for link in chain):
        return Status.COMPILE_ERROR, _compile_sentence(error)
    if _SHARED_MEMORY.search(text):
        return Status.RUNTIME_ERROR, (
            "A loader process died for lack of shared memory: enlarge /dev/shm "
            "(in a container: --shm-size or ipc: host) or use fewer workers."
        )
    if isinstance(error, UnusableData):
        return Status.RUNTIME_ERROR, _last_line(text)
    return Status.RUNTIME_ERROR, _plainly(error)


def _plainly(error: BaseException) -> str:
    message = first_line(str(error))
    if isinstance(error, SystemExit):
        return f"The workload's code ended the process, with sys.exit({message})."
    return f"{type(error).__name__}: {message}"


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what caused it, as far as that goes back."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__
    return chain


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if memory ran out, on device or host, in whichever library's words."""
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or _OUT_OF_MEMORY.search(str(error)) is not None


def _compile_sentence(error: BaseException) -> str:
    text = str(error)
    if "Python.h" in text:
        return (
            "torch.compile found no Python headers on this worker: install them "
            "(apt-get install python3-dev) or measure with compile=off."
        )
    if _NO_COMPILER.search(text):
        return (
            "torch.compile found no C++ compiler on this worker: install one (apt-get install g++) "
            "or measure with compile=off."
        )
    by_triton = type(error).__module__.startswith("triton")  # a kernel's own, or Inductor's
    return f"{'Triton' if by_triton else 'torch.compile'} failed: {first_line(text)}"


def first_line(text: str) -> str:
    """The first line of an error's message that says something, printable."""
    return _lines(text)[0]


def _last_line(text: str) -> str:
    return _lines(text)[-1].rpartition(f"{UnusableData.__name__}: ")[2]


def _lines(text: str) -> list[str]:
    printable = (re.sub(r"[\x00-\x1f\x7f]", " ", line).strip() for line in text.splitlines())
    return [line[:400] for line in printable if line] or ["no message"]
