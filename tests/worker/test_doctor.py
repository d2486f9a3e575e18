"""Each fault of a machine is named, with what to do; a sound machine has none."""

from __future__ import annotations

import sys
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
    ecc=True,
    memory_errors=0,
    repair_pending=False,
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
        ("torch", "torch 2.11.0 was built without CUDA, and there is a NVIDIA H200."),
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
        replace(SOUND, compiler=False),
        ("compiler", "There is no C++ compiler: cases with compile= will fail."),
    ),
    (
        with_torch(headers=False),
        ("compiler", "Python's headers are missing: cases with compile= will fail."),
    ),
    (
        with_torch(misfits=(("nvidia-cudnn-cu13", "9.15.1", "9.12.0"),)),
        ("packages", "torch 2.11.0 was built with nvidia-cudnn-cu13 9.15.1; here is 9.12.0."),
    ),
    (with_gpu(memory_errors=3), ("memory", "3 errors of its memory could not be corrected.")),
    (
        with_gpu(repair_pending=True),
        ("memory", "Rows of its memory are to be replaced, or could not be."),
    ),
    (
        with_gpu(held_back=("hw_thermal",)),
        ("clock", "It slows itself down before any work: hw_thermal."),
    ),
    (
        replace(SOUND, shared_memory_b=64 * 2**20),
        ("shared memory", "Its /dev/shm has 0.1 GiB: with large batches loader processes crash."),
    ),
    (
        replace(SOUND, free_b={"/state": GIB // 2}),
        ("disk", "/state has 0.5 GiB free; data and compiled code take some."),
    ),
]


@pytest.mark.parametrize(("machine", "told"), ERRORS, ids=range(len(ERRORS)))
def test_what_makes_cases_fail_is_an_error(machine: Machine, told: tuple[str, str]) -> None:
    subject, sentence = told
    assert ill(machine) == [(subject, Health.ERROR, sentence)]
    assert all(one.remedy for one in doctor.examined(machine) if one.health is Health.ERROR)


WARNINGS = [
    (with_gpu(power_limit_w=500.0), "Its power is limited to 500 W; by default it has 700 W."),
    (with_gpu(pcie_lanes=8), "It uses 8 of its 16 PCIe lanes."),
    (with_gpu(persistent=False), "Its driver unloads between processes, so each one starts later."),
    (with_gpu(ecc=False), "Its memory corrects no errors: ECC is off."),
    (
        with_gpu(mig=True),
        "It is cut into slices (MIG), which have no clock and no power of their own.",
    ),
    (with_gpu(processes=2), "Other programs use it now: 2."),
    (
        with_gpu(near_cpus=False),
        "No CPU of its NUMA node is ours, so batches cross between sockets.",
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
        "nvmlDeviceGetMigMode": refused,
        "nvmlDeviceGetEccMode": lambda gpu: (1, 1),
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
        mig=None,
        ecc=True,
        memory_errors=0,
        repair_pending=True,
        pcie_lanes=8,
        most_pcie_lanes=16,
        persistent=False,
        held_back=("hw_thermal",),
        processes=1,
        near_cpus=None,
    )


def test_complaints_are_lines_with_their_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "look", lambda settings, *, at_torch: with_gpu(persistent=False))
    assert doctor.complaints(Settings(state_dir=tmp_path), at_torch=False) == [
        "driver: Its driver unloads between processes, so each one starts later. nvidia-smi -pm 1"
    ]
