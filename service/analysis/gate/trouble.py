"""Finds why a case cannot be compared: what failed, what is missing, or which devices differ."""

from __future__ import annotations

from service.analysis.gate.pairs import CaseRecord, Measured, Side, Trouble
from service.analysis.gate.sentences import CaseVerdict

_DID_IT = (None, Trouble.DISTURBED)
"""A process on a disturbed device did the case as well; only its numbers do not count."""
FAILURES = 2
"""One failure may be an accident of the machine, and its pair is measured again; two are not."""


def trouble_of(record: CaseRecord) -> tuple[CaseVerdict, str] | None:
    """Return the verdict and the reason why the case cannot be compared; None if it can."""
    before, after = record.side(Side.BASELINE), record.side(Side.CONTENDER)
    if not record.one_revision and (same_code := _same_code(before, after)):
        return same_code
    if wrong := _first(after, Trouble.PARITY):
        return CaseVerdict.PARITY, _because("The contender fails parity", wrong)
    if wrong := _first(before, Trouble.PARITY):
        return CaseVerdict.FAILED, _because(
            "The baseline fails parity, so it is no reference", wrong
        )
    return (
        _unsupported(before, after)
        or _failed(before, after)
        or _missing(before, "baseline")
        or _missing(after, "contender")
        or _foreign(before, after)
    )


def _same_code(before: list[Measured], after: list[Measured]) -> tuple[CaseVerdict, str] | None:
    """Two names for one code are nothing to compare, and neither is code that nobody knows."""
    if shared := {each.software for each in before} & {each.software for each in after} - {""}:
        ran = [each for each in (*before, *after) if each.software]
        some = "" if len({each.software for each in ran}) == len(shared) else " in some processes"
        return CaseVerdict.SAME_CODE, (
            f"Both revisions ran the same code and software{some}, so nothing was compared. If "
            "they differ in what is measured, deploy a checkout of each to the worker and set "
            "THROUGHLINE_WORKER_TARGET there."
        )
    if any(not each.software for each in (*before, *after) if each.trouble is None):
        return CaseVerdict.SAME_CODE, (
            "The results do not say which software ran, so nobody knows whether two revisions "
            "were compared."
        )
    return None


def _unsupported(before: list[Measured], after: list[Measured]) -> tuple[CaseVerdict, str] | None:
    old, new = _first(before, Trouble.UNSUPPORTED), _first(after, Trouble.UNSUPPORTED)
    if old and new:
        return CaseVerdict.UNSUPPORTED, _because("Neither revision supports it here", new)
    if new and _any_good(before):
        return CaseVerdict.BROKEN, _because(
            "The contender does not support what the baseline does", new
        )
    if old and _any_good(after):
        return CaseVerdict.FAILED, _because("The baseline does not support it", old)
    return None


def _failed(before: list[Measured], after: list[Measured]) -> tuple[CaseVerdict, str] | None:
    # A process that gave nothing by the machine's fault says nothing of its revision.
    old, new = _failures(before), _failures(after)
    if max(len(old), len(new)) < FAILURES:
        return None
    crashed = [each for each in new if each.trouble is Trouble.FAILED]
    if len(crashed) >= FAILURES and _any_good(before) and not old:
        return CaseVerdict.BROKEN, _because(
            "The contender fails and the baseline does not", crashed[-1]
        )
    one = "The baseline" if old else "The contender"
    which = "Both sides" if old and new else one
    return CaseVerdict.FAILED, _because(f"{which} failed", (old or new)[-1])


def _failures(side: list[Measured]) -> list[Measured]:
    return [each for each in side if each.trouble not in (*_DID_IT, Trouble.MISSING)]


def _missing(side: list[Measured], name: str) -> tuple[CaseVerdict, str] | None:
    """Give a side up that the machine mostly kept from being measured; else measure on."""
    gone = [each for each in side if each.trouble is Trouble.MISSING]
    good = sum(each.trouble in _DID_IT for each in side)
    if len(gone) < FAILURES or len(gone) <= good:
        return None
    how_often = f" in {len(gone)} of {len(side)} processes" if good else ""
    return CaseVerdict.MISSING, _because(f"No result of the {name}{how_often}", gone[-1])


def _foreign(before: list[Measured], after: list[Measured]) -> tuple[CaseVerdict, str] | None:
    good = [each for each in (*before, *after) if each.trouble is None]
    if len({each.device for each in good}) > 1:
        return CaseVerdict.FOREIGN, "Not measured on one device, so there is nothing to compare."
    if any(each.comparability != good[0].comparability for each in good):
        return (
            CaseVerdict.FOREIGN,
            "Not measured on the same hardware and data: nothing to compare.",
        )
    return None


def _first(side: list[Measured], trouble: Trouble) -> Measured | None:
    return next((each for each in side if each.trouble is trouble), None)


def _any_good(side: list[Measured]) -> bool:
    return any(each.trouble in _DID_IT for each in side)


def _because(what: str, which: Measured) -> str:
    reason = which.reason.rstrip()
    return f"{what}: {reason}" if reason else f"{what}."
