"""The words of each kind of statement, and the one function that says it."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from service.analysis.attribution import environment
from service.analysis.statement import Statement
from service.schemas.findings import Cause
from service.schemas.gate import DecisionView
from service.wording import formats, headline, overtaken, quantity_names

Words = str | Callable[..., str]
"""A template over the facts of a statement, or a function of them."""


def say(said: Statement) -> str:
    """The statement in words."""
    words = WORDS[said.kind]
    return words(**said.facts) if callable(words) else _TEMPLATES.vformat(words, (), said.facts)


def say_stored(document: Mapping[str, Any]) -> str:
    """A stored statement in words."""
    return say(Statement.read(document))


def worded(document: Any) -> Any:
    """A JSON document with words in place of its statements."""
    if isinstance(document, Mapping):
        if document.keys() == {"kind", "facts"}:
            return say_stored(document)
        return {name: worded(value) for name, value in document.items()}
    return [worded(value) for value in document] if isinstance(document, list) else document


def decision_of(document: Any) -> DecisionView:
    """A gate's decision that was stored as JSON, in words."""
    return DecisionView.model_validate(worded(document))


class _Templates(string.Formatter):
    """Templates whose format specifications are names of `_AS`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Statement):
            return say(value)
        return _AS[format_spec](value) if format_spec in _AS else format(value, format_spec)


def _values(values: Sequence[str | None]) -> str:
    return " or ".join("none" if value is None else value for value in values)


def _of_the_change(share: float) -> str:
    percent = f"{share * 100:.0f}{formats.NBSP}%"
    return "all of the change" if share >= 0.995 else f"{percent} of the change"


def _series(count: int) -> str:
    return f"over {count} series" if count > 1 else "in one series"


def _because(reason: str, end: str = ".") -> str:
    return f": {reason}" if reason else end


def _as_measured(by: float, low: float, high: float, *, rising: bool) -> str:
    change, between = formats.as_measured(by, low, high, more_is_better=rising)
    return f"{change} ({between})"


def _few(share: float) -> str:
    """Two digits of a percentage, and none of them after the point from ten on."""
    percent = float(f"{share * 100:.2g}")
    return f"{percent:.0f}{formats.NBSP}%" if percent >= 10 else f"{percent:g}{formats.NBSP}%"


def _reachable(reachable: float) -> str:
    """Say what a gate sees instead: two digits, rounded up."""
    if reachable >= ALL_OF_IT:
        return "as is any other"
    return f"{_up(reachable)} is not"


def _up(share: float) -> str:
    digits = 0 if share >= 0.1 else 1
    return f"{math.ceil(share * 100 * 10**digits) / 10**digits:g}{formats.NBSP}%"


def _of_100(chance: float) -> str:
    return f"{min(int(chance * 100), 99)} of 100"  # nobody knows the noise well enough for all


def _case(sentence: str, accidents: Sequence[Statement]) -> str:
    return _plain(" ".join([sentence, *map(say, accidents)]))


def _plain(sentence: str) -> str:
    """Without the no-break spaces of formatted numbers, for JSON and logs."""
    return sentence.replace(formats.NBSP, " ")


_AS: dict[str, Callable[[Any], str]] = {
    "fact": environment.title,
    "values": _values,
    "revision": formats.revision,
    "size": formats.size,
    "share": _of_the_change,
    "percent": formats.share,
    "because": _because,
    "change": formats.change,
    "series": _series,
    "quantity": quantity_names.title,
}
_TEMPLATES = _Templates()


MOST_WORDS = 40
"""Of a finding's sentence; what does not fit stands in the evidence."""
ALL_OF_IT = 0.95
"""A change that leaves less of a rate is a failure, and nobody needs a gate to see it."""
_CAUSES: dict[str, str] = {
    Cause.CODE: "code, not machine",
    Cause.ENVIRONMENT: "the environment",
    Cause.NODE: "the machine",
    Cause.INPUT: "data loading",
    Cause.CLOCKS: "the clock",
    Cause.UNKNOWN: "cause not known",
}
_CODE_CLEARED = "at_both_levels"
_SAME_ENVIRONMENT = frozenset({"environment_unchanged", "environment_mixed"})


