"""Words for the fastest case of a workload, those as good, and the case that it overtook."""

from __future__ import annotations

from typing import Any

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from service.schemas.best import BestCase
from service.schemas.series import Ratio
from service.wording import formats
from service.wording.headline import HEADLINE_WORDS

NAMED = 2
"""Cases as good that are named; of more the number is told."""


def case_name(case: Case) -> str:
    """Name a case by what it sets: ``compile=default precision=bf16``, or ``all defaults``."""
    settings = (f"{axis}={value}" for axis, value in sorted(case.axes.items()))
    return " ".join(settings) or "all defaults"


def beside(best: Case, other: Case) -> str:
    """Name a case by what it sets otherwise than the best: ``compile=off and workers=2``."""
    if not other.axes:
        return "all defaults"
    differing = sorted(dict(best.axes.items() ^ other.axes.items()))
    settings = catalog.settings(other) | other.axes
    return " and ".join(f"{axis}={settings.get(axis, 'default')}" for axis in differing)


def overtook(best: BestCase) -> str:
    """Say which case was overtaken, since when and by how much; empty if none was."""
    if best.overtaken is None:
        return ""
    told = best.overtaken
    return (
        f"Overtook the case with {beside(best.best.case, told.before.case)} at "
        f"{formats.revision(told.since_revision)}, measured {formats.moment(told.since)}: "
        f"{faster_by(told.faster)}."
    )


def sentence(**facts: Any) -> str:
    """Say which case is the fastest now, since when, by how much, and how both changed."""
    between = _between(Ratio(facts["faster"], facts["low"], facts["high"]))
    gained = facts["gained"]
    newer = "was not measured before" if gained is None else _moved(gained)
    return (
        f"In {facts.get('days', 14)} days the case with {facts['other']}, until then the fastest "
        f"of {facts['workload']} on {formats.device(facts['device'])}, {_moved(facts['lost'])}, "
        f"the case with {facts['ahead']} {newer}. Since {formats.revision(facts['since'])} the "
        f"latter leads, by {formats.size(facts['faster'] - 1)}{f' ({between})' if between else ''}."
    )


def headline(**facts: Any) -> str:
    """Say in under twelve words which case leads, or that the leading one lost; names the case
    where there is room."""
    since = formats.revision(facts["since"])
    workload, gained, lost = facts["workload"], facts["gained"], facts["lost"]
    if lost < 0 and gained is not None and gained <= 0:
        return f"{workload}: fastest case {_moved(lost)}, another one leads since {since}"
    whole = f"{workload} is fastest with {facts['ahead'].replace(' and ', ' ')} since {since}"
    fits = len(whole.split()) < HEADLINE_WORDS
    return whole if fits else f"{workload}: another case is the fastest since {since}"


def _moved(change: float) -> str:
    return f"{'gained' if change >= 0 else 'lost'} {formats.size(change)}"


def faster_by(ratio: Ratio) -> str:
    """Write a ratio above 1: ``4.1 % faster (95 % interval +3.0 % to +5.2 %)``."""
    said = f"{formats.size(ratio.value - 1)} faster"
    between = _between(ratio)
    return f"{said} (95{formats.NBSP}% interval {between})" if between else said


def _between(ratio: Ratio) -> str:
    """Write the ends of a ratio's interval as changes: ``+3.0 % to +5.2 %``; empty if unknown."""
    if ratio.low is None or ratio.high is None:
        return ""
    return f"{formats.change(ratio.low - 1)} to {formats.change(ratio.high - 1)}"


def as_good(best: BestCase) -> str:
    """Name cases as good as the best, or how many; empty if there is none."""
    if len(best.as_good) > NAMED:
        return formats.counted(len(best.as_good), "case")
    return "; ".join(f"with {beside(best.best.case, one.case)}" for one in best.as_good)
