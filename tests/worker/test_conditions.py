"""Conditions that were bad are told, measured again where that may help, and never hidden."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.contracts import Canary, Result
from tests.worker.test_telemetry_of_a_window import curve, measured
from worker.device.canary import NEEDED, REMEMBERED, NodeHistory, moved
from worker.device.state import DeviceState, obstacles
from worker.device.telemetry import attach
from worker.runner import Runner
from worker.supervisor import Station

THERMAL = 0x40


class Device:
    """A gauge whose readings the test chooses."""

    def __init__(self) -> None:
        self.told: dict[str, float] = {"temperature_c": 40.0, "sm_clock_hz": 1.98e9}
        self.hot_children = 0
        """During so many children, from the first on, the device protects itself."""
        self.children = 0

    def channels(self) -> dict[str, float]:
        return dict(self.told)

    def reasons(self) -> int | None:
        return THERMAL if self.children <= self.hot_children else 0

    def energy_j(self) -> float | None:
        return None

    def processes(self) -> frozenset[int]:
        return frozenset()

    def started(self, processes: Sequence[object], *_: object) -> None:
        self.children += bool(processes)  # the job's folder is noted before its first child


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def measure(settings, contained, device, job, onlooker) -> Callable[..., Result]:
    def run(workload: str = "slow", **changed: object) -> Result:
        usual = {"telemetry_hz": 50.0, "idle_limit_s": 0.1, "throttle_cool_s": 0.0}
        chosen = settings.model_copy(update=usual | changed)
        station = Station(chosen, contained, device, device.started)
        return Runner(chosen, station).run(job(workload), onlooker)

    return run


def test_a_replicate_on_a_device_that_protected_itself_is_measured_again(measure, device):
    device.hot_children = 1
    result = measure()
    assert [len(result.replicates), len(result.rejected)] == [1, 1]
    (rejected,) = result.rejected
    assert (rejected.replicate, rejected.reasons) == (1, ("throttled",))
    assert rejected.rate > 0
    assert not any(replicate.flags for replicate in result.replicates)


def test_a_device_that_stays_hot_gives_a_flagged_result_after_two_more_tries(measure, device):
    device.hot_children = 99
    result = measure()
    assert len(result.rejected) == 2
    assert result.replicates[0].flags == ("throttled",)
    assert "throttled" in result.flags


def test_nothing_is_measured_again_when_the_jobs_time_would_not_do(measure, device, monkeypatch):
    monkeypatch.setattr("worker.alone.ROOM_FOR_ANOTHER", 1e9)
    device.hot_children = 99
    result = measure()
    assert result.rejected == ()
    assert "throttled" in result.flags


@pytest.mark.parametrize(
    ("reasons", "flags"),
    [(0, ("throttled",)), (0x4, ()), (0x1, ())],
    ids=["for no reason", "under a power cap", "while it idles"],
)
def test_a_low_clock_is_throttling_unless_it_is_explained(reasons: int, flags: tuple[str, ...]):
    result = measured(5, 15)
    facts = {**result.environment.facts, "hw.gpu.max_sm_clock_hz": "1980000000"}
    environment = result.environment.model_copy(update={"facts": facts})
    readings = curve(0, 20, reasons=reasons, channels={"sm_clock_hz": 1.2e9})
    told = attach(result.model_copy(update={"environment": environment}), readings)
    assert told.replicates[0].flags == flags


def test_a_device_with_a_stranger_on_it_is_measured_and_flagged(measure, device):
    device.told |= {"utilization": 0.6, "memory_used_b": 2.0**30}
    result = measure()
    assert result.replicates[0].flags == ("device_busy", "foreign_memory")
    assert set(result.flags) == {"device_busy", "foreign_memory"}
    assert result.samples


@pytest.fixture
def await_idle(settings) -> Callable[..., tuple[str, ...]]:
    chosen = settings.model_copy(update={"idle_limit_s": 60.0})
    return lambda gauge, goes_on: DeviceState(chosen, gauge).await_idle(goes_on)


def test_the_load_of_the_last_child_is_given_time_to_fade(await_idle):
    fading = iter([0.9, 0.5, 0.04])

    class Fading(Device):
        def channels(self) -> dict[str, float]:
            return {"utilization": next(fading)}

    assert await_idle(Fading(), lambda: True) == ()
    assert await_idle(None, lambda: True) == ()


@pytest.mark.parametrize(("gpus", "flags"), [(1, ()), (2, ("device_busy",))])
def test_a_gang_waits_for_all_its_gpus(settings, device: Device, gpus: int, flags: tuple[str, ...]):
    busy = Device()
    busy.told = {"utilization": 0.9}
    state = DeviceState(settings.model_copy(update={"idle_limit_s": 0.0}), device, [busy, None])
    assert state.await_idle(lambda: True, gpus) == flags
    assert DeviceState(settings, None, [None]).await_idle(lambda: True, gpus) == ()


def test_a_job_that_is_called_off_does_not_wait_for_an_idle_device(await_idle, device: Device):
    device.told["utilization"] = 1.0
    began_s = time.monotonic()
    assert await_idle(device, lambda: False) == ("device_busy",)
    assert time.monotonic() - began_s < 10


def test_a_device_that_tells_nothing_is_not_called_busy():
    assert obstacles({}) == ()


def usual(**changed: float) -> dict[str, float]:
    told = {"gemm_flop_s": 8e14, "copy_b_s": 4.3e12, "launch_s": 3e-6, "python_s": 0.05}
    return told | changed


@pytest.mark.parametrize(
    ("now", "names"),
    [
        (usual(), set()),
        (usual(gemm_flop_s=8e14 * 0.985), {"gemm_flop_s"}),
        (usual(gemm_flop_s=8e14 * 0.995, python_s=0.052), set()),
        (usual(python_s=0.06, launch_s=4e-6), {"python_s", "launch_s"}),
        ({"python_s": 0.05, "unheard_of": 1.0}, set()),
    ],
)
def test_a_reading_that_left_the_nodes_median_is_named(now: dict[str, float], names: set[str]):
    assert set(moved([usual()] * NEEDED, now, on_cpu=False)) == names


def test_a_node_without_a_past_has_not_moved():
    assert moved([usual()] * (NEEDED - 1), usual(python_s=1.0), on_cpu=False) == {}


def test_on_a_cpu_every_reading_has_the_hosts_tolerance():
    now = usual(gemm_flop_s=8e14 * 0.97)
    assert moved([usual()] * NEEDED, now, on_cpu=True) == {}


def canaries() -> Iterator[Canary]:
    for number in range(100):
        slow = 0.1 if number == NEEDED else 0.05
        yield Canary(measured_at=datetime.now(UTC), readings={"python_s": slow, "launch_s": 3e-6})


def test_a_nodes_past_outlives_its_worker_and_stays_small(tmp_path: Path):
    taken = canaries()
    for _ in range(NEEDED):
        told = NodeHistory(tmp_path, 600.0).now(lambda: next(taken))
        assert told is not None
        assert told.moved == {}
    told = NodeHistory(tmp_path, 600.0).now(lambda: next(taken))
    assert told is not None
    assert told.moved == {"python_s": pytest.approx(1.0)}
    for _ in range(REMEMBERED):
        NodeHistory(tmp_path, 600.0).now(lambda: next(taken))
    assert len((tmp_path / "canary.jsonl").read_text().splitlines()) == REMEMBERED


def test_a_canary_stands_for_its_node_until_it_is_too_old(tmp_path: Path):
    taken = canaries()
    node = NodeHistory(tmp_path, 600.0)
    assert node.now(lambda: next(taken)) == node.now(lambda: pytest.fail("taken again"))
    assert NodeHistory(tmp_path, 0.0).now(lambda: pytest.fail("asked for none")) is None


def test_a_file_that_is_half_written_is_no_past(tmp_path: Path):
    (tmp_path / "canary.jsonl").write_text('{"measured_at": "2026-')
    taken = canaries()
    assert NodeHistory(tmp_path, 600.0).now(lambda: next(taken)) is not None


def test_a_job_carries_the_real_canary_of_its_node(measure):
    result = measure("ok", canary_every_s=600.0)
    assert result.canary is not None
    assert set(result.canary.readings) == {"gemm_flop_s", "copy_b_s", "python_s"}
    assert all(reading > 0 for reading in result.canary.readings.values())


@pytest.mark.slow
def test_a_worker_that_offers_several_devices_reads_their_links_too(measure):
    result = measure("ok", canary_every_s=600.0, gpus="0,1")
    assert result.canary is not None
    assert {"all_reduce_1mib_b_s", "point_to_point_b_s"} < set(result.canary.readings)


def test_a_canary_that_cannot_be_taken_costs_no_result(measure, caplog):
    result = measure("ok", canary_every_s=600.0, python="/bin/false")
    assert result.canary is None
    assert result.samples
    assert "canary gave no reading" in caplog.text


def test_a_node_that_moved_is_flagged(measure, settings):
    folder = settings.folder
    folder.mkdir(parents=True)
    fast = Canary(measured_at=datetime.now(UTC), readings={"python_s": 1e-9})
    (folder / "canary.jsonl").write_text(f"{fast.model_dump_json()}\n" * NEEDED)
    result = measure("ok", canary_every_s=600.0, python=sys.executable)
    assert result.canary is not None
    assert result.canary.moved["python_s"] > 1
    assert "node_drift" in result.flags
