"""What was submitted, and how long it will take: told before anyone waits for it."""

from __future__ import annotations

from benchmarks.contracts import Case, Protocol
from benchmarks.duration import expected_s
from benchmarks.tiers import Tier, timed
from cli.answers import CaseExpectation, CatalogView, SubmissionView
from service import formats


def sentence(
    submission: SubmissionView,
    known: CatalogView,
    replicates: int | None = None,
    tier: Tier | None = None,
) -> str | None:
    """Such as ``About 15 min for 17 cases on one worker``, and what that rests on.

    Args:
        submission: what was submitted.
        known: how long the service expects each case of a suite to take.
        replicates: what was asked for in place of the suite's own number.
        tier: what was asked for in place of the suite's own timing.
    """
    for suite in known.suites:
        if suite.name == submission.suite:
            asked = timed(tier, suite.protocol) if tier else suite.protocol
            if replicates is not None:
                asked = asked.model_copy(update={"replicates": replicates})
            cases = [job.case for job in submission.jobs]
            told = {each.case: each for each in suite.cases_expected}
            total_s = sum(
                _case_s(case, asked, suite.protocol, told.get(case.key)) for case in cases
            )
            before = sum(case.key in told and told[case.key].measured_before for case in cases)
            count = f"{len(cases)} {'case' if len(cases) == 1 else 'cases'}"
            return (
                f"About {formats.duration(total_s)} for {count} on one worker "
                f"({_basis(before, len(cases))})."
            )
    return None


def left_out(submission: SubmissionView) -> str | None:
    """How many of the cases of a suite that was just submitted were not queued; or None.

    The service leaves out what the device at hand refuses.
    """
    if not submission.left_out:
        return None
    asked = submission.left_out + len(submission.jobs)
    return (
        f"{submission.left_out} of its {asked} cases are left out: they cannot run on the device "
        "that is asked for, or that all workers of the last day have."
    )


def _case_s(case: Case, asked: Protocol, usual: Protocol, told: CaseExpectation | None) -> float:
    """Seconds for one case; what the service tells is of the suite's ``usual`` protocol."""
    if told is None:  # a service that does not tell yet
        return expected_s(case, asked)
    return told.expected_s * expected_s(case, asked) / expected_s(case, usual)


def _basis(before: int, cases: int) -> str:
    if before == 0:
        return "told from the protocol, for a GPU"
    if before >= cases:
        return "as measured before"
    return f"{before} of them as measured before, the others told from the protocol"
