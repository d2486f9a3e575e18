"""The processes of a case in pairs, and why a case cannot be compared."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field, FiniteFloat

from benchmarks import contracts
from benchmarks.contracts.pins import FACTS
from benchmarks.diagnosis import disturbances
from benchmarks.diagnosis.paired import ONE_AFTER_THE_OTHER
from service.analysis.gate.noise import KnownNoise
from service.analysis.statement import Statement
from service.schemas.gate import CaseVerdict, Side

PositiveFiniteFloat = Annotated[FiniteFloat, Field(gt=0)]
CYCLES = "cycles"
"""SM clock cycles of a FULL step: mean step time times mean SM clock, where telemetry has one."""
PARITY = "parity_fail"
"""A result with this flag (or one that ends so, or with a status of this name) computed something
else than it should, however fast."""


class Trouble(StrEnum):
    """The reason why a process gave nothing to compare."""

    FAILED = "failed"
    """It could not do the case: out of memory, a crash, an error, a hang."""
    UNSUPPORTED = "unsupported"
    UNBUILDABLE = "unbuildable"
    """Its commit cannot be built: that says nothing of its speed, good or bad."""
    PARITY = "parity"
    MISSING = "missing"
    """Nothing is known of the revision: an attempt was lost, cancelled, or the worker at fault."""
    DISTURBED = "disturbed"
    """It has numbers, and its device was disturbed meanwhile: they count for nothing."""


_NOT_ITS_FAULT = (contracts.Status.INFRA_ERROR, contracts.Status.CANCELLED)


class Metric(contracts.Contract):
    """One metric of one process."""

    value: FiniteFloat
    unit: contracts.Line
    direction: contracts.Direction


class Timed(contracts.Contract):
    """One window of a side that was measured in turn with the other."""

    step_s: PositiveFiniteFloat
    sm_clock_hz: PositiveFiniteFloat | None = None


class Measured(contracts.Contract):
    """One process of one side of one case."""

    trouble: Trouble | None = None
    reason: contracts.Line = ""
    case_key: str = ""
    """As measured, the preset resolved; empty if nothing was."""
    metrics: dict[str, Metric] = Field(default_factory=dict)
    device: contracts.Line = ""
    """UUID of the GPU, else the host's name."""
    comparability: dict[str, str] = Field(default_factory=dict)
    software: contracts.Line = ""
    """Digest of the software facts: equal digests ran the same code."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Versions of the packages that a revision may name."""
    turns: tuple[Timed, ...] = ()
    """Empty where it had the device to itself."""
    alone: bool = False
    """It was to be measured in turn with the other side, and could not be."""

    @classmethod
    def of(cls, result: contracts.Result) -> Measured:
        """Take what matters out of a result."""
        trouble, reason = _trouble(result)
        facts = result.environment.facts
        return cls(
            trouble=trouble,
            reason=reason,
            case_key=result.case.key if result.status is contracts.Status.OK else "",
            metrics={} if trouble is Trouble.DISTURBED else _metrics(result),
            device=facts.get("hw.gpu.uuid") or facts.get("hw.host", ""),
            comparability=result.environment.comparability(),
            software=software_of(facts),
            packages={name: facts[fact] for name, fact in FACTS.items() if fact in facts},
            turns=() if trouble is Trouble.DISTURBED else _turns(result),
            alone=ONE_AFTER_THE_OTHER in result.flags,
        )

    @classmethod
    def missing(cls, reason: str) -> Measured:
        """Make the record of a job that ended without a result."""
        return cls(trouble=Trouble.MISSING, reason=reason)


def side_of(result: contracts.Result, side: Side) -> contracts.Result:
    """Give one side's result out of that of its job, which may have measured both sides."""
    return result.baseline or result if side is Side.BASELINE else result


class Pair(contracts.Contract):
    """One process of each side, right after each other; a side is None until it has ended."""

    baseline: Measured | None = None
    contender: Measured | None = None

    @property
    def whole(self) -> bool:
        """Return True if both sides have numbers."""
        return all(side is not None and side.trouble is None for side in self.sides)

    @property
    def sides(self) -> tuple[Measured | None, Measured | None]:
        """Baseline, contender."""
        return self.baseline, self.contender


