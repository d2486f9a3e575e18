"""Makes a Result from what a child left: the child's own, or one that says what went wrong.

Pure. Every failure has one sentence and the log's end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from benchmarks import contracts
from benchmarks.contracts.pins import contradiction
from benchmarks.exits import NO_DEVICE
from worker.child.guard import CANNOT_START
from worker.child.process import Ending, Exit, Limits, Written
from worker.child.resource_limits import Excess
from worker.outbox.trace import ENDED_BEFORE

STDOUT_TAIL_B = 2_048
REFUSED = 2
"""Exit code of a child that rejects its command line."""
_TOO_LARGE = "The child's Result is too large."
SCHEMA_VERSION: int = contracts.Result.model_fields["schema_version"].default
"""Of the Results that this version reads."""
_OF_A_VERSION = frozenset({"extra_forbidden", "missing", "enum", "literal_error"})
"""Kinds of pydantic errors that come from a document of another version."""
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True)
class Run:
    """One run of a job's process."""

    spec: contracts.JobSpec
    at: datetime
    """When it began."""
    tail_b: int


def result_of(
    run: Run, ending: Ending | Excess, left: Exit, limits: Limits, last: contracts.Progress | None
) -> contracts.Result:
    """The result of one child; never raises, whatever the child did."""
    tail = _tail_of(left.stderr, run.tail_b)
    if ending is not Ending.EXITED:
        if isinstance(ending, Excess):
            status, sentence = _greedy(run, ending, limits, last)
        else:
            status, sentence = _stopped(run, ending, limits, last)
        return failure(run, status, sentence, tail)
    if left.code == 0:
        return _printed(run, left, tail)
    status, sentence = _exited(left.code, _last_line(tail))
    return failure(run, status, sentence, tail)


def failure(run: Run, status: contracts.Status, sentence: str, tail: str = "") -> contracts.Result:
    """A result without numbers that says why."""
    return contracts.Result(
        case=run.spec.case,
        protocol=run.spec.protocol,
        environment=contracts.Environment(facts={}),
        trace_absent=ENDED_BEFORE if run.spec.protocol.trace else "",
        status=status,
        reason=contracts.line(sentence),
        log_tail=tail,
        measured_at=run.at,
    )


def computed(run: Run, compute: Callable[[], contracts.Result]) -> contracts.Result:
    """Return the Result that ``compute`` makes, or a failure with the reason why it cannot.

    A child's Result may be well-formed and absurd: a pass of no steps.
    """
    try:
        return compute()
    except (ValueError, ArithmeticError) as problem:
        why = _fault_of(problem) if isinstance(problem, ValidationError) else str(problem)
        sentence = f"Nothing can be made of what the child's Result says: {why}"
        return failure(run, contracts.Status.GARBAGE, sentence)


def sendable(run: Run, compute: Callable[[], contracts.Result]) -> contracts.Result:
    """Return what `computed` does, or a failure if the service would refuse it."""

    def checked() -> contracts.Result:
        result = compute()
        document = result.model_dump_json().encode()
        contracts.Result.model_validate_json(document)
        too_large = contracts.excess(result, document, run.spec.protocol.replicates)
        return (
            failure(run, contracts.Status.GARBAGE, f"{_TOO_LARGE} {too_large}")
            if too_large
            else result
        )

    return computed(run, checked)


def without_numbers(
    spec: contracts.JobSpec, status: contracts.Status, sentence: str, log: str = ""
) -> contracts.Result:
    """The result of a job that ended for a reason outside of its child."""
    return failure(Run(spec, datetime.now(UTC), 0), status, sentence, log)


def last_line(printed: bytes) -> bytes:
    """Return the last line: a child prints its answer there."""
    return printed.rstrip().rpartition(b"\n")[2]


def _tail_of(written: Written, limit_b: int) -> str:
    """The last ``limit_b`` bytes as text that every database accepts; a first line marks a cut."""
    marker = ""
    if written.total_b > limit_b:
        marker = f"[cut: the last {limit_b:,} of {written.total_b:,} bytes]\n"
    return marker + text_of(written.kept, limit_b)


def text_of(raw: bytes | bytearray, limit_b: int) -> str:
    """The last ``limit_b`` bytes of a log as text that every database accepts."""
    end = raw[-limit_b:]
    if len(raw) > limit_b:  # the cut may have gone through the middle of a character
        end = end.lstrip(bytes(range(0x80, 0xC0)))
    return end.replace(b"\0", b"").decode("utf-8", errors="replace").strip()


def last_words(written: Written) -> str:
    """The last line of a child's log, or that there is none."""
    return contracts.line(_last_line(_tail_of(written, STDOUT_TAIL_B))) or "it said nothing"


def _where(run: Run, last: contracts.Progress | None) -> str:
    where = f"replicate {run.spec.replicate} of {run.spec.protocol.replicates}"
    if last is not None:
        where += f", phase {last.phase}, step {last.step}"
    return where


def _greedy(
    run: Run, excess: Excess, limits: Limits, last: contracts.Progress | None
) -> tuple[contracts.Status, str]:
    """Status and sentence for a child that took too much of its machine."""
    where, allowance = _where(run, last), limits.allowance
    if excess is Excess.PROCESSES:
        return contracts.Status.RUNTIME_ERROR, (
            f"The child had more than {allowance.processes} processes ({where}) and was stopped: "
            "start fewer, or raise THROUGHLINE_PROCESSES_LIMIT."
        )
    if excess is Excess.TEMPORARY:
        return contracts.Status.RUNTIME_ERROR, (
            f"The child kept more than {allowance.temporary_b / 2**20:g} MiB or too many files in "
            f"its temporary folder ({where}) and was stopped: write less, or raise "
            "THROUGHLINE_TEMP_LIMIT_B."
        )
    return contracts.Status.INFRA_ERROR, (
        f"Less than {allowance.reserve_b / 2**20:g} MiB was left on the disk for temporary files "
        f"({where}), so the child was stopped: make room there."
    )