def _change(
    headline: Statement,
    cause: str,
    reasons: Sequence[Statement],
    workers: Sequence[str],
    also: Sequence[Statement] = (),
    *,
    confirmed: bool,
    compared: bool = False,
) -> str:
    facts: Mapping[str, Any] = headline.facts
    kinds = {reason.kind for reason in reasons}
    whose = _whose(cause, kinds, compared=compared)
    begin = f"{say(headline)}{_maker(facts, whose)}{_extent(facts['cells'])}. "
    begin += _sentence_case(_seen(headline, workers, confirmed=confirmed))
    proof: dict[str, bool] = {Cause.CODE: compared, Cause.ENVIRONMENT: _CODE_CLEARED in kinds}
    sure = headline.kind == "failure" or proof.get(cause, confirmed)
    words = whose if sure or cause == Cause.UNKNOWN else f"probably {whose}"
    begin += words if workers else _sentence_case(words)
    sentence = f"{_longer(begin, ': ', reasons, at_least=1)}."
    return _longer(sentence, " With it: ", also).removesuffix(".") + "."


def _whose(cause: str, reasons: Collection[str], *, compared: bool) -> str:
    """Name the cause; what the kinds of its reasons or reruns clear, or leave, is named with it."""
    if cause == Cause.ENVIRONMENT and _CODE_CLEARED in reasons:
        return "the environment, not code"
    if cause == Cause.INPUT and compared and not _SAME_ENVIRONMENT.isdisjoint(reasons):
        return "code, in data loading"
    return "code, through the clock" if cause == Cause.CLOCKS and compared else _CAUSES[cause]


def _longer(sentence: str, begin: str, clauses: Sequence[Statement], at_least: int = 0) -> str:
    """Add clauses while there is room, and the first ones anyway."""
    for number, clause in enumerate(clauses):
        longer = f"{sentence}{'; ' if number else begin}{say(clause)}"
        if number >= at_least and len(longer.split()) > MOST_WORDS:
            break
        sentence = longer
    return sentence


def _seen(headline: Statement, workers: Sequence[str], *, confirmed: bool) -> str:
    if not workers:
        return ""
    again = "confirmed by reruns" if confirmed else "not confirmed yet"
    more = "" if headline.kind == "failure" else f", {again}"
    return f"Seen on {_nodes(workers)}{more}; "


def _nodes(workers: Sequence[str]) -> str:
    return headline.listed(workers) if len(workers) < 3 else f"{len(workers)} nodes"


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def headline_of(said: Statement) -> str:
    """What a finding says in under twelve words, for titles and messages."""
    facts: Mapping[str, Any] = said.facts
    match said.kind:
        case "change":
            return headline.short(facts["headline"], _what_changed(facts["reasons"]))
        case "bad_node" | "worker_at_fault":
            size, since = formats.size(facts["share"]), formats.revision(facts["first_bad"])
            return f"Worker {facts['worker']} {size} slower since {since}"
        case "overtaken":
            return overtaken.headline(**facts)
    return say(said)


def _what_changed(reasons: Sequence[Statement]) -> str:
    """Name the fact of the environment that a change is put down to; empty if there is none."""
    if not reasons or "changed" not in reasons[0].facts:
        return ""
    first: Any = reasons[0].facts["changed"]
    return environment.title(first[0].facts["fact"])


def _facts(changed: Sequence[Statement], rest: int, how: str) -> str:
    more = f" ({rest} more {'fact' if rest == 1 else 'facts'} with it)" if rest else ""
    return f"{' and '.join(map(say, changed))}{more}{how}"


def _cells(cells: Statement) -> str:
    return f"{headline.subject_of(cells)}{_extent(cells)}"


def _extent(cells: Statement) -> str:
    return _because(headline.extent(cells), "")


