"""A worker whose device cannot be used gives its job back and ends; no job fails for it."""

from __future__ import annotations

import pynvml
import pytest

from benchmarks.contracts import Status
from benchmarks.exits import NO_DEVICE
from tests.worker.miniature import Miniature
from worker.device import nvml, usable
from worker.loop import CANNOT, DONE
from worker.startup import run
from worker.stop import Stop

GONE = "cuda:0 cannot be used: torch sees 0 GPUs."


@pytest.fixture
def on_gpu(settings, service: Miniature, monkeypatch):
    """A worker of a GPU that this machine does not have."""
    monkeypatch.setattr(nvml, "devices", list)
    return settings.model_copy(update={"url": service.url, "device": "cuda:0", "once": True})


def test_a_worker_without_its_device_does_not_even_register(on_gpu, service, monkeypatch, caplog):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    service.submit("ok")
    assert run(on_gpu, Stop()) == CANNOT
    assert "No job is claimed: this worker's device cannot be used (cuda:0 cannot" in caplog.text
    assert not service.requests


def test_a_job_whose_device_has_gone_is_given_back_and_no_other_is_claimed(
    on_gpu, service, monkeypatch, caplog
):
    answers = iter(["", GONE, ""])
    monkeypatch.setattr(usable, "obstacle", lambda settings, goes_on: next(answers))
    for workload in ("nodevice", "ok", "ok"):
        service.submit(workload, protocol={"replicates": 2})
    assert run(on_gpu, Stop()) == CANNOT
    assert service.released == [f"The worker cannot use its device: {GONE}"]
    assert not service.results
    assert len(service.queue) == 2
    assert caplog.text.count("No job is claimed") == 1
    assert run(on_gpu.model_copy(update={"device": "cpu"}), Stop()) == DONE
    assert len(service.results) == 2


@pytest.mark.parametrize("after", ["", None, GONE])
def test_a_revision_that_knows_no_such_exit_code_refuses_the_case_and_is_not_believed(
    on_gpu, service, monkeypatch, after
):
    answers = iter(["", after])
    monkeypatch.setattr(usable, "obstacle", lambda settings, goes_on: next(answers))
    service.submit("refuse")
    assert run(on_gpu, Stop()) == (CANNOT if after else DONE)
    assert len(service.released) == (1 if after else 0)
    assert [result.status for result in service.read()] == ([] if after else [Status.UNSUPPORTED])


def test_a_child_alone_cannot_talk_its_worker_out_of_its_device(settings, service: Miniature):
    service.submit("nodevice")
    service.submit("ok")
    told = settings.model_copy(update={"url": service.url, "once": True})
    assert run(told, Stop()) == DONE
    first, second = service.read()
    assert first.status is Status.INFRA_ERROR
    assert first.reason == f"The child cannot use the device, though this worker can: {GONE}"
    assert second.status is Status.OK
    assert not service.released


def test_where_only_the_child_has_torch_its_word_counts(on_gpu, service, monkeypatch):
    monkeypatch.setattr(usable, "_ASK", "import a_torch_that_is_not_here")
    service.submit("nodevice")
    assert run(on_gpu, Stop()) == CANNOT
    assert service.released == [f"The worker cannot use its device: {GONE}"]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("", ""),
        (f"raise SystemExit({NO_DEVICE})", "torch refuses it."),
        (
            f"import sys; print('a warning', 'It has gone.', sep='\\n', file=sys.stderr);"
            f"raise SystemExit({NO_DEVICE})",
            "It has gone.",
        ),
        ("raise SystemExit(1)", None),
        ("import time; time.sleep(600)", "cuda:0 does not answer within 0.5 s."),
    ],
    ids=["usable", "unusable", "reason", "unknown", "hangs"],
)
def test_the_device_is_asked_in_a_process_of_its_own(on_gpu, monkeypatch, script, found):
    monkeypatch.setattr(usable, "_ASK", script)
    if "sleep" in script:
        monkeypatch.setattr(usable, "LIMIT_S", 0.5)
    assert usable.obstacle(on_gpu, lambda: True) == found


def test_asking_ends_when_the_worker_is_stopped(on_gpu, monkeypatch):
    monkeypatch.setattr(usable, "_ASK", "import time; time.sleep(600)")
    assert usable.obstacle(on_gpu, lambda: False) is None


def test_without_an_interpreter_nothing_can_be_told(on_gpu):
    nowhere = on_gpu.model_copy(update={"python": "/nowhere/python"})
    assert usable.obstacle(nowhere, lambda: True) is None


def broken_driver(monkeypatch, code: int) -> None:
    def init() -> None:
        raise pynvml.NVMLError(code)

    monkeypatch.setattr(nvml.pynvml, "nvmlInit", init)


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED]
)
def test_without_a_driver_there_is_no_gpu(monkeypatch, code):
    broken_driver(monkeypatch, code)
    assert nvml.devices() == []


def test_a_driver_that_fails_makes_no_cpu_worker_of_a_gpu_node(
    settings, service, monkeypatch, caplog
):
    broken_driver(monkeypatch, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    told = settings.model_copy(update={"url": service.url, "once": True})
    assert run(told.model_copy(update={"device": "auto"}), Stop()) == CANNOT
    assert "The NVIDIA driver does not tell its GPUs" in caplog.text
    assert not service.requests
    assert run(told, Stop()) == DONE


def test_where_the_driver_fails_only_for_telemetry_a_named_device_is_used(
    settings, service, monkeypatch, caplog
):
    broken_driver(monkeypatch, pynvml.NVML_ERROR_UNKNOWN)
    monkeypatch.setattr(usable, "_ASK", "")
    chosen = {"url": service.url, "device": "cuda:0", "once": True}
    assert run(settings.model_copy(update=chosen), Stop()) == DONE
    assert "The NVIDIA driver does not tell its GPUs" in caplog.text
    assert service.workers["w1"].labels["device"] == "cuda"
