"""Joins what the cases say into the gate's decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import compress

from service.analysis.gate.cases import decide_case
from service.analysis.gate.metrics import Levels
from service.analysis.gate.pairs import CaseRecord
from service.analysis.statement import Statement, state
from service.schemas.gate import (
    GOOD,
    REGRESSIONS,
    CaseFinding,
    CaseVerdict,
    GateDecision,
    Outcome,
    Side,
)
from service.schemas.policy import Policy

Decision = GateDecision[Statement]
Case = CaseFinding[Statement]


def decide_cases(
    records: Sequence[CaseRecord], policy: Policy, *, last: bool = False
) -> tuple[Case, ...]:
    """Decide on every case; the permitted error is split over all of them.

    A case that was settled before the end stays as it is: what is left of the error may be spent
    on a last look only where the end had nothing to do with what the pairs said.
    """
    levels = Levels.of(policy, [record.case_key for record in records])
    return tuple(_decided(record, policy, levels, last=last) for record in records)


def _decided(record: CaseRecord, policy: Policy, levels: Levels, *, last: bool) -> Case:
    rule = policy.rule_of(record.case_key)
    case = decide_case(record, rule, levels)
    return decide_case(record, rule, levels, last=True) if last and not case.settled else case


def decide(
    records: Sequence[CaseRecord],
    policy: Policy,
    revisions: tuple[str, str],
    *,
    last: bool = True,
) -> Decision:
    """The decision as it stands; ``last`` says that no pair will follow.

    ``pass`` needs every case to be surely within its limits, and one case at least: whatever is
    missing, failed, foreign or disturbed, and what ran the same code, is never a pass. A revision
    against itself checks the set-up: its cases tell the noise, and nothing is decided.
    """
    cases = decide_cases(records, policy, last=last)
    check = revisions[0] == revisions[1]
    outcome = Outcome.INCONCLUSIVE if check else _outcome([case.verdict for case in cases])
    return Decision(
        outcome=outcome,
        sentence=_sentence(None if check else outcome, cases, revisions[0]),
        cases=cases,
        warnings=tuple(_idle_rules(records, policy)),
        false_alarm=policy.false_alarm,
        false_pass=policy.false_pass,
    )


def _outcome(verdicts: Sequence[CaseVerdict]) -> Outcome:
    if any(verdict in REGRESSIONS for verdict in verdicts):
        return Outcome.REGRESSION
    compared = [verdict for verdict in verdicts if verdict is not CaseVerdict.UNSUPPORTED]
    if compared and all(verdict in GOOD for verdict in compared):
        return Outcome.PASS
    return Outcome.INCONCLUSIVE


def _tally(cases: Sequence[Case]) -> Statement:
    count = Counter(case.verdict for case in cases)
    return state("tally", **{one.value: count[one] for one in CaseVerdict if count[one]})


def _sentence(outcome: Outcome | None, cases: Sequence[Case], baseline: str) -> Statement:
    tally = _tally(cases)
    match outcome:
        case None:
            return state("check", revision=baseline, tally=tally)
        case Outcome.PASS:
            return state("passed", tally=tally)
        case Outcome.REGRESSION:
            worst = next(case for case in cases if case.verdict in REGRESSIONS)
            return state("regressed", tally=tally, case=worst.case_key, why=worst.sentence)
        case Outcome.INCONCLUSIVE if cases:
            good = GOOD | {CaseVerdict.UNSUPPORTED}
            open_ = next((case for case in cases if case.verdict not in good), cases[0])
            return state("undecided", tally=tally, case=open_.case_key, why=open_.sentence)
    return state("no_case")


def _idle_rules(records: Sequence[CaseRecord], policy: Policy) -> Iterator[Statement]:
    """Rules that limited nothing, once every case has been tried."""
    sides = [[process for side in Side for process in record.side(side)] for record in records]
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
                yield state(kind, rule=rule.cases)