class CaseRecord(contracts.Contract):
    """All pairs of one case so far, in the order in which they were begun."""

    case_key: str
    pairs: tuple[Pair, ...] = ()
    one_revision: bool = False
    """Both sides are the same revision on purpose: a check of the set-up."""
    known: KnownNoise = KnownNoise()
    """Noise between its pairs, pooled from earlier gates."""
    is_step: bool = False
    """Its reading serves something larger, which a wide one serves better than none: no pair that
    is permitted is spared."""

    def side(self, side: Side) -> list[Measured]:
        """List the records of one side."""
        sides = [getattr(pair, side.value) for pair in self.pairs]
        return [process for process in sides if process is not None]

    @property
    def whole(self) -> list[Pair]:
        """The pairs that can be compared."""
        return [pair for pair in self.pairs if pair.whole]

    @property
    def disturbed(self) -> int:
        """The number of pairs that count for nothing because a device was disturbed."""
        troubles_of_pairs = ([side and side.trouble for side in pair.sides] for pair in self.pairs)
        return sum(Trouble.DISTURBED in troubles for troubles in troubles_of_pairs)


def _trouble(result: contracts.Result) -> tuple[Trouble | None, str]:
    """Return why a result gives nothing to compare (None if it does), and a sentence about it."""
    flags = disturbances.every(result)
    wrong = any(flag == PARITY or flag.endswith(f".{PARITY}") for flag in flags)
    if wrong or result.status.value == PARITY:
        return Trouble.PARITY, result.reason
    if result.status is contracts.Status.UNSUPPORTED:
        return Trouble.UNSUPPORTED, result.reason
    if result.status is contracts.Status.UNBUILDABLE:
        return Trouble.UNBUILDABLE, result.reason
    disturbed = ", ".join(disturbances.disturbances(result))
    if result.status is contracts.Status.OK:
        return (
            (Trouble.DISTURBED, contracts.line(disturbed)) if disturbed else (None, result.reason)
        )
    if disturbed:  # it may have lacked what somebody else held
        why = f"On a disturbed device ({disturbed}): {result.reason}"
        return Trouble.MISSING, contracts.line(why)
    missing = result.status in _NOT_ITS_FAULT
    return Trouble.MISSING if missing else Trouble.FAILED, result.reason


def _metrics(result: contracts.Result) -> dict[str, Metric]:
    if result.status is not contracts.Status.OK:
        return {}
    by_metric = {sample.metric: _metric(sample) for sample in result.samples}
    step, clock = by_metric.get("step_time"), by_metric.get("sm_clock")
    if step is not None and clock is not None and math.isfinite(step.value * clock.value):
        value = step.value * clock.value
        by_metric[CYCLES] = Metric(value=value, unit="1", direction=contracts.Direction.LOWER)
    return by_metric


def _turns(result: contracts.Result) -> tuple[Timed, ...]:
    return tuple(
        Timed(step_s=turn.step_s, sm_clock_hz=turn.sm_clock_hz or None) for turn in result.turns
    )


def _metric(sample: contracts.Sample) -> Metric:
    # Divided first, so that huge values cannot overflow the sum.
    value = math.fsum(value / len(sample.values) for value in sample.values)
    return Metric(value=value, unit=sample.unit, direction=sample.direction)


def software_of(facts: Mapping[str, str]) -> str:
    """A digest of the software facts: equal ones ran the same code; empty if none is recorded."""
    software = {name: fact for name, fact in facts.items() if name.startswith("sw.")}
    if not software:
        return ""
    return hashlib.sha256(json.dumps(software, sort_keys=True).encode()).hexdigest()[:16]


Obstacle = tuple[CaseVerdict, Statement]
_DID_IT = (None, Trouble.DISTURBED)
"""A process on a disturbed device did the case as well; only its numbers do not count."""
FAILURES = 2
"""One failure may be an accident of the machine, and its pair is measured again; two are not."""


