"""How long what was submitted will take, in one sentence before anyone waits for it."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.contracts import Case, Protocol
from benchmarks.duration import expected_s
from benchmarks.tiers import Tier, timed
from cli.answers import CatalogView, SubmissionView
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
        known: how long the service expects each suite to take.
        replicates: what was asked for in place of the suite's own number.
        tier: what was asked for in place of the suite's own timing.
    """
    for suite in known.suites:
        if suite.name == submission.suite and suite.expected_s is not None:
            cases = [job.case for job in submission.jobs]
            asked = timed(tier, suite.protocol) if tier else suite.protocol
            if replicates is not None:
                asked = asked.model_copy(update={"replicates": replicates})
            # The service tells of the whole suite as it is; this may be more processes, or a part.
            share = _by_protocol(cases, asked) / _by_protocol(suite.cases, suite.protocol)
            count = f"{len(cases)} {'case' if len(cases) == 1 else 'cases'}"
            return (
                f"About {formats.duration(suite.expected_s * share)} for {count} on one worker "
                f"({_basis(suite.cases_measured_before, len(suite.cases))})."
            )
    return None


def _by_protocol(cases: Sequence[Case], protocol: Protocol) -> float:
    return sum(expected_s(case, protocol) for case in cases)


def _basis(before: int, cases: int) -> str:
    if before == 0:
        return "told from the protocol, for a GPU"
    if before >= cases:
        return "as measured before"
    return f"{before} of the suite's {cases} as measured before, the others told from the protocol"
