"""`bench` and `diagnose` wait for their device and watch it as a worker does."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.contracts import Case, Protocol, Result, Status
from cli.commands.worker import enroll
from cli.exits import Exit, Stop
from cli.local import climb, devices, measure
from cli.local.measure import DeviceHeld, LocalRunner
from cli.output import climb_report, result_panel
from cli.output.console import Console
from worker.child import process_tree
from worker.child.containment import Containment
from worker.device.nvml import DriverFailed, Gpu
from worker.device.state import DeviceState
from worker.launch import Local
from worker.settings import Settings
from worker.supervisor import Station

HERE = Path(__file__).parent
CASE = Case(workload="resnet50")
LEAVES = (
    f"setsid sleep 60 >/dev/null 2>&1 & echo $! >>{{left}}\n"
    f"sleep 0.5; exec {sys.executable} {HERE}/{{child}}"
)
"""A child that leaves a process in a session of its own behind, and writes its id down. It lasts
for more than one look at the device's processes, which come every 0.2 s."""
THERMAL = 0x40


def children() -> frozenset[int]:
    below = psutil.Process(os.getpid()).children(recursive=True)
    return frozenset(process.pid for process in below)


class Device:
    """A gauge whose readings the test chooses; the children that the test starts hold it."""

    def __init__(self) -> None:
        self.told = {"sm_clock_hz": 1.98e9, "power_w": 600.0, "temperature_c": 40.0}
        self.busy: Iterator[float] = iter(())
        self.mask = 0
        self.foreign: frozenset[int] = frozenset()
        self.closed = False
        self.before = children()
        """Such as a database of the tests, which has nothing to do with this device."""

    def channels(self) -> dict[str, float]:
        return self.told | {"utilization": next(self.busy, 0.0)}

    def reasons(self) -> int | None:
        return self.mask

    def energy_j(self) -> float | None:
        return None

    def processes(self) -> frozenset[int]:
        return (children() - self.before) | self.foreign

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def scripted(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., LocalRunner]:
    """A runner on a device, with a scripted child."""
    for name in [name for name in os.environ if name.startswith(("THROUGHLINE_", "SCRIPT"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])

    def make(
        device: Device | None, child: str = "scripted_benchmark.py", **more: object
    ) -> LocalRunner:
        command = (sys.executable, str(HERE / child))
        usual = {"child_command": command, "idle_limit_s": 0.2, "telemetry_hz": 50.0}
        usual |= {"device": "cuda", "state_dir": tmp_path} | measure.UNLIKE_A_WORKER
        settings = Settings.model_validate(usual | more)
        station = Station(settings, Containment.PROCESS_GROUP, device)
        return LocalRunner(settings, station, Local(tmp_path))

    return make


def that_leaves(left: Path, child: str = "scripted_benchmark.py") -> tuple[str, ...]:
    return "sh", "-c", LEAVES.format(left=left, child=child), "child"


def alive(left: Path) -> list[int]:
    """Of the processes that were left behind those that still run."""
    return [pid for pid in map(int, left.read_text().split()) if process_tree.identity(pid)]


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Path]:
    """Where children write down what they leave behind; it ends with the test."""
    file = tmp_path / "left"
    file.touch()
    yield file
    for pid in alive(file):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def held_by_what_is_left(device: Device, left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the driver did not let go of what has been killed."""
    monkeypatch.setattr(device, "processes", lambda: frozenset(map(int, left.read_text().split())))


def channels(result: Result) -> set[str]:
    return {
        name
        for one in result.replicates
        for told in one.telemetry.values()
        for name in told.channels
    }


def test_a_healthy_device_is_told_and_not_flagged(scripted, device) -> None:
    result = scripted(device).measure(CASE, Protocol(replicates=2))
    assert [set(one.telemetry) for one in result.replicates] == [{"full", "synth"}] * 2
    assert {"power_w", "sm_clock_hz"} <= channels(result)
    power = next(sample for sample in result.samples if sample.metric == "power")
    assert power.values == (600.0, 600.0)
    assert result.flags == ()


def test_replicates_run_one_after_another_and_are_merged(scripted) -> None:
    result = scripted(None).measure(CASE, Protocol(replicates=3), seed=4)
    assert [replicate.seed for replicate in result.replicates] == [4, 5, 6]
    rates = next(sample for sample in result.samples if sample.metric == "throughput")
    assert len(rates.values) == 3


def test_the_first_replicate_that_fails_ends_the_case_and_the_others_are_kept(
    scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPT", "segfault")
    result = scripted(None).measure(CASE, Protocol(replicates=4))
    assert result.status is Status.CRASHED
    assert "SIGSEGV" in result.reason
    assert [replicate.seed for replicate in result.replicates] == [0, 1]
    assert result.environment.facts


def test_replicates_that_no_result_can_hold_together_are_garbage(
    scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPT", "flags")
    assert scripted(None).measure(CASE, Protocol()).status is Status.OK
    result = scripted(None).measure(CASE, Protocol(replicates=2))
    assert result.status is Status.GARBAGE
    assert "flags" in result.reason


def test_a_device_that_protected_itself_is_flagged_and_the_flag_is_printed(
    scripted, device
) -> None:
    device.mask = THERMAL
    result = scripted(device).measure(CASE, Protocol())
    assert result.flags == ("throttled",)
    out = io.StringIO()
    result_panel.show(result, Console(file=out, width=120))
    assert re.search(r"flags +throttled", out.getvalue())


def test_a_device_that_is_busy_and_not_empty_is_waited_for_in_vain_and_flagged(
    scripted, device
) -> None:
    device.busy = iter([0.9] * 10_000)
    device.told["memory_used_b"] = 2.0**30
    assert scripted(device).measure(CASE, Protocol()).flags == ("device_busy", "foreign_memory")


def test_load_that_fades_in_time_is_waited_for(scripted, device) -> None:
    device.busy = iter([0.9, 0.4, 0.06])
    assert scripted(device, idle_limit_s=60.0).measure(CASE, Protocol()).flags == ()


def test_a_stranger_is_flagged(scripted, device) -> None:
    device.foreign = frozenset({os.getppid()})
    assert scripted(device).measure(CASE, Protocol()).flags == ("other_processes",)


def test_all_of_a_childs_processes_are_ours(scripted, device) -> None:
    """Two: without their mark the second one would be taken for a stranger."""
    script = f"sleep 2 >/dev/null 2>&1 & exec {sys.executable} {HERE}/scripted_benchmark.py"
    with_helper = scripted(device, child_command=("sh", "-c", script, "child"))
    assert with_helper.measure(CASE, Protocol()).flags == ()


def test_without_a_device_nothing_is_missed(scripted) -> None:
    result = scripted(None).measure(CASE, Protocol())
    assert (channels(result), result.flags) == (set(), ())
    assert {sample.metric for sample in result.samples}.isdisjoint({"power", "sm_clock"})


def test_the_device_cools_to_its_first_temperature_between_two_processes(
    scripted, device, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float | None, float]] = []
    monkeypatch.setattr(
        DeviceState, "cool", lambda self, to_c, limit_s, goes_on: asked.append((to_c, limit_s))
    )
    scripted(device).measure(CASE, Protocol(replicates=3))
    assert asked == [(40.0, Settings().cool_limit_s)] * 2


def test_the_wait_for_the_device_is_part_of_the_time(
    scripted, device, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.busy = iter([0.9] * 10_000)
    monkeypatch.setenv("SCRIPT", "slow")
    began_s = time.monotonic()
    result = scripted(device, idle_limit_s=1.0).measure(CASE, Protocol(), limit_s=1.0)
    assert result.status is Status.TIMEOUT
    assert time.monotonic() - began_s < 1.9


def test_a_child_that_is_too_late_is_ended_and_watched_no_longer(
    scripted, device, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is there anything that it left behind."""
    monkeypatch.setenv("SCRIPT", "slow")
    began_s = time.monotonic()
    runner = scripted(device, child_command=that_leaves(left))
    result = runner.measure(CASE, Protocol(), limit_s=1.0)
    assert result.status is Status.TIMEOUT
    assert "ran past its limit of 1 s" in result.reason
    assert time.monotonic() - began_s < 20  # the child would have gone on for 30 s
    assert left.read_text()
    assert alive(left) == []
    assert device.processes() == frozenset()
    assert "telemetry" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("told", [True, False])
def test_nothing_that_a_child_left_behind_is_there_when_it_has_ended(
    scripted, device, left: Path, *, told: bool
) -> None:
    gauge = device if told else None
    scripted(gauge, child_command=that_leaves(left)).measure(CASE, Protocol())
    assert left.read_text()
    assert alive(left) == []


def test_no_process_is_measured_beside_what_holds_the_device(
    scripted, device, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_by_what_is_left(device, left, monkeypatch)
    on_it = scripted(device, child_command=that_leaves(left), kill_patience_s=0.2)
    result = on_it.measure(CASE, Protocol(replicates=3))
    assert result.status is Status.INFRA_ERROR
    assert re.match(r"Processes \d+ of the last .* hold the dev", result.reason)
    assert len(result.replicates) == 1
    with pytest.raises(DeviceHeld, match=r"Processes \d+ of the last .* hold the dev") as held:
        on_it.measure(CASE, Protocol())
    assert held.value.code is Exit.FAILED
    assert len(left.read_text().split()) == 1


def test_a_climb_ends_where_what_a_rung_left_behind_holds_the_device(
    scripted, device, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_by_what_is_left(device, left, monkeypatch)
    command = that_leaves(left, "simulated_machine.py")
    on_it = scripted(device, child_command=command, kill_patience_s=0.2)
    first, said, shown = Case(workload="resnet50", preset="full"), io.StringIO(), io.StringIO()
    measured = climb.measurer(on_it, climb.BRIEF, first)
    found = climb.run(measured, first, 600.0, Console(file=said, width=200))
    assert (len(found.rungs), found.document()["ended"]) == (1, "held")
    assert climb.exit_code(found) is Exit.FAILED
    assert "hold the device, and the next one would measure beside them" in said.getvalue()
    climb_report.show(found, Console(file=shown, width=140))
    assert "Processes of an earlier case hold the device" in shown.getvalue()


def test_the_rungs_of_a_climb_carry_the_flags_of_their_conditions(scripted, device) -> None:
    device.told["memory_used_b"] = 2.0**30
    first = Case(workload="resnet50", preset="full")
    on_it = scripted(device, "simulated_machine.py", idle_limit_s=0.0)
    measured = climb.measurer(on_it, climb.BRIEF, first)
    said, shown = io.StringIO(), io.StringIO()
    found = climb.run(measured, first, 5.0, Console(file=said))
    assert all(rung["flags"] == ["foreign_memory"] for rung in found.document()["rungs"])
    climb_report.show(found, Console(file=shown, width=140))
    assert f"{first.key}: flags: foreign_memory" in shown.getvalue()
    assert "  flags: foreign_memory\n" in said.getvalue()


@pytest.mark.parametrize(
    ("named", "index"), [(None, 0), ("cuda", 0), ("cuda:1", 1), ("cpu", None), ("cuda:7", None)]
)
def test_the_device_that_is_watched_is_the_one_that_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device, named: str | None, index: int | None
) -> None:
    gpus = [Gpu(number, f"GPU-{number}", "a GPU") for number in range(2)]
    opened: list[Gpu | None] = []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("worker.device.nvml.devices", lambda: gpus)
    monkeypatch.setattr("worker.device.nvml.open_gauge", lambda gpu: opened.append(gpu) or device)
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with measure.set_up("resnet50", named):
        assert list(temporary.iterdir())
        assert not device.closed
    assert device.closed
    assert not list(temporary.iterdir())
    assert opened == [None if index is None else gpus[index]]


def test_every_gpu_of_a_gang_is_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device
) -> None:
    gpus = [Gpu(number, f"GPU-{number}", "a GPU") for number in range(4)]
    opened: list[Gpu | None] = []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("worker.device.nvml.devices", lambda: gpus)
    monkeypatch.setattr("worker.device.nvml.open_gauge", lambda gpu: opened.append(gpu) or device)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with measure.set_up("resnet50", "cuda:1", gpus=2):
        assert opened == gpus[1:3]


def failing() -> list[Gpu]:
    raise DriverFailed("The NVIDIA driver does not tell its GPUs (it says): see nvidia-smi.")


def test_where_the_driver_fails_no_gpu_is_mistaken_for_a_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("worker.device.nvml.devices", failing)
    with pytest.raises(Stop, match="choose --device cpu"), measure.set_up("resnet50"):
        pass
    for named in ("cpu", "cuda"):
        with measure.set_up("resnet50", named) as runner:
            assert runner
    with pytest.raises(Stop, match="set CUDA_VISIBLE_DEVICES=-1"):
        devices.look()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert devices.look().devices == ("cpu",)


def test_enrolling_for_whatever_is_here_needs_a_driver_that_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("worker.device.nvml.devices", failing)
    with pytest.raises(Stop, match="name the device with --device"):
        enroll("tl_enrol_x", url="http://127.0.0.1:9", state_dir=tmp_path)
