"""Joins what the cases say into the gate's decision, each decided by its pairs under its rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

from service.analysis.gate import futility, metrics, sentences
from service.analysis.gate.pairs import CaseRecord, trouble_of
from service.analysis.statement import Statement
from service.schemas import gate
from service.schemas.policy import Limit, Policy, Rule, Trade


def decide_case(
    record: CaseRecord, rule: Rule, levels: metrics.Levels, *, last: bool = False
) -> gate.CaseFinding[Statement]:
    """Decide on one case; ``last`` says that no pair will follow, whatever the pairs say."""
    pairs = record.whole[: levels.max_pairs]
    by_metric = metrics.findings(pairs, levels, record.known, last=last)
    answers = tuple(answer_of(by_metric.get(limit.metric), limit) for limit in rule.limits)
    disturbed = record.disturbed >= levels.max_pairs
    answer = trouble_of(record) or _lacking(
        rule, by_metric, record, levels, last=last or (disturbed and len(pairs) < levels.min_pairs)
    )
    given_up: Mapping[str, futility.Reach] = {}
    if answer is None:
        verdict = _verdict(rule, by_metric, answers)
        limit = _behind(verdict, rule, by_metric, answers)
        given_up = {} if last else _given_up(verdict, rule, by_metric, record, levels)
        reach = given_up.get(limit.metric)
        answer = verdict, sentences.of_case(verdict, limit, rule, by_metric, record, reach)
    verdict, sentence = answer
    exhausted = last or disturbed or bool(given_up) or len(pairs) >= levels.max_pairs
    return gate.CaseFinding(
        case_key=record.case_key,
        verdict=verdict,
        answer=answers[0] if verdict in _ANSWERED else gate.Answer.UNKNOWN,
        settled=exhausted or verdict not in (gate.CaseVerdict.UNCLEAR, gate.CaseVerdict.NOT_WORSE),
        pairs=len(pairs),
        sentence=sentence,
        metrics=_in_order(by_metric, rule),
    )


_ANSWERED = gate.GOOD | {gate.CaseVerdict.WORSE, gate.CaseVerdict.UNCLEAR}


def _given_up(
    verdict: gate.CaseVerdict,
    rule: Rule,
    findings: Mapping[str, gate.MetricFinding],
    record: CaseRecord,
    levels: metrics.Levels,
) -> dict[str, futility.Reach]:
    """By metric, what is within reach, if no further pair will decide any limit that is open."""
    if record.is_step or verdict is not gate.CaseVerdict.UNCLEAR or rule.trades:
        return {}
    pairs, found = record.whole[: levels.max_pairs], {}
    for limit in rule.limits:
        if _within(limit, (), findings):
            continue
        finding = findings.get(limit.metric)
        if finding is None or not finding.consistent:
            return {}
        better = [-worse for worse in metrics.worse_by(pairs, limit.metric)]
        prior = record.known.prior(limit.metric, at_one_clock=finding.clock is not None)
        reach = futility.given_up(better, limit, levels, prior)
        if reach is None:
            return {}
        found[limit.metric] = reach
    return found


def _lacking(
    rule: Rule,
    findings: Mapping[str, gate.MetricFinding],
    record: CaseRecord,
    levels: metrics.Levels,
    *,
    last: bool,
) -> tuple[gate.CaseVerdict, Statement] | None:
    """Give the verdict where too little was measured: too few pairs, or pairs without a metric."""
    pairs = len(record.whole)
    if last and record.disturbed and pairs < levels.min_pairs:
        return gate.CaseVerdict.DISTURBED, Statement.of(
            "device_disturbed",
            disturbed=record.disturbed,
            pairs=len(record.pairs),
            flags=sentences.disturbances(record),
            kept=pairs,
        )
    if last and not pairs:
        return gate.CaseVerdict.MISSING, Statement.of("no_pair")
    absent = [limit.metric for limit in rule.limits if limit.metric not in findings]
    if absent and pairs >= levels.min_pairs:
        return gate.CaseVerdict.MISSING, Statement.of("no_metric", metrics=tuple(absent))
    return None


def _verdict(
    rule: Rule, findings: Mapping[str, gate.MetricFinding], answers: Sequence[gate.Answer]
) -> gate.CaseVerdict:
    """The verdict over all limits."""
    if any(_beyond(limit, rule.trades, findings) for limit in rule.limits):
        return gate.CaseVerdict.WORSE
    open_ = [limit for limit in rule.limits if not _within(limit, rule.trades, findings)]
    if open_:
        untold = all(_untold(limit, rule.trades, findings) for limit in open_)
        return gate.CaseVerdict.MISSING if untold else gate.CaseVerdict.UNCLEAR
    changed = [
        findings[limit.metric].change
        for limit, answer in zip(rule.limits, answers, strict=True)
        if answer is gate.Answer.DIFFERENT
    ]
    if min(changed, default=0.0) < 0:
        return gate.CaseVerdict.ALLOWED
    if gate.Answer.UNKNOWN in answers:
        return gate.CaseVerdict.NOT_WORSE
    return gate.CaseVerdict.BETTER if changed else gate.CaseVerdict.SAME


def _behind(
    verdict: gate.CaseVerdict,
    rule: Rule,
    findings: Mapping[str, gate.MetricFinding],
    answers: Sequence[gate.Answer],
) -> Limit:
    """The limit that a verdict comes from; of several that are broken or unclear, the worst."""

    def made_it(limit: Limit, answer: gate.Answer) -> bool:
        match verdict:
            case gate.CaseVerdict.WORSE:
                return _beyond(limit, rule.trades, findings)
            case gate.CaseVerdict.UNCLEAR | gate.CaseVerdict.MISSING:
                return not _within(limit, rule.trades, findings)
            case gate.CaseVerdict.NOT_WORSE:
                return answer is gate.Answer.UNKNOWN
            case gate.CaseVerdict.ALLOWED:
                return answer is gate.Answer.DIFFERENT and findings[limit.metric].change < 0
            case gate.CaseVerdict.BETTER:
                return answer is gate.Answer.DIFFERENT
        return True

    both = zip(rule.limits, answers, strict=True)
    behind = [limit for limit, answer in both if made_it(limit, answer)]
    if verdict in (gate.CaseVerdict.WORSE, gate.CaseVerdict.UNCLEAR):
        return min(behind, key=lambda limit: _room(limit, findings))
    return behind[0]


def _room(limit: Limit, findings: Mapping[str, gate.MetricFinding]) -> float:
    finding = findings.get(limit.metric)
    return 0.0 if finding is None else finding.low + limit.allowed


def answer_of(finding: gate.MetricFinding | None, limit: Limit) -> gate.Answer:
    """DIFFERENT if surely changed at all; SAME if that is open, and the change surely small.

    Whether a sure change is also allowed is another question: ``_within`` answers it.
    """
    if finding is None or not finding.consistent:
        return gate.Answer.UNKNOWN
    if finding.strict_high < 0 or finding.strict_low > 0:
        return gate.Answer.DIFFERENT
    inside = -limit.allowed < finding.low and finding.high < limit.allowed
    return gate.Answer.SAME if inside else gate.Answer.UNKNOWN


def _beyond(
    limit: Limit, trades: Sequence[Trade], findings: Mapping[str, gate.MetricFinding]
) -> bool:
    """Surely worse than allowed, also if every trade that may still hold does."""
    may = [limit.max_regression]
    may += [
        t.max_regression for t in metrics.loosening(limit, trades) if not metrics.fails(t, findings)
    ]
    return _surely_worse(limit.metric, max(may), findings)


def _within(
    limit: Limit, trades: Sequence[Trade], findings: Mapping[str, gate.MetricFinding]
) -> bool:
    """Surely no worse than allowed, counting only trades that surely hold."""
    finding = findings.get(limit.metric)
    held = [
        t.max_regression for t in metrics.loosening(limit, trades) if metrics.holds(t, findings)
    ]
    if not held and _surely_worse(limit.metric, limit.max_regression, findings):
        return False  # a margin is for what may be nothing
    return finding is not None and finding.consistent and finding.low > -max([limit.allowed, *held])


def _untold(
    limit: Limit, trades: Sequence[Trade], findings: Mapping[str, gate.MetricFinding]
) -> bool:
    """Allowed or not by a metric that is not measured: no further pair will tell."""
    finding = findings.get(limit.metric)
    open_ = [t for t in metrics.loosening(limit, trades) if not metrics.fails(t, findings)]
    if finding is None or not open_ or any(t.if_metric in findings for t in open_):
        return False
    worse = _surely_worse(limit.metric, limit.max_regression, findings)
    return worse and finding.low > -max(t.max_regression for t in open_)


def _surely_worse(metric: str, allowed: float, findings: Mapping[str, gate.MetricFinding]) -> bool:
    finding = findings.get(metric)
    return finding is not None and finding.consistent and finding.strict_high < -allowed


def _in_order(
    findings: Mapping[str, gate.MetricFinding], rule: Rule
) -> tuple[gate.MetricFinding, ...]:
    first = [limit.metric for limit in rule.limits]
    first += [trade.if_metric for trade in rule.trades]
    place = {metric: at for at, metric in reversed(list(enumerate(first)))}
    return tuple(sorted(findings.values(), key=lambda one: place.get(one.metric, len(first))))


Decision = gate.GateDecision[Statement]
Case = gate.CaseFinding[Statement]


def decide_cases(
    records: Sequence[CaseRecord], policy: Policy, *, last: bool = False
) -> tuple[Case, ...]:
    """Decide on every case; the permitted error is split over all of them.

    A case that was settled before the end stays as it is: what is left of the error may be spent
    on a last look only where the end had nothing to do with what the pairs said.
    """
    levels = metrics.Levels.of(policy, [record.case_key for record in records])
    return tuple(_decided(record, policy, levels, last=last) for record in records)


def _decided(record: CaseRecord, policy: Policy, levels: metrics.Levels, *, last: bool) -> Case:
    rule = policy.rule_of(record.case_key)
    case = decide_case(record, rule, levels)
    return decide_case(record, rule, levels, last=True) if last and not case.settled else case


def decide(
    records: Sequence[CaseRecord], policy: Policy, revisions: tuple[str, str], *, last: bool = True
) -> Decision:
    """The decision as it stands; ``last`` says that no pair will follow.

    ``pass`` needs every case to be surely within its limits, and one case at least: whatever is
    missing, failed, foreign or disturbed, and what ran the same code, is never a pass. A revision
    against itself checks the set-up: its cases tell the noise, and nothing is decided.
    """
    cases = decide_cases(records, policy, last=last)
    check = revisions[0] == revisions[1]
    outcome = gate.Outcome.INCONCLUSIVE if check else _outcome([case.verdict for case in cases])
    return Decision(
        outcome=outcome,
        sentence=_sentence(None if check else outcome, cases, revisions[0]),
        cases=cases,
        warnings=tuple(_idle_rules(records, policy)),
        false_alarm=policy.false_alarm,
        false_pass=policy.false_pass,
    )


def may_be_in_turn(record: CaseRecord, policy: Policy) -> bool:
    """Return True if a duet can decide the case, and none of its pairs had to be apart before."""
    alone = any(process.alone for side in gate.Side for process in record.side(side))
    return policy.in_turn(record.case_key) and not alone


def _outcome(verdicts: Sequence[gate.CaseVerdict]) -> gate.Outcome:
    if any(verdict in gate.REGRESSIONS for verdict in verdicts):
        return gate.Outcome.REGRESSION
    compared = [verdict for verdict in verdicts if verdict is not gate.CaseVerdict.UNSUPPORTED]
    if compared and all(verdict in gate.GOOD for verdict in compared):
        return gate.Outcome.PASS
    return gate.Outcome.INCONCLUSIVE


def _sentence(outcome: gate.Outcome | None, cases: Sequence[Case], baseline: str) -> Statement:
    count = Counter(case.verdict for case in cases)
    tally = Statement.of(
        "tally", **{one.value: count[one] for one in gate.CaseVerdict if count[one]}
    )
    match outcome:
        case None:
            return Statement.of("check", revision=baseline, tally=tally)
        case gate.Outcome.PASS:
            return Statement.of("passed", tally=tally)
        case gate.Outcome.REGRESSION:
            worst = next(case for case in cases if case.verdict in gate.REGRESSIONS)
            return Statement.of("regressed", tally=tally, case=worst.case_key, why=worst.sentence)
        case gate.Outcome.INCONCLUSIVE if cases:
            good = gate.GOOD | {gate.CaseVerdict.UNSUPPORTED}
            open_ = next((case for case in cases if case.verdict not in good), cases[0])
            return Statement.of("undecided", tally=tally, case=open_.case_key, why=open_.sentence)
    return Statement.of("no_case")


def _idle_rules(records: Sequence[CaseRecord], policy: Policy) -> Iterator[Statement]:
    """Rules that limited nothing, once every case has been tried."""
    sides = [[process for side in gate.Side for process in record.side(side)] for record in records]
    if not all(sides):
        return
    # The key of a case that was not measured has the preset asked for, which may be "auto".
    good = [any(process.trouble is None for process in both) for both in sides]
    if any(good):
        case_keys = [record.case_key for record in compress(records, good)]
        deciding = [policy.rule_of(case_key) for case_key in case_keys]
        for rule in policy.rules:
            if not any(one is rule for one in deciding):
                kind = "rule_shadowed" if any(map(rule.fits, case_keys)) else "rule_fits_none"
                yield Statement.of(kind, rule=rule.cases)
