"""What comes again after a finding was closed, withdrawn or opened again: told, and told once."""

import pytest
from builders import long_series as long
from builders.long_series import DROPPED, STEADY, noisy
from builders.looked import QUIET, arrive, findings_in_order, only
from sqlalchemy.orm import Session

from service import findings
from service.history import analysis, exclusions
from service.models import FindingState
from service.schemas.findings import FindingKind


def test_what_a_person_has_opened_again_stays_open(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED + [100.0] * 12))
    finding = only(session)
    findings.act(session, finding.id, "reopen", "ada", long.START)
    arrive(session, noisy([100.0] * 5, seed=8), start=44)
    assert only(session).state is FindingState.OPEN


def test_a_note_does_not_keep_a_withdrawn_finding_from_coming_back(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    finding = only(session)
    for number in range(20, 32):
        exclusions.exclude(session, long.result_of(number), "wrong clock", "ada", long.START)
    long.look(session)
    findings.plan(session, finding.id, findings.Plan(note="odd"), "ada", long.START)
    for number in range(20, 32):
        exclusions.include(session, long.result_of(number), "ada", long.START)
    long.look(session)
    assert only(session).state is FindingState.OPEN


def test_a_change_after_a_closed_finding_is_told(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    first = only(session)
    findings.act(session, first.id, "resolve", "ada", long.START)
    for number, value in enumerate(noisy([100.0] * 23 + [80.0] * 12, seed=6)):
        long.add(session, {number: value}, series_id=long.OTHER, place=1)
        if number >= QUIET:
            long.look(session)
    other = next(each for each in findings.list_findings(session).items if each.id != first.id)
    assert (other.kind, other.state) == (FindingKind.REGRESSION, FindingState.OPEN)


@pytest.mark.parametrize(("bad", "good"), [(5, 3), (6, 3), (6, 4)])
def test_what_lands_again_after_a_finding_was_closed_is_told(
    session: Session, bad: int, good: int
) -> None:
    """To the detector both are one drop, from the first night on."""
    values = noisy(STEADY + [95.0] * bad + [100.0] * good + [95.0] * 12)
    arrive(session, values[: 20 + bad])
    findings.act(session, only(session).id, "resolve", "ada", long.placed_at(20 + bad))
    arrive(session, values[20 + bad :], start=20 + bad)
    assert len(analysis.load_analysis(session, long.SERIES).changes) == 1
    first, again = findings_in_order(session)
    assert (first.state, again.state) == (FindingState.RESOLVED, FindingState.OPEN)
    assert again.first_bad == long.revision_of(20 + bad + good)


def test_what_was_there_when_a_finding_was_closed_is_not_told_again(session: Session) -> None:
    values = noisy(STEADY + [95.0] * 6 + [100.0] * 3 + [95.0] * 20)
    arrive(session, values[:39])
    first, again = findings_in_order(session)
    assert (first.state, again.state) == (FindingState.WITHDRAWN, FindingState.OPEN)
    findings.act(session, again.id, "expect", "ada", long.placed_at(40))
    arrive(session, values[39:], start=39)
    first, again = findings_in_order(session)
    assert (first.state, again.state) == (FindingState.WITHDRAWN, FindingState.EXPECTED)


@pytest.mark.parametrize("action", ["infrastructure", "withdraw", "not_reproduced", ""])
def test_a_drop_soon_after_excluded_results_is_told(session: Session, action: str) -> None:
    arrive(session, noisy(STEADY + [95.0] * 6))
    first = only(session)
    now = long.placed_at(26)
    if action:
        findings.act(session, first.id, action, "ada", now)
    for number in range(20, 26):
        exclusions.exclude(session, long.result_of(number), "fan broken", "ada", now)
    long.look(session)
    arrive(session, noisy([100.0] * 2 + [94.0] * 14, seed=8), start=26)
    told = {each.id: each for each in findings.list_findings(session).items}
    assert told.pop(first.id).state not in findings.ACTIVE
    (again,) = told.values()
    assert (again.state, again.first_bad) == (FindingState.OPEN, long.revision_of(28))


def test_a_drop_of_which_only_the_first_result_is_excluded_is_the_same(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    first = only(session)
    findings.act(session, first.id, "expect", "ada", long.placed_at(32))
    exclusions.exclude(session, long.result_of(20), "fan broken", "ada", long.placed_at(32))
    long.look(session)
    arrive(session, noisy([95.0] * 8, seed=8), start=32)
    assert only(session).state is FindingState.EXPECTED


def test_a_larger_drop_just_after_a_closed_finding_is_told(session: Session) -> None:
    arrive(session, noisy(STEADY + [97.0] * 8))
    first = only(session)
    findings.act(session, first.id, "expect", "ada", long.placed_at(28))
    arrive(session, noisy([80.0] * 12, seed=8), start=28)
    (again,) = [each for each in findings.list_findings(session).items if each.id != first.id]
    assert (again.state, again.first_bad) == (FindingState.OPEN, long.revision_of(28))


@pytest.mark.parametrize(
    "seed", [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (6, 9))]
)
def test_a_level_that_is_being_lost_again_is_not_announced_as_won(
    session: Session, seed: int
) -> None:
    """Old points hold the new ones up: for some nights both are one level, not quite recovered."""
    values = noisy([100.0] * 25 + [95.0] * 42 + [100.0] * 12 + [95.0] * 14, seed)
    arrive(session, values[:37])
    findings.act(session, only(session).id, "resolve", "ada", long.placed_at(37))
    arrive(session, values[37:], start=37)
    first, again = findings_in_order(session)
    assert (first.state, first.kind) == (FindingState.RESOLVED, FindingKind.REGRESSION)
    assert (again.state, again.kind) == (FindingState.OPEN, FindingKind.REGRESSION)
    assert again.first_bad == long.revision_of(79)


def test_a_recovery_that_was_no_news_is_none_when_it_is_lost_weeks_later(session: Session) -> None:
    """With the second drop, levels look as if they drifted: the old recovery as if it were more."""
    arrive(session, noisy([100.0] * 30 + [95.0] * 12 + [100.0] * 15 + [95.0] * 15, seed=1))
    first, again = findings_in_order(session)
    assert (first.state, first.kind) == (FindingState.RESOLVED, FindingKind.REGRESSION)
    assert (again.state, again.kind) == (FindingState.OPEN, FindingKind.REGRESSION)
    assert again.first_bad == long.revision_of(57)


@pytest.mark.parametrize("later", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_what_becomes_better_than_before_some_points_after_a_recovery_is_told(
    session: Session, later: int
) -> None:
    values = [100.0] * 40 + [95.0] * 30 + [100.0] * later + [103.0] * 15
    arrive(session, noisy(values, deviation=0.001))
    worse, better = findings_in_order(session)
    assert (worse.kind, worse.state) == (FindingKind.REGRESSION, FindingState.RESOLVED)
    assert (better.kind, better.state) == (FindingKind.IMPROVEMENT, FindingState.OPEN)
