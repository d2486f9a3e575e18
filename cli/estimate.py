"""Sentences on what was submitted and how long it will take, before anyone waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import contracts
from benchmarks.catalog import catalog, precision_tiers, suites
from benchmarks.catalog.duration import expected_s, pair_s
from service.schemas import jobs
from service.schemas.catalog import CaseExpectation, Catalog, SuiteView
from service.schemas.policy import Policy
from service.wording import formats

_TOLD = "told from the protocol, for a GPU"


def sentence(
    submission: jobs.SubmissionView,
    known: Catalog,
    replicates: int | None = None,
    tier: precision_tiers.Tier | None = None,
) -> str | None:
    """Estimate the time of a submission: ``About 15 min for 17 cases on one worker``, and the
    basis.

    ``replicates`` and ``tier`` replace the suite's own, if given.
    """
    suite = _suite(known, submission.suite)
    if suite is None:
        return None
    asked = precision_tiers.timed(tier, suite.protocol) if tier else suite.protocol
    if replicates is not None:
        asked = asked.model_copy(update={"replicates": replicates})
    cases = [job.case for job in submission.cases]
    expected = {item.case: item for item in suite.cases_expected}
    total_s = sum(_case_s(case, asked, suite.protocol, expected.get(case.key)) for case in cases)
    count = f"{len(cases)} {'case' if len(cases) == 1 else 'cases'}"
    basis = _basis(cases, expected)
    return f"About {formats.duration(total_s)} for {count} on one worker ({basis})."


def of_gate(request: Mapping[str, Any], known: Catalog) -> str:
    """Estimate a gate's time beside its budget: ``6 cases x 3 to 12 pairs need about ...``.

    On an idle worker; empty where nobody knows.
    """
    policy = Policy.model_validate(request["policy"])
    pairs, basis = _pairs(request, policy, known)
    if not pairs:
        return ""
    few_s, many_s = (
        sum(first + (count - 1) * later for first, later in pairs)
        for count in (policy.min_pairs, policy.max_pairs)
    )
    budget_s = float(request["budget_s"])
    short = ""
    if few_s > budget_s:
        counted = formats.counted(policy.min_pairs, "pair")
        short = f" That is too little for {counted} of every case: raise --budget, or name fewer."
    sentence = (
        f"{formats.counted(len(pairs), 'case')} x {policy.min_pairs} to {policy.max_pairs} "
        f"pairs need about {formats.duration(few_s)} to {formats.duration(many_s)} on an idle "
        f"worker ({basis}); the budget is {formats.duration(budget_s)}.{short}"
    )
    return sentence.replace(formats.NBSP, " ")


def _pairs(
    request: Mapping[str, Any], policy: Policy, known: Catalog
) -> tuple[list[tuple[float, float]], str]:
    """Seconds of the first pair and of each later one, for every case; and their basis."""
    view = _suite(known, request.get("suite"))
    if view is None:
        cases = [contracts.Case.model_validate(item) for item in request.get("cases", ())]
        usual, expectations = contracts.Protocol(), {}
    elif view.name in suites.suites():
        cases = [catalog.normalise(item) for item in suites.suite(view.name).cases]
        usual, expectations = view.protocol, {item.case: item for item in view.cases_expected}
    else:  # of a newer service
        return [], ""
    in_turn = [request.get("duet", True) and policy.in_turn(case.key) for case in cases]
    first = usual.model_copy(update={"replicates": 1})
    pairs = [
        pair_s(case) if beside else _apart_s(case, first, usual, expectations.get(case.key))
        for case, beside in zip(cases, in_turn, strict=True)
    ]
    return pairs, _TOLD if all(in_turn) else _basis(cases, expectations)


def _apart_s(
    case: contracts.Case,
    first: contracts.Protocol,
    usual: contracts.Protocol,
    expectation: CaseExpectation | None,
) -> tuple[float, float]:
    one, later = (
        2 * _case_s(case, asked, usual, expectation) for asked in (first, first.timing_only())
    )
    return one, later


def _suite(known: Catalog, name: str | None) -> SuiteView | None:
    return next((suite for suite in known.suites if suite.name == name), None)


def left_out(submission: jobs.Submitted) -> str | None:
    """Say how many cases of a suite the service left out for the device at hand; None if none."""
    if not submission.left_out:
        return None
    asked = submission.left_out + len(submission.cases)
    return (
        f"{submission.left_out} of its {asked} cases are left out: they cannot run on the device "
        "that is asked for, or that all workers of the last day have."
    )


def _case_s(
    case: contracts.Case,
    asked: contracts.Protocol,
    usual: contracts.Protocol,
    expectation: CaseExpectation | None,
) -> float:
    if expectation is None:  # the suite has other cases by now
        return expected_s(case, asked)
    return expectation.expected_s * expected_s(case, asked) / expected_s(case, usual)


def _basis(cases: Sequence[contracts.Case], expected: Mapping[str, CaseExpectation]) -> str:
    known = [expected[case.key] for case in cases if case.key in expected]
    before = sum(expectation.measured_before for expectation in known)
    if before == 0:
        return _TOLD
    if before >= len(cases):
        return "as measured before"
    return f"{before} of them as measured before, the others told from the protocol"
