"""Words for the subject, the extent and the headline of a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.catalog.metrics import RATES
from benchmarks.contracts import Status
from service.analysis.attribution import factors
from service.analysis.statement import Statement
from service.wording import formats, quantity_names

HEADLINE_WORDS = 12
"""Below which a headline stays."""
ALIKE = 1.25
"""Sizes that differ by no more than this factor are told as one."""
_FAILS = {
    Status.UNSUPPORTED: "is unsupported",
    Status.OOM: "runs out of device memory",
    Status.UNBUILDABLE: "cannot be built",
    Status.COMPILE_ERROR: "fails to compile",
    Status.RUNTIME_ERROR: "ends with an error",
    Status.PARITY_FAIL: "fails parity with eager fp32",
    Status.CRASHED: "crashes",
    Status.GARBAGE: "ends without a result",
    Status.TIMEOUT: "times out",
}
_PLURAL = {
    "is": "are",
    "runs": "run",
    "fails": "fail",
    "ends": "end",
    "crashes": "crash",
    "times": "time",
}
_PLACES = {"hardware": "on", "preset": "at preset"}
_ADJECTIVES = {("compile", factors.ANY): "compiled", ("compile", None): "uncompiled"}
"""Adjectives for conditions; a precision is its own."""


def short(headline: Statement, with_it: str = "") -> str:
    """A headline in under twelve words: of a case with many settings, it leaves out since when, or
    names only those that tell the case apart.

    Of several, it names their number where their settings are too many words, and of their sizes
    the middle one where the range is too many. ``with_it`` is a fact
    of the environment that changed at the same point, and is named where there is room.
    """
    whole = _short(headline)
    longer = f"{whole}, when {with_it} changed"
    return longer if with_it and len(longer.split()) < HEADLINE_WORDS else whole


def _short(headline: Statement) -> str:
    facts: Mapping[str, Any] = headline.facts
    cells: Mapping[str, Any] = facts["cells"].facts
    alone = bool(cells["case"]) and not cells["others"]
    tellings = [("", True)]
    if alone:
        tellings.append(("", False))
    if alone and cells["conditions"]:
        named = {**cells, "case": "", "workload": f"{cells['workload']} case"}
        tellings.append((f"the {subject_of(Statement('cells', named))}", True))
    for subject, since in tellings:
        whole = headline_words(headline, verb="", subject=subject, since=since)
        if len(whole.split()) < HEADLINE_WORDS:
            return whole
    count = formats.counted(cells["moved"] + cells["others"], "case")
    several = f"{cells['workload'] or _several(cells)} ({count})"
    middle = Statement(headline.kind, {**facts, "alike": True})
    for said, since in ((headline, True), (middle, True), (middle, False)):
        whole = headline_words(said, verb="", subject=several, since=since)
        if len(whole.split()) < HEADLINE_WORDS:
            break
    return whole


def headline_words(headline: Statement, verb: str, subject: str = "", *, since: bool = True) -> str:
    """``bf16 training is 2.0 % slower since r14``, with ``verb`` after the subject."""
    facts: Mapping[str, Any] = headline.facts
    subject = subject or subject_of(facts["cells"])
    begin = f" since {formats.revision(facts['first_bad'])}" if since else ""
    if headline.kind == "failure":
        cells = facts["cells"].facts
        verb, *rest = _FAILS[facts["status"]].split()
        if cells["case"] and cells["others"] and "(" not in subject:
            verb = _PLURAL.get(verb, verb)
        return f"{subject} {' '.join([verb, *rest])}{begin}"
    metric_name, most = facts["metric"], facts["most"]
    sizes = [formats.size(facts[name]) for name in ("least", "middle", "most")]
    close = facts["alike"] or abs(most) <= ALIKE * abs(facts["least"])
    by = sizes[1] if close else f"{sizes[0]} to {sizes[2]}"
    if metric_name in RATES:
        way = "faster" if headline.kind == "improvement" else "slower"
        way += " outside data loading" if metric_name == "throughput_synth" else ""
    else:
        longer = ("longer", "shorter") if facts["unit"] == "s" else ("higher", "lower")
        way, subject = longer[most < 0], f"{quantity_names.title(metric_name)} of {subject}"
    slowly = ", little by little" if facts.get("gradual") else ""
    return f"{subject}{verb} {by} {way}{slowly}{begin}"


TITLE_WORDS = 7
"""Most words of a commit message's first line that are quoted."""


