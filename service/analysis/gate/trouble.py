"""Finds why a case cannot be compared: what failed, what is missing, or which devices differ."""

from __future__ import annotations

from service.analysis.gate.pairs import CaseRecord, Measured, Trouble
from service.analysis.statement import Statement, state
from service.schemas.gate import CaseVerdict, Side

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
        _unsupported(before, after)
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
        return CaseVerdict.SAME_CODE, state("same_code" if everywhere else "same_code_in_some")
    if any(not process.software for process in (*before, *after) if process.trouble is None):
        return CaseVerdict.SAME_CODE, state("software_unknown")
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
        return CaseVerdict.FOREIGN, state("several_devices")
    if any(process.comparability != good[0].comparability for process in good):
        return CaseVerdict.FOREIGN, state("several_hardware")
    return None


def _first(side: list[Measured], trouble: Trouble) -> Measured | None:
    return next((process for process in side if process.trouble is trouble), None)


def _any_good(side: list[Measured]) -> bool:
    return any(process.trouble in _DID_IT for process in side)


def _because(kind: str, process: Measured, **facts: str | int) -> Statement:
    return state(kind, reason=process.reason.rstrip(), **facts)
