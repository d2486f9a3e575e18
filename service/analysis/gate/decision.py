"""Joins what the cases say into the gate's decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import compress

from benchmarks.contracts import Contract
from service.analysis.gate.cases import CaseFinding, judge_case
from service.analysis.gate.metrics import Levels
from service.analysis.gate.pairs import CaseRecord, Side
from service.analysis.gate.policy import Policy
from service.analysis.gate.sentences import GOOD, REGRESSIONS, CaseVerdict


class Outcome(StrEnum):
    """The outcome of a gate."""

    PASS = "pass"  # noqa: S105 - no secret
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


class Used(Contract):
    """One attempt that the decision rests on, or that gave it nothing."""

    case_key: str
    pair: int
    side: Side
    job_id: str
    attempt: int | None
    worker: str | None
    device: str
    result_id: str | None
    compared: bool
    """Whether its pair is one of those that were compared."""


class Decision(Contract):
    """The answer, what it rests on, and how often such an answer may be wrong."""

    outcome: Outcome
    sentence: str
    cases: tuple[CaseFinding, ...]
    warnings: tuple[str, ...] = ()
    used: tuple[Used, ...] = ()
    false_alarm: float
    false_pass: float


def judge_all(
    records: Sequence[CaseRecord], policy: Policy, *, last: bool = False
) -> tuple[CaseFinding, ...]:
    """Judge every case; the permitted error is split over all of them.

    A case that was settled before the end stays as it is: what is left of the error may be spent
    on a last look only where the end had nothing to do with what the pairs said.
    """
    levels = Levels.of(policy, [record.case_key for record in records])
    return tuple(_judged(record, policy, levels, last=last) for record in records)


def _judged(record: CaseRecord, policy: Policy, levels: Levels, *, last: bool) -> CaseFinding:
    rule = policy.rule_of(record.case_key)
    found = judge_case(record, rule, levels)
    return judge_case(record, rule, levels, last=True) if last and not found.settled else found


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
    cases = judge_all(records, policy, last=last)
    check = revisions[0] == revisions[1]
    outcome = Outcome.INCONCLUSIVE if check else _outcome([case.verdict for case in cases])
    return Decision(
        outcome=outcome,
        sentence=_check(revisions[0], cases) if check else _sentence(outcome, cases),
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


def _tally(cases: Sequence[CaseFinding]) -> str:
    count = Counter(case.verdict for case in cases)
    return ", ".join(
        f"{count[one]} {one.value.replace('_', ' ')}" for one in CaseVerdict if count[one]
    )


def _check(revision: str, cases: Sequence[CaseFinding]) -> str:
    return (
        f"A check of the set-up, not a comparison: {revision} was measured against itself, which "
        f"shows the noise ({_tally(cases)})."
    )


def _sentence(outcome: Outcome, cases: Sequence[CaseFinding]) -> str:
    tally = _tally(cases)
    match outcome:
        case Outcome.PASS:
            return f"No case got worse than allowed ({tally})."
        case Outcome.REGRESSION:
            worst = next(case for case in cases if case.verdict in REGRESSIONS)
            return f"Regression ({tally}). {worst.case_key}: {worst.sentence}"
        case Outcome.INCONCLUSIVE if cases:
            good = GOOD | {CaseVerdict.UNSUPPORTED}
            open_ = next((case for case in cases if case.verdict not in good), cases[0])
            return f"Not decided ({tally}). {open_.case_key}: {open_.sentence}"
    return "Not decided: there is no case."


def _idle_rules(records: Sequence[CaseRecord], policy: Policy) -> Iterator[str]:
    """Rules that limited nothing, once every case has been tried."""
    sides = [[each for side in Side for each in record.side(side)] for record in records]
    if not all(sides):
        return
    # The key of a case that was not measured has the preset asked for, which may be "auto".
    good = [any(each.trouble is None for each in both) for both in sides]
    if any(good):
        yield from policy.idle([record.case_key for record in compress(records, good)])