def _maker(facts: Mapping[str, Any], whose: str) -> str:
    return headline.made_by(facts) if whose.startswith("code") else ""


def _headline(kind: str, **facts: Any) -> str:
    return headline.headline_words(Statement(kind, facts), verb=" is")


_ONE_CODE = "{worker} has one code for both revisions, so they were not compared."

_DEPLOY = (
    "If they differ in what is measured, let the worker build them (THROUGHLINE_TARGETS), or "
    "deploy a checkout of each and set THROUGHLINE_WORKER_TARGET there."
)

WORDS: dict[str, Words] = {
    # what moved
    "change": _change,
    "regression": partial(_headline, "regression"),
    "improvement": partial(_headline, "improvement"),
    "failure": partial(_headline, "failure"),
    "cells": lambda **facts: _cells(Statement("cells", facts)),
    "condition": headline.condition,
    "cells_moved": "{moved} of {count} cases moved together: {cells}",
    "same_cells": "{one} and {other} hold for the same cases here, so either may be the reason.",
    # the environment
    "fact_changed": "{fact:fact} {before:values} -> {after:values}",
    "digest_changed": "{fact:fact} is another",
    "environment_unchanged": "environment unchanged ({unchanged} facts)",
    "environment_mixed": "{unchanged} environment facts unchanged",
    "facts_changed_here": partial(_facts, how=" changed at the same point"),
    "facts_changed_between": partial(_facts, how=" changed in between"),
    # the revision
    "at_both_levels": "{revision:revision} was at the old level and is at the new one now",
    "revision_changed": "the revision changed",
    "revision_and_machine": (
        "the revision and the machine changed together ({before} before, {after} after)"
    ),
    # a finding's history
    "moved": (
        "from last good {old_last_good}, first bad {old_first_bad} to last good {last_good}, first "
        "bad {first_bad}"
    ),
    # measuring again
    "being_measured": "Being measured again.",
    "unreadable": "What was measured again could not be read; the service's log says why.",
    "refused": "{reason}",
    "again_nothing": "Measuring again gave nothing: {sentence}",
    "again_undecided": "Measuring again did not decide it: {sentence}",
    "one_code": "{worker} has one code for both revisions; it is being measured again.",
    "asked_as_well": "{worker} shows the old level; {suspect} is being asked as well.",
    "known_slow": (
        "{worker} is known to be slow: without a difference between the revisions, what it "
        "measures says nothing of them."
    ),
    "other_code_by_now": (
        "{worker} runs other code by now than the one that {first_bad} was measured with: it says "
        "nothing of it."
    ),
    "one_code_still": "Measured again, and still so; " + _ONE_CODE,
    "one_code_back": "Measured again, and back at the old level; " + _ONE_CODE,
    "one_code_between": "Measured again, between the old level and the new; " + _ONE_CODE,
    "differ_by_less": (
        "The revisions differ on {worker}, by less than half of what was suspected."
    ),
    "differ_other_way": "On {worker} the revisions differ the other way round.",
    "differ_again": (
        "{first_bad} and {last_good} differ beside each other too, on the same worker ({worker}, "
        "{pairs} pairs)."
    ),
    "differ_elsewhere": (
        "{first_bad} and {last_good} differ beside each other too, on another worker ({worker}, "
        "{pairs} pairs)."
    ),
    "alike_between": (
        "On {worker} {last_good} and {first_bad} are alike, between the old level and the new one."
    ),
    "old_level_elsewhere": ("On {worker} {last_good} and {first_bad} are both at the old level."),
    "old_level_again": ("Measured again, {last_good} and {first_bad} are both at the old level."),
    "nodes_differ": (
        "{last_good} and {first_bad} are alike on {worker} and on {other}, which differ as nodes "
        "of one kind do."
    ),
    "new_level_here": (
        "Measured again, even {last_good} is at the new level on {worker}, and {first_bad} is "
        "still at the old one on {other}."
    ),
    "new_level_too": (
        "{last_good} and {first_bad} are both at the new level, on {worker} as well: what changed "
        "is around the code."
    ),
    "new_level_now": (
        "{last_good} and {first_bad} are both at the new level now: what changed is around the "
        "code. There is no other worker to ask, so {worker} itself is not excluded."
    ),
    "others_slow": "{last_good} and {first_bad} are both at the new level on {worker}, and the "
    "other workers are slow: nothing tells {worker} from its environment.",
    "worker_at_fault": (
        "Worker {worker} is {share:size} slower since {first_bad:revision}: the machine, not the "
        "code. {why}"
    ),
    # too little to look at
    "imported": "imported from {source}, so nothing tells code from machine",
    "no_measurement_before": "no measurement from before it is at hand",
    "no_measurement_after": "no measurement from after it is at hand",
    "environments_unknown": "the environments cannot be compared",
    "unexplained": "nothing that was measured explains it",
    "not_reproduced": (
        "measured again beside each other, revisions before and after it were at the old level, so "
        "the code does not explain it; what differs in the regular runs is not known"
    ),
    # the node
    "same_on": "the same on {workers}",
    "shared_device": (
        "another process computed on the device in all {slow} slow measurements and in none of "
        "{others} others"
    ),
    "other_level_elsewhere": (
        "{revision} is at the old level on {other} and at the new one on {worker}"
    ),
    "no_other_worker": "no other worker to hold {worker} against",
    "worker_slower": (
        "{worker} is {by:size} slower than other workers {series:series} at {revisions} revisions "
        "in a row"
    ),
    "worker_faster": (
        "{worker} is {by:size} faster than other workers {series:series} at {revisions} revisions "
        "in a row"
    ),
    "worker_alike": "{worker} does not stand apart from other workers {series:series}",
    "worker_unclear": "whether {worker} is slow in everything is not clear yet",
    "bad_node": (
        "Worker {worker} is {share:size} slower than the others since {first_bad:revision} "
        "({results} results at {revisions} revisions): the machine, not the code."
    ),
    # the fastest case
    "overtaken": overtaken.sentence,
    # what was measured
    "loader_unchanged": "what the loader adds to the step is unchanged",
    "loader_unclear": "what the loader adds to the step is not clear",
    "loader_changed": "what the loader adds to the step changed",
    "loader_other_way": "what the loader adds to the step changed the other way",
    "loader_share": "{share:share} goes away without the loader",
    "loader_part": "{share:share}",
    "clock_share": "{clock}, {share:share}",
    "clock_open": "whether code or machine moved it is open",
    "quantity_unchanged": lambda name, **_: f"{quantity_names.title(name)} unchanged",
    "quantity_changed": quantity_names.moved,
    "quantity_unclear": lambda **facts: f"{quantity_names.moved(**facts)}, which is not clear",
    "limit_changed": "the limit {before} -> {after}",
    "flag_came": (
        "{flag} flagged in all {with_it} measurements after and none of {without} before"
    ),
    "flag_went": (
        "{flag} flagged in all {with_it} measurements before and none of {without} after"
    ),
    # what stays open
    "code_untried": "The code changed as well: measuring {revision:revision} again would tell.",
    "code_untried_on": (
        "The code changed as well: measuring {revision:revision} on {workers} would tell."
    ),
    "code_untried_in_environment": (
        "The code changed as well: measuring {revision:revision} in the environment of now would "
        "tell."
    ),
    "environment_unknown": "The environment is not known on both sides.",
    "also_different": "Also different: {fact}.",
    "facts_together": "{count} facts changed together and cannot be told apart.",
    "digest_also_different": (
        "Also different, and the fingerprint does not say in what: {fact:fact}."
    ),
    "also_true": "Also true: {fact}.",
    "only_worker": (
        "Only {worker} shows the new level: a fault of it that touches only this remains."
    ),
    "only_worker_tried": (
        "Only {worker} shows the new level: a run on another would tell if it is the node."
    ),
    "power_of_code": "Code that draws more power lowers the clock as well.",
    "clocks_unknown": "Clocks were not recorded on both sides: heat and power are not excluded.",
    "clocks_unclear": (
        "Clocks vary too much, or too little was measured, to exclude heat and power."
    ),
    "input_unclear": (
        "Whether the data pipeline has a part in it is not clear from these measurements."
    ),
    # a series
    "points_for_ratio": lambda points, least: (
        f"{formats.counted(points, 'point')}: a ratio needs {least}."
    ),
    "few_points": lambda points, least: (
        f"{formats.counted(points, 'point')}: changes are told from {least} on."
    ),
    "no_ratios": "Zeros or both signs: no ratios, effects are shares of {size:.6g}.",
    "analysis_failed": "Analysing this series failed; the service's log says why.",
    "need_unknown": "There are too few points to say what this series can show.",
    "need_met": "What is measured now shows {target:percent} within {points} points.",
    "need_beside_zeros": (
        "Beside zeros nobody can say how many processes show {target:percent} within {points} "
        "points."
    ),
    "need_processes": "Its points have one process each: measure with two or more to learn it.",
    "need_impossible": (
        "No number of processes would do: its points differ more than their processes do."
    ),
    "need_many": "It would take about {count} processes for each point.",
    "need_count": (
        "About {count} processes for each point would show {target:percent} within {points} points."
    ),
    # the gate: one case
    "case": lambda metric, changed, rest, accidents: _case(
        f"{metric} {say(changed)}{''.join(map(say, rest))}.", accidents
    ),
    "too_few_pairs": lambda pairs, accidents: _case(
        f"{formats.counted(pairs, 'pair')}, too few to judge." if pairs else "No pair yet.",
        accidents,
    ),
    "changed": lambda by, low, high: _as_measured(by, low, high, rising=True),
    "changed_inversely": lambda by, low, high: _as_measured(by, low, high, rising=False),
    "metric_changed": "{metric} {changed}",
    "pairs_disagree": (
        ", but earlier and later pairs disagree: something else changed on this machine"
    ),
    "at_one_clock": " at one clock (the contender's was {clock:change})",
    "surely_within": ", surely within {allowed:percent}",
    "surely_no_worse": (", surely no worse than {allowed:percent}; whether it got better is open"),
    "surely_worse": ", surely worse",
    "likely_worse": ", likely worse, but not sure enough over all cases and looks",
    "futile": lambda noise, allowed, reach: (
        f", stopped: noise of {_few(noise)} between pairs puts limits below {_up(reach)} out of "
        f"reach, and this one is {formats.share(allowed)}"
    ),
    "too_wide": ", too wide an interval for a limit of {allowed:percent}",
    "clock_slower": (
        "; in clock cycles {cycles:change}, so the device's clock was slower, not the code"
    ),
    "clock_faster": (
        "; in clock cycles {cycles:change}, so the device's clock was faster, not the code"
    ),
    "cycles": "; in clock cycles {changed}",
    "gain": "{metric} got better by {by:percent}",
    "gain_rose": "{metric} rose by {by:percent}",
    "gain_fell": "{metric} fell by {by:percent}",
    "allowed_only_if": lambda gains: (
        f", allowed only if {' or '.join(map(say, gains))}: not every process has one above zero"
    ),
    "trade_unmeasured": "; whether {gain} is open: not every process has one above zero",
    "trade_allows": (
        "; {metric} {changed} allows {allowed:percent}: whether that is enough is open"
    ),
    "trade_disagrees": "; whether {gain} is open: its earlier and later pairs disagree",
    "trade_open": "; whether {gain} is open: {changed}",
    "within_limit": (
        ", surely worse, and surely by less than the {allowed:percent} that is allowed"
    ),
    "allowed_for": lambda gains: f", allowed for {' and '.join(map(say, gains))}",
    "pairs_left_out": lambda pairs, flags: (
        f"{formats.counted(pairs, 'pair')} left out, measured on a disturbed device ({flags})."
    ),
    "one_after_the_other": "Measured one after the other: it could not be done in turn.",
    "gave_nothing": lambda side, reason: (
        f"One process of the {side} gave nothing{_because(reason.rstrip('.'), end='')}."
    ),
    "device_disturbed": lambda disturbed, pairs, flags, kept: (
        f"The device was disturbed in {disturbed} of {pairs} pairs ({flags}), and "
        f"{formats.counted(kept, 'pair')} without that is too few to judge."
    ),
    "no_pair": "No pair was measured before the budget ended.",
    "no_metric": lambda metrics: f"Not every process has a {' and a '.join(metrics)} above zero.",
    "contender_fails_parity": "The contender fails parity{reason:because}",
    "baseline_fails_parity": "The baseline fails parity, so it is no reference{reason:because}",
    "neither_supports": "Neither revision supports it here{reason:because}",
    "contender_unsupported": (
        "The contender does not support what the baseline does{reason:because}"
    ),
    "baseline_unsupported": "The baseline does not support it{reason:because}",
    "contender_unbuildable": "The contender cannot be built{reason:because}",
    "baseline_unbuildable": "The baseline cannot be built{reason:because}",
    "contender_broken": "The contender fails and the baseline does not{reason:because}",
    "both_failed": "Both sides failed{reason:because}",
    "baseline_failed": "The baseline failed{reason:because}",
    "contender_failed": "The contender failed{reason:because}",
    "no_result": "No result of the {side}{reason:because}",
    "few_results": "No result of the {side} in {gone} of {of} processes{reason:because}",
    "same_code": "Both revisions ran the same code and software, so nothing was compared. "
    + _DEPLOY,
    "same_code_in_some": (
        "Both revisions ran the same code and software in some processes, so nothing was compared. "
        + _DEPLOY
    ),
    "software_unknown": (
        "The results do not say which software ran, so nobody knows whether two revisions were "
        "compared."
    ),
    "several_devices": "Not measured on one device, so there is nothing to compare.",
    "several_hardware": "Not measured on the same hardware and data: nothing to compare.",
    # the gate: one case, before it begins
    "noise_unknown": (
        "Noise between pairs is not known yet: no earlier gate and no processes of one night on "
        "such a device."
    ),
    "budget_short": "The budget leaves too little time for {pairs} pairs.",
    "within_reach": lambda noise, pairs, spent_s, chance, change, **_: _plain(
        f"Noise of {_few(noise)} between pairs; about {formats.counted(round(pairs), 'pair')} "
        f"({formats.duration(spent_s)}); sees a {_few(change)} change in {_of_100(chance)} gates."
    ),
    "out_of_reach": lambda noise, chance, change, reachable, most, of_budget, **_: _plain(
        f"Noise of {_few(noise)} between pairs; {_few(change)} is out of reach in "
        f"{f'the {most} pairs that the budget has time for' if of_budget else f'{most} pairs'} "
        f"(seen in {_of_100(chance)} gates), {_reachable(reachable)}."
    ),
    # the gate: all cases
    "tally": lambda **counts: ", ".join(
        f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts.items()
    ),
    "passed": "No case got worse than allowed ({tally}).",
    "regressed": "Regression ({tally}). {case}: {why}",
    "undecided": "Not decided ({tally}). {case}: {why}",
    "no_case": "Not decided: there is no case.",
    "check": (
        "A check of the set-up, not a comparison: {revision} was measured against itself, which "
        "shows the noise ({tally})."
    ),
    "rule_fits_none": (
        "The rule for '{rule}' fits no case that was measured, so it limited nothing."
    ),
    "rule_shadowed": (
        "The rule for '{rule}' fits only cases that an earlier rule decides, so it limited nothing."
    ),
    "budget_ended": lambda budget_s: _plain(
        f"The budget of {formats.duration(budget_s)} ended before every case was decided."
    ),
    "remark": "{text}",
}