def made_by(headline: Mapping[str, Any]) -> str:
    """Name the author and the title of the first bad revision: `` (Ada, "Fuse the norm")``."""
    words = headline.get("title", "").split()
    title = " ".join(words[:TITLE_WORDS]) + ("…" if len(words) > TITLE_WORDS else "")
    known = [headline.get("author", ""), f'"{title}"' if title else ""]
    return f" ({', '.join(filter(None, known))})" if any(known) else ""


def subject_of(cells: Statement) -> str:
    """Name what moved: ``bf16 training``, ``compiled unet with workers=4``."""
    facts: Mapping[str, Any] = cells.facts
    if facts["case"]:
        others = facts["others"]
        more = f" and {formats.counted(others, 'other case')}" if others else ""
        return f"{facts['case']}{more}"
    before: list[str] = []
    settings: list[str] = []
    places: list[str] = []
    for stated in facts["conditions"]:
        of, value = stated.facts["of"], stated.facts["value"]
        adjective = value if of == "precision" else _ADJECTIVES.get((of, value))
        if adjective and adjective != factors.ANY:
            before.append(adjective)
        elif of in _PLACES:
            places.append(condition(of, value))
        elif of != "workload":
            settings.append(condition(of, value))
    with_ = [f"with {listed(settings)}"] if settings else []
    return " ".join([*before, facts["workload"] or _several(facts), *with_, *places])


def _several(cells: Mapping[str, Any]) -> str:
    """Name what several workloads have in common."""
    source = cells.get("source")
    return f"code measured by {source}" if source else "training"


def condition(of: str, value: str | None) -> str:
    """A condition of the rule that moved cells obey: ``precision=bf16``, ``default compile``."""
    if of in _PLACES:
        return f"{_PLACES[of]} {formats.device(value or '')}"
    if value is None:
        return f"default {of}"
    return f"{of} set" if value == factors.ANY else f"{of}={value}"


def extent(cells: Statement) -> str:
    """Count the cases that moved and those that did not; empty if there is only one."""
    facts: Mapping[str, Any] = cells.facts
    moved, covered, others, still = (facts[n] for n in ("moved", "covered", "others", "still"))
    told = {condition.facts["of"] for condition in facts["conditions"]}
    in_subject = not facts["case"] and "hardware" in told and len(facts["hardware"]) == 1
    absent = f", not{_on(facts['absent'])}" if facts.get("absent") else ""
    where = f"{'' if in_subject else _on(facts['hardware'])}{absent}"
    everyone = covered + others + still
    if everyone == 1:
        return where.strip(", ")
    if facts["case"]:
        return f"{moved + others} of {everyone} cases{where}"
    more = f" and {others} {'other' if others == 1 else 'others'}" if others else ""
    elsewhere = f", none of the other {still}" if still else ""
    return f"{_counted(facts)}{more}{where}{elsewhere}"


def _counted(facts: Mapping[str, Any]) -> str:
    """Count the cases of a rule that moved, and name its exceptions: ``3 of 4 cases (1 unclear)``.

    ``partly`` is of newer statements.
    """
    moved, covered, unclear = (facts[name] for name in ("moved", "covered", "unclear"))
    states = ("of them not on all GPUs", "unchanged", "unclear")
    counts = (facts.get("partly", 0), covered - moved, unclear)
    exceptions = ", ".join(f"{n} {state}" for n, state in zip(counts, states, strict=True) if n)
    whole = moved == covered and not unclear
    counted = f"all {covered} cases" if whole else f"{moved} of {covered + unclear} cases"
    return f"{counted} ({exceptions})" if exceptions else counted


def _on(hardware: Sequence[str]) -> str:
    return f" on {listed([*map(formats.device, hardware)])}" if hardware else ""


def listed(names: Sequence[str]) -> str:
    """Names as a person lists them: ``a, b and c``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