def _stopped(
    run: Run, ending: Ending, limits: Limits, last: contracts.Progress | None
) -> tuple[contracts.Status, str]:
    where = _where(run, last)
    if ending is Ending.SILENT:
        return contracts.Status.TIMEOUT, (
            f"The child gave no sign of life for {limits.silence_s:g} s ({where}) and was killed: "
            "it hangs; see the end of its log."
        )
    if ending is Ending.OVERTIME:
        return contracts.Status.TIMEOUT, (
            f"The job ran past its limit of {run.spec.timeout_s:g} s ({where}) and was killed: "
            "raise timeout_s, or ask for fewer replicates."
        )
    return contracts.Status.GARBAGE, (
        f"The child wrote more than {limits.output_b / 2**20:g} MiB of output ({where}) and was "
        "stopped: make the workload print less."
    )


def _exited(code: int | None, said: str) -> tuple[contracts.Status, str]:
    """Status and sentence for an exit other than 0."""
    if code is None:
        return (
            contracts.Status.CRASHED,
            "The child cannot be killed: the device or its driver is stuck.",
        )
    if code < 0:
        return contracts.Status.CRASHED, _killed(-code)
    said = said or "it said nothing"
    if code == REFUSED:
        return contracts.Status.UNSUPPORTED, f"The child refused the case: {said}"
    if code == NO_DEVICE:
        return (
            contracts.Status.INFRA_ERROR,
            f"The child cannot use the device, though this worker can: {said}",
        )
    if code == CANNOT_START:
        return contracts.Status.INFRA_ERROR, f"The child could not be started: {said}"
    return contracts.Status.RUNTIME_ERROR, f"The child ended with exit code {code}: {said}"


def _killed(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        name = f"signal {number}"
    if number == signal.SIGKILL:
        return (
            f"The child was killed by {name}, most likely by the kernel's out-of-memory killer: "
            "use fewer loader workers or a machine with more memory."
        )
    return f"The child died by {name}; see the end of its log."


def _printed(run: Run, left: Exit, tail: str) -> contracts.Result:
    try:
        result = contracts.Result.model_validate_json(last_line(left.stdout.kept))
    except ValidationError as problem:
        printed = _tail_of(left.stdout, STDOUT_TAIL_B) or "(nothing)"
        log = f"{tail}\n--- end of standard output ---\n{printed}"
        status, sentence = _unreadable(left.stdout.kept, problem)
        if status is contracts.Status.INFRA_ERROR:
            log += f"\n--- what this worker does not know of it ---\n{_fault_of(problem)}"
        return failure(run, status, sentence, log.strip())
    if too_large := contracts.excess(
        result, last_line(left.stdout.kept), run.spec.protocol.replicates
    ):
        return failure(run, contracts.Status.GARBAGE, f"{_TOO_LARGE} {too_large}", tail)
    if result.samples and (wrong := contradiction(run.spec.revision, result.environment.facts)):
        return failure(run, contracts.Status.INFRA_ERROR, wrong, tail)
    if result.status is contracts.Status.OK or result.log_tail:
        return result
    return result.model_copy(update={"log_tail": tail})


class _AnyResult(BaseModel):
    """The fields that the Results of all versions have in common."""

    schema_version: int = SCHEMA_VERSION
    case: dict[str, object]
    status: str


def _unreadable(printed: bytes, problem: ValidationError) -> tuple[contracts.Status, str]:
    """Status and sentence for a last line that is no Result of this version.

    A worker keeps its code from its start, and each child reads the code on disk. After an update
    in place their versions differ: in names of fields, and in the choices of a field. A wrong value
    is the child's fault.
    """
    try:
        envelope = _AnyResult.model_validate_json(last_line(printed))
    except ValidationError as error:
        return contracts.Status.GARBAGE, _no_result(error)
    kinds = {fault["type"] for fault in problem.errors(include_url=False, include_input=False)}
    if envelope.schema_version == SCHEMA_VERSION and not kinds & _OF_A_VERSION:
        return contracts.Status.GARBAGE, _fault_of(problem)
    return contracts.Status.INFRA_ERROR, (
        "The child's Result is of another version of Throughline than this worker: restart the "
        "worker if its code was updated meanwhile."
    )


def _fault_of(problem: ValidationError) -> str:
    """One sentence that says what is wrong with what a process printed, and where."""
    faults = problem.errors(include_url=False)
    fault = faults[0]
    place = _place(fault)
    if not place:
        return _no_result(problem)
    complaint = f"is wrong at {place}: {fault['msg']}"
    if fault["type"] == "finite_number":
        complaint = f"has {_NOT_FINITE[str(fault['input'])]} at {place}"
    more = f" (the first of {len(faults)} faults)" if len(faults) > 1 else ""
    return contracts.line(f"The Result that the process printed {complaint}{more}.")


def _no_result(problem: ValidationError) -> str:
    fault = problem.errors(include_url=False)[0]
    why = ": ".join(filter(None, [_place(fault), fault["msg"]]))
    return contracts.line(
        f"The child ended well, but the last line that it printed is no Result ({why})."
    )


def _place(fault: ErrorDetails) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
    return "".join(parts).removeprefix(".")


def _last_line(text: str) -> str:
    return text.rpartition("\n")[2]
