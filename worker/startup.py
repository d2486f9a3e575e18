"""Sets a worker up: its device, its folder, its containment, the labels by which jobs find it."""

from __future__ import annotations

import logging
import platform
import subprocess
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from benchmarks import contracts
from benchmarks.version import installed
from worker import client, doctor, loop, state_dir
from worker.ahead import Ahead
from worker.child import containment
from worker.device import gpu_lock, nvml, usable
from worker.runner import Runner
from worker.settings import Settings, visible_devices
from worker.stop import Aborted, Stop
from worker.supervisor import Station
from worker.targets import definitions

log = logging.getLogger(__name__)


def run(settings: Settings, stop: Stop | None = None) -> int:
    """Be a worker until asked to stop; returns the exit code.

    SIGINT and SIGTERM ask when this runs in the main thread; elsewhere ``stop`` does.
    """
    stop = stop or Stop()
    try:
        gpus = _gpus(settings)
    except nvml.DriverFailed as failed:
        log.error("%s To measure on the CPU all the same, choose --device cpu.", failed)
        return loop.CANNOT
    settings = settings.on_machine(bool(gpus))
    gpu = nvml.find(settings.device, visible_devices(), gpus)
    if gpu is None and settings.device != "cpu":
        log.warning("NVML knows no GPU as %s: no clocks, power or energy.", settings.device)
    offered = [nvml.find(device, visible_devices(), gpus) for device in settings.devices]
    gauges = [nvml.open_gauge(one) for one in offered]
    gauge, beside = gauges[0], gauges[1:]
    try:
        with (
            stop.on_signals(),
            state_dir.locked(settings.folder, settings.name) as folder,
            gpu_lock.held([one.uuid for one in offered if one], settings.name),
            client.ServiceClient(
                settings.url, settings.request_timeout_s, settings.read_token
            ) as service,
        ):
            contained, why = containment.choose(settings.containment, settings.device)
            log.info("Children are contained by a %s (%s).", contained.replace("_", " "), why)
            log.info("%s", containment.SEEN[contained])
            if gone := usable.obstacle(settings, lambda: not stop.draining):
                raise usable.Unusable(gone)
            warnings = doctor.warnings(settings, at_torch=False)
            for warning in warnings:
                log.warning("%s", warning)
            journal = state_dir.Journal(folder)
            station = Station(settings, contained, gauge, journal.started, beside)
            me = introduce(settings, gpu, contained, state_dir.identity(folder), warnings)
            with Ahead(station, journal, lambda: not stop.draining) as ahead:
                runner = Runner(settings, station, ahead)
                return loop.Loop(settings, me, service, runner, folder, stop).run()
    except (
        state_dir.Occupied,
        client.ClientError,
        containment.Unavailable,
        definitions.BadTargets,
    ) as error:
        log.error("%s", error)
        return (
            loop.WRONG
            if isinstance(error, client.Refused | definitions.BadTargets)
            else loop.CANNOT
        )
    except usable.Unusable as error:
        log.error("No job is claimed: this worker's device cannot be used (%s)", error)
        return loop.CANNOT
    except ValidationError as error:
        log.error("This worker's name or labels are not acceptable: %s", error)
        return loop.WRONG
    except Aborted:
        return loop.ABORTED
    finally:
        for one in filter(None, gauges):
            one.close()


def _gpus(settings: Settings) -> list[nvml.Gpu]:
    """The GPUs of this machine; with ``auto`` a driver's failure is an error."""
    if settings.device == "cpu":
        return []
    try:
        return nvml.devices()
    except nvml.DriverFailed as failed:
        if settings.device == "auto":
            raise
        log.warning("%s", failed)
        return []


def introduce(
    settings: Settings,
    gpu: nvml.Gpu | None,
    contained: containment.Containment,
    folder: str,
    warnings: Sequence[str] = (),
) -> contracts.Worker:
    """This worker as the service will know it; settings' own labels win.

    ``folder`` is what `worker.state_dir.identity` says, ``warnings`` what `worker.doctor` does.
    """
    labels = {
        contracts.FOLDER: folder,
        "device": settings.device.partition(":")[0],
        "host": platform.node(),
        "os": platform.system().lower(),
        "python": _python_version(settings.python),
        "arch": platform.machine(),
        "containment": contained.value,
    }
    if settings.gpus:
        labels[contracts.GPUS] = str(len(settings.devices))
    if settings.allowed_models:
        labels["models"] = ",".join(settings.allowed_models)
    if settings.targets is not None and (upstream := definitions.read(settings.targets).upstream):
        labels |= upstream.labels
    if gpu is not None:
        labels |= {"gpu": gpu.name, "gpu_uuid": gpu.uuid, "driver": nvml.driver_version() or ""}
    labels |= settings.labels
    shown = {name: contracts.line(value) for name, value in labels.items() if value}
    told = tuple(map(contracts.line, warnings))
    return contracts.Worker(name=settings.name, labels=shown, version=installed(), warnings=told)


def _python_version(python: str) -> str:
    if python == sys.executable:
        return platform.python_version()
    ask = (python, "-c", "import platform; print(platform.python_version())")
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
