"""The device that is named is the device that is measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import cpus
from benchmarks.contracts import Case, ProcessSpec, Status
from benchmarks.measure import device, session
from benchmarks.measure.progress import Reporter


def test_the_cpu_is_taken_when_it_is_named() -> None:
    assert device.choose("cpu") == torch.device("cpu")


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two real NVIDIA GPUs")
def test_the_named_gpu_becomes_the_current_device() -> None:
    code = (
        "import torch; from benchmarks.measure import device; device.choose('cuda:1'); "
        "assert torch.cuda.current_device() == 1"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_gpu_that_is_named_becomes_the_current_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events and streams act on the current device: without this, GPU 1 is timed by GPU 0."""
    made_current = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", made_current.append)
    assert device.choose("cuda:1") == torch.device("cuda", 1)
    assert device.choose("cuda") == torch.device("cuda", 0)
    assert made_current == [torch.device("cuda", 1), torch.device("cuda", 0)]


def test_a_gpu_that_is_not_there_is_refused_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RuntimeError, match=r"^cuda:1 cannot be used: torch .* sees 1 GPUs\.$"):
        device.choose("cuda:1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", set()), ("3", {3}), ("0-3,8", {0, 1, 2, 3, 8}), ("0-1,4-5", {0, 1, 4, 5})],
)
def test_the_kernels_notation_for_cpus_is_read(text: str, expected: set[int]) -> None:
    assert cpus.listed(text) == expected


def test_a_process_on_the_cpu_keeps_its_cpus() -> None:
    before = os.sched_getaffinity(0)
    assert device.stay_near(torch.device("cpu")) == ""
    assert os.sched_getaffinity(0) == before


def test_a_gpu_compiles_its_kernels_in_the_same_folder_for_every_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with device.shared_kernel_cache(torch.device("cuda")):
        on_a_gpu = Path.cwd()
    with device.shared_kernel_cache(torch.device("cpu")):
        on_the_cpu = Path.cwd()
    assert (on_a_gpu, on_the_cpu, Path.cwd()) == (Path("/"), tmp_path, tmp_path)


def test_what_an_older_gpu_cannot_do_is_unsupported_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    case = Case(workload="nanogpt", axes={"precision": "tf32"})
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(tmp_path))
    spec = ProcessSpec(case=case)
    result = session.measure(spec, torch.device("cuda"), Reporter(None, case.key))
    assert result.status is Status.UNSUPPORTED
    assert result.reason == (
        "precision=tf32 needs compute capability 8.0 or more, and this GPU has 7.5."
    )
    assert list(tmp_path.iterdir()) == []