def trouble_of(record: CaseRecord) -> Obstacle | None:
    """Return the verdict and the reason why the case cannot be compared; None if it can."""
    before, after = record.side(Side.BASELINE), record.side(Side.CONTENDER)
    if not record.one_revision and (same_code := _same_code(before, after)):
        return same_code
    if wrong := _first(after, Trouble.PARITY):
        return CaseVerdict.PARITY, _because("contender_fails_parity", wrong)
    if wrong := _first(before, Trouble.PARITY):
        return CaseVerdict.FAILED, _because("baseline_fails_parity", wrong)
    return (
        _unbuildable(before, after)
        or _unsupported(before, after)
        or _failed(before, after)
        or _missing(before, "baseline")
        or _missing(after, "contender")
        or _foreign(before, after)
    )


def _same_code(before: list[Measured], after: list[Measured]) -> Obstacle | None:
    """Two names for one code are nothing to compare, and neither is code that nobody knows."""
    if shared := {run.software for run in before} & {run.software for run in after} - {""}:
        ran = [process for process in (*before, *after) if process.software]
        everywhere = len({process.software for process in ran}) == len(shared)
        kind = "same_code" if everywhere else "same_code_in_some"
        return CaseVerdict.SAME_CODE, Statement.of(kind)
    if any(not process.software for process in (*before, *after) if process.trouble is None):
        return CaseVerdict.SAME_CODE, Statement.of("software_unknown")
    return None


def _unbuildable(before: list[Measured], after: list[Measured]) -> Obstacle | None:
    """Give up at the first build that failed: the next one fails the same way."""
    old, new = _first(before, Trouble.UNBUILDABLE), _first(after, Trouble.UNBUILDABLE)
    if new:
        return CaseVerdict.UNBUILDABLE, _because("contender_unbuildable", new)
    if old:
        return CaseVerdict.UNBUILDABLE, _because("baseline_unbuildable", old)
    return None


def _unsupported(before: list[Measured], after: list[Measured]) -> Obstacle | None:
    old, new = _first(before, Trouble.UNSUPPORTED), _first(after, Trouble.UNSUPPORTED)
    if old and new:
        return CaseVerdict.UNSUPPORTED, _because("neither_supports", new)
    if new and _any_good(before):
        return CaseVerdict.BROKEN, _because("contender_unsupported", new)
    if old and _any_good(after):
        return CaseVerdict.FAILED, _because("baseline_unsupported", old)
    return None


def _failed(before: list[Measured], after: list[Measured]) -> Obstacle | None:
    # A process that gave nothing by the machine's fault says nothing of its revision.
    old, new = _failures(before), _failures(after)
    if max(len(old), len(new)) < FAILURES:
        return None
    crashed = [process for process in new if process.trouble is Trouble.FAILED]
    if len(crashed) >= FAILURES and _any_good(before) and not old:
        return CaseVerdict.BROKEN, _because("contender_broken", crashed[-1])
    kind = "both_failed" if old and new else "baseline_failed" if old else "contender_failed"
    return CaseVerdict.FAILED, _because(kind, (old or new)[-1])


def _failures(side: list[Measured]) -> list[Measured]:
    return [process for process in side if process.trouble not in (*_DID_IT, Trouble.MISSING)]


def _missing(side: list[Measured], name: str) -> Obstacle | None:
    """Give a side up that the machine mostly kept from being measured; else measure on."""
    gone = [process for process in side if process.trouble is Trouble.MISSING]
    good = sum(process.trouble in _DID_IT for process in side)
    if len(gone) < FAILURES or len(gone) <= good:
        return None
    kind, counts = (
        ("few_results", {"gone": len(gone), "of": len(side)}) if good else ("no_result", {})
    )
    return CaseVerdict.MISSING, _because(kind, gone[-1], side=name, **counts)


def _foreign(before: list[Measured], after: list[Measured]) -> Obstacle | None:
    good = [process for process in (*before, *after) if process.trouble is None]
    if len({process.device for process in good}) > 1:
        return CaseVerdict.FOREIGN, Statement.of("several_devices")
    if any(process.comparability != good[0].comparability for process in good):
        return CaseVerdict.FOREIGN, Statement.of("several_hardware")
    return None


def _first(side: list[Measured], trouble: Trouble) -> Measured | None:
    return next((process for process in side if process.trouble is trouble), None)


def _any_good(side: list[Measured]) -> bool:
    return any(process.trouble in _DID_IT for process in side)


def _because(kind: str, process: Measured, **facts: str | int) -> Statement:
    return Statement.of(kind, reason=process.reason.rstrip(), **facts)
