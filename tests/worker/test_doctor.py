"""Each fault of a machine is named, with what to do; a sound machine has none."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from worker import doctor
from worker.doctor import Health, Machine, gpu
from worker.doctor.gpu import GpuState
from worker.doctor.machine import TorchInstalled
from worker.settings import Settings

GIB = 2**30
GPU = GpuState(
    name="NVIDIA H200",
    driver="580.159.04",
    driver_cuda=(13, 0),
    capability=(9, 0),
    power_limit_w=700.0,
    default_power_limit_w=700.0,
    mig=False,
    memory_errors=0,
    repair_pending=False,
    repair_failed=False,
    pcie_lanes=16,
    most_pcie_lanes=16,
    persistent=True,
    near_cpus=True,
)
TORCH = TorchInstalled(
    version="2.11.0",
    cuda="13.0",
    archs=("sm_80", "sm_90", "sm_100"),
)
SOUND = Machine(
    device="cuda:0",
    gpu=GPU,
    torch=TORCH,
    cpus=16,
    governor="performance",
    shared_memory_b=8 * GIB,
    free_b={"/state": 100 * GIB},
)


def with_gpu(**other: Any) -> Machine:
    return replace(SOUND, gpu=replace(GPU, **other))


def with_torch(**other: Any) -> Machine:
    return replace(SOUND, torch=replace(TORCH, **other))


def ill(machine: Machine) -> list[tuple[str, Health, str]]:
    results = doctor.examined(machine)
    return [(one.subject, one.health, one.sentence) for one in results if one.health != Health.OK]


def test_a_sound_machine_is_told_in_two_lines() -> None:
    assert [(one.health, one.sentence) for one in doctor.examined(SOUND)] == [
        (Health.OK, "NVIDIA H200, driver 580.159.04, runs CUDA up to 13.0."),
        (Health.OK, "torch 2.11.0 for CUDA 13.0."),
    ]


def test_what_nobody_tells_is_no_fault() -> None:
    assert (
        ill(Machine(gpu=GpuState(name="NVIDIA T4"), torch=TorchInstalled("2.11.0", "13.0"))) == []
    )
    assert ill(Machine(cpus=2)) == []


ERRORS = [
    (
        replace(SOUND, gpu=None, driver_failed="The driver does not answer."),
        ("driver", "The driver does not answer."),
    ),
    (
        replace(SOUND, torch=None, torch_failed="No module named 'torch'"),
        ("torch", "torch cannot be loaded: No module named 'torch'"),
    ),
    (
        with_torch(cuda=None),
        ("torch", "torch 2.11.0 was built without CUDA; the device is cuda:0."),
    ),
    (
        with_torch(refused="it sees 0 GPUs, and none that is cuda:0."),
        ("torch", "torch 2.11.0 cannot use CUDA: it sees 0 GPUs, and none that is cuda:0."),
    ),
    (
        with_gpu(driver_cuda=(12, 4)),
        ("torch", "torch 2.11.0 needs CUDA 13.0, and driver 580.159.04 runs 12.4."),
    ),
    (
        with_gpu(capability=(12, 0)),
        (
            "torch",
            "torch 2.11.0 has kernels for sm_80, sm_90, sm_100, and this NVIDIA H200 has compute "
            "capability 12.0.",
        ),
    ),
    (
        with_gpu(memory_errors=3),
        ("memory", "The GPU could not correct 3 errors of its memory."),
    ),
    (
        with_gpu(repair_pending=True),
        ("memory", "The GPU replaces faulty rows of its memory at its next reset."),
    ),
    (
        with_gpu(repair_failed=True),
        ("memory", "The GPU could not replace faulty rows of its memory."),
    ),
    (
        replace(SOUND, shared_memory_b=64 * 2**20),
        ("shared memory", "Large batches crash loader processes: /dev/shm has only 0.1 GiB."),
    ),
    (
        replace(SOUND, free_b={"/state": GIB // 2}),
        ("disk", "/state has 0.5 GiB free; data and compiled code take some."),
    ),
    (
        replace(SOUND, temporary=False),
        ("disk", "No folder for temporary files can be written."),
    ),
]


@pytest.mark.parametrize(("machine", "told"), ERRORS, ids=range(len(ERRORS)))
def test_what_makes_cases_fail_is_an_error(machine: Machine, told: tuple[str, str]) -> None:
    subject, sentence = told
    assert ill(machine) == [(subject, Health.ERROR, sentence)]
    assert all(one.remedy for one in doctor.examined(machine) if one.health is Health.ERROR)


WARNINGS = [
    (replace(SOUND, gpu=None), "The driver tells of no whole GPU that is cuda:0."),
    (
        replace(SOUND, device="cpu", gpu=None, driverless=True),
        "This machine has an NVIDIA GPU, and no driver that tells of it.",
    ),
    (
        with_torch(misfits=(("nvidia-cudnn-cu13", "9.15.1", "9.12.0"),)),
        "torch 2.11.0 was built with nvidia-cudnn-cu13 9.15.1; here is 9.12.0.",
    ),
    (
        replace(SOUND, compiler=False),
        "There is no C++ compiler (CXX, g++): cases with compile= will fail.",
    ),
    (
        with_torch(headers=False),
        "Python's headers are missing: cases with compile= will fail.",
    ),
    (with_gpu(held_back=("hw_thermal",)), "The GPU slows itself down now: hw_thermal."),
    (
        with_gpu(power_limit_w=500.0),
        "The GPU may draw 500 W; by default it may draw 700 W.",
    ),
    (
        with_gpu(clock_limit_mhz=1_200, default_clock_limit_mhz=1_980),
        "The GPU's clock is limited to 1200 MHz; by default to 1980 MHz.",
    ),
    (with_gpu(pcie_lanes=8), "The GPU uses 8 of its 16 PCIe lanes."),
    (
        with_gpu(persistent=False),
        "The driver unloads between processes, so each one starts later.",
    ),
    (
        with_gpu(mig=True),
        "The GPU is cut into slices (MIG), which have no clock of their own.",
    ),
    (with_gpu(processes=2), "Programs that use the GPU now: 2."),
    (
        with_gpu(near_cpus=False),
        "No CPU near the GPU (of its NUMA node) is allowed here, which slows copies.",
    ),
    (
        replace(SOUND, governor="powersave"),
        "The CPUs' governor is powersave: their clock follows the load.",
    ),
    (
        replace(SOUND, open_files=256),
        "A process may open 256 files: many loader processes fail.",
    ),
    (
        replace(SOUND, free_b={"/state": 5 * GIB}),
        "/state has 5.0 GiB free; data and compiled code take some.",
    ),
    (
        replace(SOUND, recompiled=Path("/site/torch")),
        "Python keeps no bytecode of torch, so processes compile it again, for seconds.",
    ),
]


@pytest.mark.parametrize(("machine", "sentence"), WARNINGS, ids=range(len(WARNINGS)))
def test_what_makes_numbers_worse_is_a_warning(machine: Machine, sentence: str) -> None:
    assert [(health, told) for _, health, told in ill(machine)] == [(Health.WARNING, sentence)]


@pytest.mark.parametrize(
    ("archs", "has_kernels"),
    [
        (("sm_80",), False),
        (("sm_80", "compute_80"), True),
        (("sm_90a",), True),
        (("gfx90a", "sm_100f"), False),
        (("sm_100",), False),
        ((), True),
    ],
)
def test_machine_code_is_for_one_major_version_and_ptx_for_all_later_ones(
    archs: tuple[str, ...], *, has_kernels: bool
) -> None:
    assert (not ill(with_torch(archs=archs))) is has_kernels


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    machine = doctor.look(Settings(device="cpu", state_dir=tmp_path / "not" / "there"))
    assert machine.torch is not None
    assert machine.torch.version
    assert machine.cpus >= 1
    assert str(tmp_path / "not" / "there") in (machine.free_b or {})


def test_packages_that_torch_was_not_built_with_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for torch that wants other versions than are there."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "class cuda: get_arch_list = staticmethod(list)\n"
        "class version: cuda = '13.0'\n"
        "__version__ = '2.11.0'\n"
    )
    wanted = {"torch": ["triton==3.6.0; platform_system == 'Linux'", "nvidia-nccl-cu13 == 2.28.9",
                        "nvidia-cudnn-cu13==9.15.1", "sympy>=1.13"],
              "triton": [], "nvidia-nccl-cu13": []}  # fmt: skip
    versions = {"torch": "2.11.0", "triton": "3.6.0+git1", "nvidia-nccl-cu13": "2.27.0"}
    for name, needs in wanted.items():
        folder = tmp_path / f"{name.replace('-', '_')}-{versions[name]}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {versions[name]}"]
        lines += [f"Requires-Dist: {need}" for need in needs]
        (folder / "METADATA").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    machine = doctor.look(Settings(device="cpu", state_dir=tmp_path))
    assert machine.torch is not None, machine.torch_failed
    assert machine.torch.misfits == (("nvidia-nccl-cu13", "2.28.9", "2.27.0"),)


def test_a_python_without_torch_is_told_with_its_own_words(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    machine = doctor.look(Settings(device="cpu", state_dir=tmp_path, python=str(python)))
    assert machine.torch_failed == "ModuleNotFoundError: No module named 'torch'"


def test_a_driver_is_read_as_far_as_it_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    told = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetName": lambda gpu: "NVIDIA L40S",
        "nvmlSystemGetDriverVersion": lambda: "570.1",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
        "nvmlDeviceGetCudaComputeCapability": lambda gpu: [8, 9],
        "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 300_000,
        "nvmlDeviceGetPowerManagementDefaultLimit": lambda gpu: 350_000,
        "nvmlDeviceGetApplicationsClock": lambda gpu, kind: 1_200,
        "nvmlDeviceGetDefaultApplicationsClock": lambda gpu, kind: 1_980,
        "nvmlDeviceGetMigMode": refused,
        "nvmlDeviceGetTotalEccErrors": lambda gpu, kind, since: 0,
        "nvmlDeviceGetRemappedRows": lambda gpu: (4, 0, 1, 0),
        "nvmlDeviceGetCurrPcieLinkWidth": lambda gpu: 8,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda gpu: 16,
        "nvmlDeviceGetPersistenceMode": lambda gpu: 0,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda gpu: 0x41,
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [object()],
        "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId="00000000:FF:1F.7"),
    }
    for name, function in told.items():
        monkeypatch.setattr(pynvml, name, function)
    assert gpu.read("GPU-1") == GpuState(
        name="NVIDIA L40S",
        driver="570.1",
        driver_cuda=(12, 8),
        capability=(8, 9),
        power_limit_w=300.0,
        default_power_limit_w=350.0,
        clock_limit_mhz=1_200,
        default_clock_limit_mhz=1_980,
        mig=None,
        memory_errors=0,
        repair_pending=True,
        repair_failed=False,
        pcie_lanes=8,
        most_pcie_lanes=16,
        persistent=False,
        held_back=("hw_thermal",),
        processes=1,
        near_cpus=None,
    )


def test_warnings_are_lines_with_their_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "look", lambda settings, *, at_torch: with_gpu(persistent=False))
    assert doctor.warnings(Settings(state_dir=tmp_path), at_torch=False) == [
        "driver: The driver unloads between processes, so each one starts later. nvidia-smi -pm 1"
    ]


def test_a_doctor_that_fails_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(settings: Settings, *, at_torch: bool) -> Machine:
        raise RuntimeError("no such sensor")

    monkeypatch.setattr(doctor, "look", broken)
    assert doctor.warnings(Settings(state_dir=tmp_path), at_torch=False) == []
    assert "no such sensor" in caplog.text


def test_a_torch_in_the_current_folder_is_not_the_one_that_measures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("torch.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('run from the current folder')")
    monkeypatch.chdir(tmp_path)
    machine = doctor.look(Settings(device="cpu", state_dir=tmp_path))
    assert machine.torch is not None, machine.torch_failed


def test_a_full_machine_is_told_of_and_not_stumbled_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    machine = doctor.look(Settings(device="cpu", state_dir=tmp_path), at_torch=False)
    assert not machine.temporary
