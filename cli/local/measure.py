"""Measures cases on this machine with a worker's runner: no service, no queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path

from pydantic import ValidationError

from benchmarks import contracts
from benchmarks.catalog import catalog
from benchmarks.diagnosis.merge import merge
from benchmarks.progress_bar import ProgressBar
from cli import exits
from cli.settings import our_packages
from worker import launch, result_builder, runner, supervisor
from worker.child import containment
from worker.child.workspace import workspace
from worker.device import nvml
from worker.device.usable import Unusable
from worker.settings import Settings, visible_devices

LONGEST_S = 86_400.0
UNLIKE_A_WORKER = {"canary_every_s": 0.0, "throttle_retries": 0, "worker_target": ""}
"""No canary; no repetition of throttled runs; what is installed is measured."""
ON_A_GPU = {"canary_every_s": LONGEST_S}
"""One canary after all, whose rates a verdict needs; no nodes are compared."""


class DeviceHeld(exits.Stop):
    """Processes of an earlier child stay on the device, and would disturb the next."""


class LocalRunner:
    """Measures one case after another; later ones find the compiled code of earlier ones."""

    def __init__(
        self, settings: Settings, station: supervisor.Station, local: launch.Local
    ) -> None:
        self._runner = runner.Runner(settings, station)
        self._station = station
        self._cool_limit_s = settings.cool_limit_s
        self._local = local

    def measure(
        self,
        case: contracts.Case,
        protocol: contracts.Protocol,
        *,
        seed: int = 0,
        trace: Path | None = None,
        limit_s: float = LONGEST_S,
        beat: tuple[float, float] | None = None,
    ) -> contracts.Result:
        """Measure ``case`` in as many fresh processes as ``protocol`` says.

        Args:
            case: what to measure.
            protocol: how to time; what it asks for beside timing, only the first process does.
            seed: of the first process; each further one adds one.
            trace: where the first process keeps its profiler's trace.
            limit_s: seconds for all of it, and for the wait until the device is idle.
            beat: rates of FULL and SYNTH; a case that beats neither is timed and no more.

        Raises:
            DeviceHeld: what an earlier child left behind does not leave the device.
            Stop: the device cannot be used.
        """
        if held := self._station.held(lambda: True):
            raise DeviceHeld(held, exits.Exit.FAILED)
        until_s = time.monotonic() + limit_s
        local = replace(self._local, seed=seed, trace=trace, beat=beat, until_s=until_s)
        spec = contracts.JobSpec(case=case, revision="here", protocol=protocol, timeout_s=limit_s)
        try:
            with ProgressBar(case.key) as bar:
                return self._replicates(spec, _Shown(bar), local)
        except Unusable as gone:
            raise exits.Stop(f"The device cannot be used: {gone}", exits.Exit.FAILED) from gone

    def _replicates(
        self, spec: contracts.JobSpec, watch: _Shown, local: launch.Local
    ) -> contracts.Result:
        """Measure one process after another, until one fails; the later ones only for timing."""
        first_c = self._station.device.temperature_c()
        results = [self._runner.run(spec, watch, local=local)]
        while len(results) < spec.protocol.replicates and results[-1].status is contracts.Status.OK:
            number = len(results) + 1
            protocol = spec.protocol.of_replicate(number)
            later = spec.model_copy(update={"replicate": number, "protocol": protocol})
            if held := self._station.await_free(first_c, self._cool_limit_s, lambda: True):
                results.append(
                    result_builder.without_numbers(later, contracts.Status.INFRA_ERROR, held)
                )
            else:
                results.append(self._runner.run(later, watch, local=replace(local, trace=None)))
        run = result_builder.Run(spec, datetime.now(UTC), 0)
        return result_builder.sendable(run, lambda: merge(results))


class _Shown:
    """Shows progress to a person; only Ctrl-C ends the measurement."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar

    def cause(self) -> None:
        return None

    def left_s(self) -> float:
        return inf

    def tell(self, progress: contracts.Progress) -> None:
        self._bar.show(progress)

    def hear(self, text: bytes) -> None:
        self._bar.write(text)

    def keep(self, trace: bytes) -> None:
        """A trace is written to the file that was asked for."""


@contextmanager
def set_up(
    workload: str, device: str | None = None, data_root: Path | None = None, gpus: int = 1
) -> Iterator[LocalRunner]:
    """Set up on ``device``, which is the first GPU, or the CPU, unless one is named.

    Folders are removed at the end. Without an NVIDIA GPU nothing is watched.

    Args:
        workload: that is measured; a user's own model is allowed by being named.
        device: cpu, cuda or cuda:N.
        data_root: the user's own images or tokens.
        gpus: of a gang, from that device on.

    Raises:
        OSError: the folder cannot be made.
        Stop: no device is named, and whether there is a GPU cannot be told.
    """
    user_model = workload if catalog.is_user_model(workload) else ""
    requested = Settings(device=device or "auto", data_root=data_root, models=user_model)
    settings, gpu = _on_machine(requested.model_copy(update=UNLIKE_A_WORKER))
    settings = _with_gpus(settings, gpus)
    gauges = [nvml.open_gauge(one) for one in [gpu, *_beside(settings)]]
    try:
        contained = containment.choose(settings.containment, settings.device)[0]
        with workspace() as folder:
            if gpu is not None:
                settings = settings.model_copy(update=ON_A_GPU | {"state_dir": folder})
            local = launch.Local(folder, our_packages())
            station = supervisor.Station(settings, contained, gauges[0], beside=gauges[1:])
            yield LocalRunner(settings, station, local)
    except containment.Unavailable as error:
        raise exits.Stop(str(error)) from error
    finally:
        for gauge in filter(None, gauges):
            gauge.close()


def _on_machine(settings: Settings) -> tuple[Settings, nvml.Gpu | None]:
    """The settings with the chosen device, and its GPU if NVML knows it."""
    if settings.device == "cpu":
        return settings, None
    try:
        gpus = nvml.devices()
    except nvml.DriverFailed as failed:
        if settings.device == "auto":  # a CPU would be measured without a word
            sentence = f"{failed} To measure on the CPU all the same, choose --device cpu."
            raise exits.Stop(sentence, exits.Exit.FAILED) from failed
        return settings, None
    chosen = settings.on_machine(bool(gpus))
    return chosen, nvml.find(chosen.device, visible_devices(), gpus)


def _with_gpus(settings: Settings, gpus: int) -> Settings:
    """The settings with so many GPUs, from the chosen one on."""
    kind, _, first = settings.device.partition(":")
    if gpus == 1 or kind != "cuda":
        return settings
    numbers = range(int(first or 0), int(first or 0) + gpus)
    return settings.model_copy(update={"gpus": ",".join(map(str, numbers))})


def _beside(settings: Settings) -> list[nvml.Gpu | None]:
    """The GPUs after the first one; None: NVML does not know it."""
    others = settings.devices[1:]
    gpus = nvml.devices() if others else []
    return [nvml.find(device, visible_devices(), gpus) for device in others]


def read_protocol(text: str | None, base: contracts.Protocol | None = None) -> contracts.Protocol:
    """``base`` with the fields that ``text`` names as JSON.

    Raises:
        Stop: it is no Protocol; the sentence says which field is wrong.
    """
    base = base or contracts.Protocol()
    try:
        given = contracts.Protocol.model_validate_json(text or "{}")
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise exits.Stop(": ".join(filter(None, [place, fault["msg"]]))) from error
    return base.model_copy(update=given.model_dump(include=given.model_fields_set))
