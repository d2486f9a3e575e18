"""Decides on one case: its pairs under its rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.analysis.gate import sentences, tradeoffs
from service.analysis.gate.metrics import Levels, findings
from service.analysis.gate.pairs import CaseRecord
from service.analysis.gate.trouble import trouble_of
from service.analysis.statement import Statement, state
from service.schemas.gate import GOOD, Answer, CaseFinding, CaseVerdict, MetricFinding
from service.schemas.policy import Limit, Rule, Trade


def decide_case(
    record: CaseRecord, rule: Rule, levels: Levels, *, last: bool = False
) -> CaseFinding[Statement]:
    """Decide on one case; ``last`` says that no pair will follow, whatever the pairs say."""
    pairs = record.whole[: levels.max_pairs]
    found = findings(pairs, levels, last=last)
    answers = tuple(answer_of(found.get(limit.metric), limit) for limit in rule.limits)
    disturbed = record.disturbed >= levels.max_pairs
    answer = trouble_of(record) or _lacking(
        rule, found, record, levels, last=last or (disturbed and len(pairs) < levels.min_pairs)
    )
    if answer is None:
        verdict = _verdict(rule, found, answers)
        limit = _behind(verdict, rule, found, answers)
        answer = verdict, sentences.of_case(verdict, limit, rule, found, record)
    verdict, sentence = answer
    exhausted = last or disturbed or len(pairs) >= levels.max_pairs
    return CaseFinding(
        case_key=record.case_key,
        verdict=verdict,
        answer=answers[0] if verdict in _ANSWERED else Answer.UNKNOWN,
        settled=exhausted or verdict not in (CaseVerdict.UNCLEAR, CaseVerdict.NOT_WORSE),
        pairs=len(pairs),
        sentence=sentence,
        metrics=_in_order(found, rule),
    )


_ANSWERED = GOOD | {CaseVerdict.WORSE, CaseVerdict.UNCLEAR}


def _lacking(
    rule: Rule,
    found: Mapping[str, MetricFinding],
    record: CaseRecord,
    levels: Levels,
    *,
    last: bool,
) -> tuple[CaseVerdict, Statement] | None:
    """Say so where there is nothing to judge: too few pairs, or pairs without a metric."""
    pairs = len(record.whole)
    if last and record.disturbed and pairs < levels.min_pairs:
        return CaseVerdict.DISTURBED, state(
            "device_disturbed",
            disturbed=record.disturbed,
            pairs=len(record.pairs),
            flags=sentences.disturbances(record),
            kept=pairs,
        )
    if last and not pairs:
        return CaseVerdict.MISSING, state("no_pair")
    absent = [limit.metric for limit in rule.limits if limit.metric not in found]
    if absent and pairs >= levels.min_pairs:
        return CaseVerdict.MISSING, state("no_metric", metrics=tuple(absent))
    return None


def _verdict(
    rule: Rule, found: Mapping[str, MetricFinding], answers: Sequence[Answer]
) -> CaseVerdict:
    """The verdict over all limits."""
    if any(_beyond(limit, rule.trades, found) for limit in rule.limits):
        return CaseVerdict.WORSE
    open_ = [limit for limit in rule.limits if not _within(limit, rule.trades, found)]
    if open_:
        untold = all(_untold(limit, rule.trades, found) for limit in open_)
        return CaseVerdict.MISSING if untold else CaseVerdict.UNCLEAR
    changed = [
        found[limit.metric].change
        for limit, answer in zip(rule.limits, answers, strict=True)
        if answer is Answer.DIFFERENT
    ]
    if min(changed, default=0.0) < 0:
        return CaseVerdict.ALLOWED
    if Answer.UNKNOWN in answers:
        return CaseVerdict.NOT_WORSE
    return CaseVerdict.BETTER if changed else CaseVerdict.SAME


def _behind(
    verdict: CaseVerdict,
    rule: Rule,
    found: Mapping[str, MetricFinding],
    answers: Sequence[Answer],
) -> Limit:
    """The limit that a verdict comes from; of several that are broken or unclear, the worst."""

    def made_it(limit: Limit, answer: Answer) -> bool:
        match verdict:
            case CaseVerdict.WORSE:
                return _beyond(limit, rule.trades, found)
            case CaseVerdict.UNCLEAR | CaseVerdict.MISSING:
                return not _within(limit, rule.trades, found)
            case CaseVerdict.NOT_WORSE:
                return answer is Answer.UNKNOWN
            case CaseVerdict.ALLOWED:
                return answer is Answer.DIFFERENT and found[limit.metric].change < 0
            case CaseVerdict.BETTER:
                return answer is Answer.DIFFERENT
        return True

    both = zip(rule.limits, answers, strict=True)
    behind = [limit for limit, answer in both if made_it(limit, answer)]
    if verdict in (CaseVerdict.WORSE, CaseVerdict.UNCLEAR):
        return min(behind, key=lambda limit: _room(limit, found))
    return behind[0]


def _room(limit: Limit, found: Mapping[str, MetricFinding]) -> float:
    own = found.get(limit.metric)
    return 0.0 if own is None else own.low + limit.allowed


def answer_of(found: MetricFinding | None, limit: Limit) -> Answer:
    """DIFFERENT if surely changed at all; SAME if that is open, and the change surely small.

    Whether a sure change is also allowed is another question: ``_within`` answers it.
    """
    if found is None or not found.consistent:
        return Answer.UNKNOWN
    if found.strict_high < 0 or found.strict_low > 0:
        return Answer.DIFFERENT
    inside = -limit.allowed < found.low and found.high < limit.allowed
    return Answer.SAME if inside else Answer.UNKNOWN


def _beyond(limit: Limit, trades: Sequence[Trade], found: Mapping[str, MetricFinding]) -> bool:
    """Surely worse than allowed, also if every trade that may still hold does."""
    may = [limit.max_regression]
    may += [
        t.max_regression
        for t in tradeoffs.loosening(limit, trades)
        if not tradeoffs.fails(t, found)
    ]
    return _surely_worse(limit.metric, max(may), found)


def _within(limit: Limit, trades: Sequence[Trade], found: Mapping[str, MetricFinding]) -> bool:
    """Surely no worse than allowed, counting only trades that surely hold."""
    own = found.get(limit.metric)
    held = [
        t.max_regression for t in tradeoffs.loosening(limit, trades) if tradeoffs.holds(t, found)
    ]
    if not held and _surely_worse(limit.metric, limit.max_regression, found):
        return False  # a margin is for what may be nothing
    return own is not None and own.consistent and own.low > -max([limit.allowed, *held])


def _untold(limit: Limit, trades: Sequence[Trade], found: Mapping[str, MetricFinding]) -> bool:
    """Allowed or not by a metric that is not measured: no further pair will tell."""
    own = found.get(limit.metric)
    open_ = [t for t in tradeoffs.loosening(limit, trades) if not tradeoffs.fails(t, found)]
    if own is None or not open_ or any(t.if_metric in found for t in open_):
        return False
    worse = _surely_worse(limit.metric, limit.max_regression, found)
    return worse and own.low > -max(t.max_regression for t in open_)


def _surely_worse(metric: str, allowed: float, found: Mapping[str, MetricFinding]) -> bool:
    own = found.get(metric)
    return own is not None and own.consistent and own.strict_high < -allowed


def _in_order(found: Mapping[str, MetricFinding], rule: Rule) -> tuple[MetricFinding, ...]:
    first = [limit.metric for limit in rule.limits]
    first += [trade.if_metric for trade in rule.trades]
    return tuple(sorted(found.values(), key=lambda one: _place(one.metric, first)))


def _place(metric: str, first: Sequence[str]) -> int:
    return first.index(metric) if metric in first else len(first)
