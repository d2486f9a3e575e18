"""What NVML said during a pass, and only then; every channel that a device lacks is left out."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pynvml
import pytest

from benchmarks.contracts import RankTimes, Result, Status, Window
from benchmarks.contracts.bounds import pass_readings
from tests.worker import scripted_child
from tests.worker.miniature import eventually
from worker.device import nvml
from worker.device.nvml import Gpu, NvmlGauge, find
from worker.device.state import Holders, Occupancy, Sampler, strangers
from worker.device.telemetry import Reading, attach, cut
from worker.runner import Runner
from worker.supervisor import Station


class ScriptedGauge:
    """A device whose clock falls and whose power rises with each reading."""

    def __init__(self, others: frozenset[int] = frozenset()) -> None:
        self.count = 0
        self._others = others

    def channels(self) -> dict[str, float]:
        self.count += 1
        return {"sm_clock_hz": 1.98e9, "power_w": 100.0 + self.count, "temperature_c": 40.0}

    def reasons(self) -> int | None:
        return 0x4

    def energy_j(self) -> float | None:
        return 500.0 * time.monotonic()

    def processes(self) -> frozenset[int]:
        return self._others


def reading(at_s: float, **more: object) -> Reading:
    told = {
        "channels": {"power_w": 10 * at_s},
        "reasons": 0,
        "energy_j": 300 * at_s,
        "others": 0,
    }
    return Reading(at_s, **(told | more))


def curve(start: float, end: float, **more: object) -> list[Reading]:
    return [reading(start + 0.1 * i, **more) for i in range(round((end - start) * 10) + 1)]


def measured(start_s: float, end_s: float, rate: float = 50.0) -> Result:
    asked = {"seed": 0, "workload": "ok", "axes": {}, "protocol": {}}
    document = scripted_child.result(asked)
    timed = scripted_child.timed_pass(start_s, end_s, rate)
    document["replicates"][0] |= {"full": timed, "synth": timed}
    return Result.model_validate(document)


def test_readings_outside_the_window_do_not_count():
    told = cut(curve(0, 20), Window(start_s=5.05, end_s=10.05))
    assert told is not None
    assert told.t_s.n == 50
    assert told.t_s.values()[0] == pytest.approx(0.05)
    assert told.channels["power_w"].values()[0] == pytest.approx(51)
    assert told.channels["power_w"].values()[-1] == pytest.approx(100)
    assert told.hz == pytest.approx(10)


def test_the_clock_that_the_sms_counted_is_surer_than_readings():
    result = measured(5.0, 15.0)
    (replicate,) = result.replicates
    counted = replicate.full.model_copy(update={"sm_clock_hz": 1.4e9})
    replicate = replicate.model_copy(update={"full": counted, "synth": counted})
    result = result.model_copy(update={"replicates": (replicate,)})
    step_s = sum(counted.step_trace.values()) / counted.steps
    for readings in (curve(0, 20, channels={"sm_clock_hz": 1.5e9}), []):
        values = {one.metric: one.values for one in attach(result, readings).samples}
        assert values["sm_clock"] == (1.4e9,)
        assert values["cycles_per_step"] == (pytest.approx(step_s * 1.4e9),)


def of_two(beside_j: float | None) -> dict[str, float]:
    result = measured(5, 15, rate=60.0)
    (replicate,) = result.replicates
    ranks = (RankTimes(step_s=0.1, stall_s=0.0),) * 2
    full = replicate.full.model_copy(update={"ranks": ranks})
    replicate = replicate.model_copy(update={"full": full, "synth": full})
    readings = [
        reading(
            one.at_s,
            channels={"power_w": 300.0},
            beside_j=(None if beside_j is None else beside_j * one.at_s, 900 * one.at_s),
        )
        for one in curve(0, 20)
    ]
    told = attach(result.model_copy(update={"replicates": (replicate,)}), readings)
    return {sample.metric: sample.values[0] for sample in told.samples}


def test_energy_of_a_gang_is_that_of_all_its_gpus_and_of_no_other():
    told = of_two(500)
    assert told["energy_per_item"] == pytest.approx((300 + 500) / 60)
    assert "power" not in told, "the other readings are of one GPU"


def test_energy_of_a_gang_with_a_gpu_that_does_not_tell_is_not_known():
    assert "energy_per_item" not in of_two(None)


@pytest.mark.parametrize(("gpus", "active"), [(1, 0.0), (2, 1.0)])
def test_a_reason_that_is_active_on_any_gpu_of_a_gang_counts(gpus: int, active: float) -> None:
    """One GPU that protects itself slows all; a GPU beside a job of one does not."""
    readings = curve(0, 20, beside_reasons=(0x40, None))
    told = cut(readings, Window(start_s=5.0, end_s=12.0), gpus=gpus)
    assert told is not None
    assert told.reasons["hw_thermal"] == active


def test_energy_is_interpolated_at_the_ends_of_the_window():
    told = cut(curve(0, 20), Window(start_s=5.03, end_s=12.07))
    assert told is not None
    assert told.energy_j == pytest.approx(300 * 7.04)


@pytest.mark.parametrize(
    ("window", "readings"),
    [
        (Window(start_s=5, end_s=9.9), curve(0, 20)),
        (Window(start_s=5, end_s=12), curve(5.5, 20)),
        (Window(start_s=5, end_s=12), curve(0, 20, energy_j=None)),
    ],
    ids=["a window under 5 s", "readings that start too late", "no energy counter"],
)
def test_energy_that_cannot_be_known_is_not_guessed(window, readings):
    told = cut(readings, window)
    assert told is not None
    assert told.energy_j is None


def test_reasons_are_shares_of_the_readings():
    readings = curve(0, 0.9, reasons=0x4) + curve(1, 1.9, reasons=0x4 | 0x40)
    told = cut(readings, Window(start_s=0, end_s=2))
    assert told is not None
    assert told.reasons["sw_power_cap"] == 1
    assert told.reasons["hw_thermal"] == 0.5
    assert told.reasons["gpu_idle"] == 0


def test_a_channel_that_was_missing_once_is_left_out():
    readings = [*curve(0, 1), reading(1.1, channels={"temperature_c": 50.0})]
    told = cut(readings, Window(start_s=0, end_s=2))
    assert told is not None
    assert told.channels == {}


def test_a_window_without_readings_has_no_telemetry():
    assert cut(curve(0, 1), Window(start_s=5, end_s=10)) is None
    assert attach(measured(5, 10), []).replicates[0].telemetry == {}


def test_power_clock_and_energy_become_samples():
    readings = curve(0, 20, channels={"power_w": 300.0, "sm_clock_hz": 1.5e9})
    result = attach(measured(5, 15, rate=60.0), readings)
    values = {sample.metric: sample.values for sample in result.samples}
    assert values["power"] == (300.0,)
    assert values["sm_clock"] == (1.5e9,)
    assert values["energy_per_item"] == (pytest.approx(300 / 60),)
    synth = result.replicates[0].synth
    step_s = sum(synth.step_trace.values()) / synth.steps
    assert values["cycles_per_step"] == (pytest.approx(step_s * 1.5e9),)
    assert set(result.replicates[0].telemetry) == {"full", "synth"}
    Result.model_validate_json(result.model_dump_json())


def test_a_throttled_shared_or_unsteady_device_is_flagged_and_kept():
    readings = [
        reading(0.1 * i, reasons=0x40, others=1, channels={"sm_clock_hz": 1e9 * (1 + i % 2)})
        for i in range(200)
    ]
    result = attach(measured(5, 15), readings)
    assert result.replicates[0].flags == ("throttled", "clock_unstable", "other_processes")


def test_a_clock_that_a_power_cap_moves_is_usual_and_no_flag():
    readings = [
        reading(0.1 * i, reasons=0x4, channels={"sm_clock_hz": 1e9 * (1 + i % 2)})
        for i in range(200)
    ]
    assert attach(measured(5, 15), readings).replicates[0].flags == ()


@pytest.mark.parametrize(
    ("more", "flags"),
    [
        ({"reasons": 0x1, "channels": {"sm_clock_hz": 1.0e9}}, ()),
        ({"reasons": 0x40}, ("throttled",)),
        ({"others": 1}, ("other_processes",)),
    ],
)
def test_a_duet_is_disturbed_by_what_a_device_says_and_not_by_its_clock(more, flags):
    """Between turns it stands idle for a moment, and both sides have the same clock."""
    turns = [
        {"window": {"start_s": at_s, "end_s": at_s + 0.4}, "steps": 4, "step_s": 0.1}
        for at_s in (5.0, 6.0)
    ]
    asked = {"seed": 0, "workload": "ok", "axes": {}, "protocol": {}}
    document = scripted_child.result(asked, turns=turns, replicates=[])
    single = Result.model_validate(document)
    assert attach(single, curve(0, 20, **more)).flags == flags
    case = single.case.model_copy(update={"axes": {"gpus": "2", "parallel": "ddp"}})
    gang = single.model_copy(update={"case": case})
    assert attach(gang, curve(0, 20, beside_reasons=(0x40,))).flags == ("throttled",)
    assert attach(single, curve(0, 20, beside_reasons=(0x40,))).flags == ()


def test_a_short_window_has_power_but_no_energy():
    metrics = {sample.metric for sample in attach(measured(5, 8), curve(0, 20)).samples}
    assert metrics == {"throughput", "power"}


def test_our_own_processes_are_no_strangers():
    ours, other = frozenset({os.getpid()}), frozenset({2**22 + 1})
    assert strangers(Holders(ours, other), frozenset()) == 1
    assert strangers(Holders(ours), frozenset()) == 0


def test_in_a_container_the_newcomer_is_taken_to_be_ours():
    before, child = frozenset({2**22 + 1}), 2**22 + 2
    assert strangers(Holders(foreign=before | {child}), before) == 1
    assert strangers(Holders(foreign=frozenset({child})), frozenset()) == 0
    assert strangers(Holders(foreign=before), before) == 1


def test_both_newcomers_are_taken_to_be_the_sides_of_a_pair():
    before, now = frozenset({7}), Holders(foreign=frozenset({7, 8, 9}))
    assert strangers(now, before, children=2) == 1
    assert strangers(now, before, children=1) == 2


def test_the_sampler_reads_at_its_pace_and_ends():
    gauge = ScriptedGauge()
    with Sampler(gauge, 100.0, Occupancy(gauge)) as sampler:
        sampler.start()
        eventually(lambda: len(sampler.readings()) >= 10)
    count = gauge.count
    readings = sampler.readings()
    assert [r.at_s for r in readings] == sorted(r.at_s for r in readings)
    time.sleep(0.05)
    assert gauge.count == count


def test_counters_of_gpus_beside_are_read_with_each_reading():
    gauge = ScriptedGauge()
    with Sampler(gauge, 100.0, Occupancy(gauge), beside=(ScriptedGauge(), None)) as sampler:
        sampler.start()
        eventually(sampler.readings)
    counter, unknown = sampler.readings()[0].beside_j
    assert counter is not None
    assert unknown is None


def test_a_job_on_a_device_carries_its_telemetry(settings, job, onlooker, contained):
    chosen = settings.model_copy(update={"telemetry_hz": 50.0})
    result = Runner(chosen, Station(chosen, contained, ScriptedGauge())).run(job("slow"), onlooker)
    (replicate,) = result.replicates
    full, synth = replicate.telemetry["full"], replicate.telemetry["synth"]
    assert max(full.t_s.values()) <= 0.2
    assert full.channels["power_w"].values()[-1] < synth.channels["power_w"].values()[0]
    assert full.reasons["sw_power_cap"] == 1
    power = next(sample for sample in result.samples if sample.metric == "power")
    assert len(power.values) == 1


@pytest.mark.parametrize("workload", ["nosteps", "clockless"])
def test_a_result_that_cannot_be_counted_with_is_garbage_and_the_worker_lives(
    settings, job, onlooker, contained, workload
):
    chosen = settings.model_copy(update={"telemetry_hz": 50.0})
    runner = Runner(chosen, Station(chosen, contained, ScriptedGauge()))
    result = runner.run(job(workload), onlooker)
    assert result.status is Status.GARBAGE
    assert "Nothing can be made of" in result.reason


def test_more_readings_than_a_result_has_room_for_are_thinned_evenly():
    readings = curve(0, 400)
    told = cut(readings, Window(start_s=0, end_s=400), processes=50)
    assert told is not None
    assert told.t_s.n == told.channels["power_w"].n <= pass_readings(50, 1)
    assert told.hz == pytest.approx(10 * (told.t_s.n - 1) / (len(readings) - 1), rel=0.01)
    assert told.t_s.values()[-1] == pytest.approx(400, abs=1)


def test_without_a_device_nothing_is_missed(settings, job, onlooker, contained):
    result = Runner(settings, Station(settings, contained)).run(job("ok"), onlooker)
    assert result.replicates[0].telemetry == {}
    assert {sample.metric for sample in result.samples} == {"throughput"}


GPUS = [Gpu(0, "GPU-aaa", "H200"), Gpu(1, "GPU-abb", "H200"), Gpu(2, "GPU-ccc", "A100")]


@pytest.mark.parametrize(
    ("device", "visible", "index"),
    [
        ("cuda", None, 0),
        ("cuda:2", None, 2),
        ("cuda:7", None, None),
        ("cuda:1", "2,0", 0),
        ("cuda:0", "GPU-ab", 1),
        ("cuda:0", "MIG-aaa", None),
        ("cuda:0", "", None),
        ("cpu", None, None),
    ],
)
def test_the_gpu_that_is_watched_is_the_one_that_is_measured(device, visible, index):
    found = find(device, visible, GPUS)
    assert (found.index if found else None) == index


def test_one_reading_that_fails_leaves_only_its_channel_out(monkeypatch):
    def broken(*args: object) -> int:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    working = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1980,
        "nvmlDeviceGetPowerUsage": broken,
        "nvmlDeviceGetTemperature": lambda handle, kind: 50,
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=97),
        "nvmlDeviceGetMemoryInfo": lambda handle, version=None: SimpleNamespace(used=1024),
        "nvmlDeviceGetTotalEnergyConsumption": broken,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 4,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=7)],
    }
    for name, call in working.items():
        monkeypatch.setattr(nvml.pynvml, name, call)
    gauge = NvmlGauge("GPU-aaa")
    assert gauge.channels() == {
        "sm_clock_hz": 1.98e9,
        "memory_clock_hz": 1.98e9,
        "temperature_c": 50.0,
        "utilization": 0.97,
        "memory_used_b": 1024.0,
    }
    assert (gauge.reasons(), gauge.energy_j(), gauge.processes()) == (4, None, frozenset({7}))
    gauge.close()


@pytest.mark.gpu
def test_a_real_gpu_tells_clock_power_and_energy():
    gpus = nvml.devices()
    if not gpus:
        pytest.skip("no NVIDIA GPU on this machine")
    gauge = NvmlGauge(gpus[0].uuid)
    try:
        told = gauge.channels()
        assert {"sm_clock_hz", "power_w", "temperature_c"} <= set(told)
        assert 1e8 < told["sm_clock_hz"] < 5e9
        assert 1 < told["power_w"] < 5_000
        assert (gauge.energy_j() or 0) > 0
    finally:
        gauge.close()
