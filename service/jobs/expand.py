"""The jobs that a request means; names and combinations are checked, nothing is read or stored."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.catalog import catalog, precision_tiers, suites
from benchmarks.contracts import Case, JobSpec, Protocol
from benchmarks.contracts.pins import needed_by
from service.database.session import check_time
from service.jobs.requests import SubmissionRequest
from service.schemas.errors import Impossible, Invalid, UnknownChoice

MOST_JOBS = 2_000
"""Of a submission: they are stored in one transaction, which others wait for."""


def expand(request: SubmissionRequest, likely: str | None = None) -> tuple[JobSpec, ...]:
    """What ``request`` means, a spec a case, every name checked and every case in its normal form.

    A suite runs as far as it can: the cases that its device refuses are left out.

    Args:
        request: what is asked for.
        likely: ``cuda`` or ``cpu``, where ``requires`` leaves the device open and all workers that
            were seen lately have this one.

    Raises:
        UnknownChoice: a name that the catalog does not have.
        Impossible: a combination that cannot run; or no case of a suite can.
        Invalid: too many jobs at once.
    """
    try:
        suite = suites.suite(request.suite) if request.suite is not None else None
        device = None if suite else _device(request.requires)
        cases = [catalog.normalise(case, device) for case in _asked(request, suite)]
        if suite is not None:
            cases = _possible(suite, cases, _device(request.requires), likely)
    except catalog.UnknownName as error:
        raise UnknownChoice(str(error)) from error
    except catalog.Refused as error:
        raise Impossible(str(error)) from error
    if request.revision_at is not None:
        check_time("revision_at", request.revision_at)
    protocol = _protocol(request, suite)
    if len(cases) * protocol.replicates > MOST_JOBS:
        raise Invalid(
            f"{len(cases)} cases of {protocol.replicates} replicates are more than {MOST_JOBS:,} "
            "jobs; submit some of them, then the others."
        )
    return tuple(
        JobSpec(
            case=case,
            revision=request.revision,
            revision_at=request.revision_at,
            protocol=protocol,
            suite=request.suite,
            purpose=request.aim,
            requires=request.requires | needed_by(request.revision),
            priority=request.priority,
            timeout_s=request.timeout_s,
            rerun_of=request.rerun_of,
        )
        for case in cases
    )


def left_out(request: SubmissionRequest, queued: int) -> int:
    """Count the cases of the requested suite that were not queued."""
    if request.suite is None:
        return 0
    return max(0, len(_picked(suites.suite(request.suite), request.only)) - queued)


def _protocol(request: SubmissionRequest, suite: suites.Suite | None) -> Protocol:
    # No point of a kernel's history before its numbers are known to be eager's.
    own_kernel = any("kernel" in case.axes for case in _asked(request, suite))
    usual = suite.protocol if suite else Protocol(efficiency=True, parity=own_kernel)
    protocol = request.protocol or usual
    if request.tier is not None:
        protocol = precision_tiers.timed(request.tier, protocol)
    if request.replicates is not None:
        protocol = protocol.model_copy(update={"replicates": request.replicates})
    if request.trace or protocol.trace:
        protocol = protocol.model_copy(update={"trace": True, "profile": True})
    return protocol


def _asked(request: SubmissionRequest, suite: suites.Suite | None) -> Sequence[Case]:
    if suite is not None:
        return _picked(suite, request.only)
    return request.cases if request.case is None else (request.case,)


def _picked(suite: suites.Suite, only: Sequence[str]) -> Sequence[Case]:
    workloads = tuple(dict.fromkeys(case.workload for case in suite.cases))
    if strange := [name for name in only if name not in workloads]:
        raise UnknownChoice(
            f"The suite {suite.name!r} has no workload {strange[0]!r}; "
            f"choose from: {', '.join(workloads)}."
        )
    return [case for case in suite.cases if not only or case.workload in only]


def _possible(
    suite: suites.Suite, cases: list[Case], required: str | None, likely: str | None
) -> list[Case]:
    """Those of a suite's cases that can run; which device that is may not be known."""
    device = required or likely
    kept = [case for case in cases if device is None or not _refused(case, device)]
    if kept or required is None:  # another device may come for what none can do yet
        return kept or cases
    raise Impossible(f"No case of the suite {suite.name!r} can run on device={required}.")


def _refused(case: Case, device: str) -> bool:
    try:
        catalog.normalise(case, device)
    except catalog.Refused:
        return True
    return False


def _device(requires: dict[str, str]) -> str | None:
    device = requires.get("device")
    return device if device in ("cuda", "cpu") else None
