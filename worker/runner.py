"""Runs one job: a fresh process of a case, or one of each revision of a pair, and the Result."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from benchmarks.contracts import Id, JobSpec, Result, Status
from benchmarks.diagnosis.paired import paired
from worker.ahead import Ahead
from worker.alone import Alone, run_of
from worker.child.workspace import Caches, workspace
from worker.launch import NO_WISHES, Launch, Local
from worker.pair import Pairs
from worker.result_builder import sendable, without_numbers
from worker.settings import Settings
from worker.supervisor import Interrupted, Station, Watch
from worker.targets import commands
from worker.targets.target import TargetAbsent, refused, target_of


class Runner:
    """Runs jobs at one station."""

    def __init__(self, settings: Settings, station: Station, ahead: Ahead | None = None) -> None:
        """Without ``ahead`` no process is started before its job."""
        self._settings = settings
        self.station = station
        self._caches = Caches(settings.folder / "caches")
        self._ahead = ahead or Ahead(station, wanted=lambda: False)
        self._alone = Alone(settings, station, self._ahead)
        self._pairs = Pairs(settings, self._alone, self._caches, self._ahead)

    def run(
        self, spec: JobSpec, watch: Watch, group: Id | None = None, local: Local = NO_WISHES
    ) -> Result:
        """Measure ``spec``; no process of any child is left when this returns or raises, except for
        those that wait for the next job.

        Args:
            spec: one replicate of a case.
            watch: may stop it.
            group: of the case's replicates, which share what they compile.
            local: the wishes of a person, for a job of no service.

        Raises:
            Interrupted: ``watch`` gave a cause.
            Unusable: the device cannot be used for any job.
        """
        if refusal := refused(spec.case.workload, self._settings.allowed_models):
            return without_numbers(spec, Status.UNSUPPORTED, refusal)
        measure = self._alone.measure if spec.duet is None else self._pairs.measure
        with commands.interrupted_by(partial(_look, watch)):
            try:
                with (
                    self._ahead.during(),
                    workspace(self.station.uses) as folder,
                    self._caches.of(group, spec) as kept,
                ):
                    caches = local.caches or kept
                    launch = self._launch(spec, folder, watch, caches, local)
                    run = run_of(spec, self._settings)
                    return sendable(run, measure(launch))
            except TargetAbsent as absent:
                return self._without_code(spec, absent)
            except OSError as error:
                return _not_run(spec, error)

    def _without_code(self, spec: JobSpec, absent: TargetAbsent) -> Result:
        """The result of a job whose code cannot be had; of a pair it says which side's."""
        if spec.duet is None or absent.status is not Status.UNBUILDABLE:
            return without_numbers(spec, absent.status, str(absent), absent.build_log)
        baseline, contender = spec.duet.baseline, spec.revision
        return paired(self._side(spec, baseline, contender), self._side(spec, contender, baseline))

    def _side(self, spec: JobSpec, revision: str, other: str) -> Result:
        """One side of a pair of which at least one side cannot be built."""
        try:
            target_of(self._settings, revision)
        except TargetAbsent as absent:
            return without_numbers(spec, absent.status, str(absent), absent.build_log)
        except OSError as error:
            return _not_run(spec, error)
        sentence = f"Not measured: the other revision of its pair, {other}, cannot be built."
        return without_numbers(spec, Status.INFRA_ERROR, sentence)

    def _launch(
        self,
        spec: JobSpec,
        folder: Path,
        watch: Watch,
        caches: Path | None,
        local: Local,
    ) -> Launch:
        target = target_of(self._settings, spec.revision)
        if spec.duet is not None:
            target_of(self._settings, spec.duet.baseline)
        # What was not there is built by now: that takes no time of the job's.
        until_s = min(time.monotonic() + spec.timeout_s, local.until_s)
        first_c = self.station.device.temperature_c()
        return Launch(spec, target, folder, until_s, watch, first_c, caches, local)


def _look(watch: Watch) -> None:
    if cause := watch.cause():
        raise Interrupted(cause)


def _not_run(spec: JobSpec, error: OSError) -> Result:
    sentence = f"This worker could not run the job: {error}. Check its disk and settings."
    return without_numbers(spec, Status.INFRA_ERROR, sentence)
