"""Findings: one per cause, announced once, closed when it is over."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from builders import long_series as long
from builders.long_forms import long_but
from builders.long_series import DROPPED, RAISED, STEADY, noisy
from builders.looked import QUIET, actions_of, arrive, findings_in_order, only
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Case
from service import findings
from service.analysis.detection.change import ChangePoint
from service.database.session import Database
from service.findings import confirm, gather_evidence, opening, pipeline
from service.findings.bad_nodes import Compared
from service.findings.rules import Candidate
from service.history import (
    analysis,
    changes,
    exclusions,
    pending,
    revisions,
    series_history,
)
from service.history.analysis import Histories, load_history
from service.models import FindingEvent, FindingRow, FindingState, SeriesRow
from service.schemas.errors import Conflict
from service.schemas.findings import Certainty, FindingKind, FindingSummary


@pytest.mark.both_databases(slow="postgresql")
def test_corrected_dates_move_what_findings_say_of_their_place(session: Session) -> None:
    """As when a history that was taken in undated is dated afterwards."""
    arrive(session, noisy([100.0] * 20 + [95.0] * 12 + [100.0] * 12))
    before = only(session)
    (told,) = findings.load_finding(session, before.id).series
    assert (before.state, told.ended) == (FindingState.RESOLVED, "recovered")
    assert told.ended_at is not None
    year = timedelta(days=365)
    for number in range(44):
        made = long.placed_at(number) - year
        revisions.register(session, long.revision_of(number), made, long.START)
    assert long.look(session) == []
    after = only(session)
    assert after.first_bad_at == before.first_bad_at - year
    (link,) = findings.load_finding(session, after.id).series
    assert link.first_bad_at == told.first_bad_at - year
    assert link.ended_at == told.ended_at - year
    arrive(session, noisy([100.0] * 3, seed=3), start=44)
    assert replace(only(session), first_bad_at=before.first_bad_at) == before


def test_a_drop_becomes_one_finding_that_is_announced_once(session: Session) -> None:
    opened = arrive(session, noisy(STEADY + DROPPED))
    finding = only(session)
    assert opened == [finding.id]
    assert (finding.kind, finding.state) == (FindingKind.REGRESSION, FindingState.OPEN)
    assert (finding.last_good, finding.first_bad) == (long.revision_of(19), long.revision_of(20))
    assert finding.worst_effect == pytest.approx(-0.05, abs=0.01)
    assert actions_of(session, finding.id) == ["open"]


def test_how_sure_a_finding_is_follows_what_came_since(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED[:5]))
    (early,) = findings.load_finding(session, only(session).id).series
    arrive(session, noisy(DROPPED, seed=5), start=25)
    (later,) = findings.load_finding(session, only(session).id).series
    assert early.doubt > 0.05 > later.doubt


def test_a_steady_history_opens_nothing(session: Session) -> None:
    assert arrive(session, noisy([100.0] * 80, seed=3), quiet=0) == []


def test_a_rise_is_an_improvement(session: Session) -> None:
    arrive(session, noisy(STEADY + RAISED))
    assert only(session).kind is FindingKind.IMPROVEMENT


@pytest.mark.parametrize(("level", "told"), [(99.6, 0), (99.2, 1)])
def test_what_moved_by_less_than_half_a_percent_is_placed_and_nobody_is_told(
    session: Session, level: float, told: int
) -> None:
    opened = arrive(session, noisy([100.0] * 20 + [level] * 20, deviation=0.0005))
    (placed,) = analysis.load_analysis(session, long.SERIES).changes
    assert placed.change.effect == pytest.approx(level / 100 - 1, abs=0.001)
    assert len(opened) == told


def test_a_revert_closes_the_finding_and_opens_no_improvement(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED + [100.0] * 12))
    finding = only(session)
    assert finding.state is FindingState.RESOLVED
    (event,) = [
        each
        for each in findings.load_finding(session, finding.id).events
        if each.action == "resolve"
    ]
    assert event.actor == "throughline"
    assert long.revision_of(32) in event.detail


def test_two_drops_that_are_reverted_at_once_are_both_over(session: Session) -> None:
    arrive(session, noisy(STEADY + [95.0] * 15 + [90.0] * 15 + [100.0] * 12))
    told = findings.list_findings(session).items
    assert [(each.kind, each.state) for each in told] == [
        (FindingKind.REGRESSION, FindingState.RESOLVED)
    ] * 2


def test_what_is_better_than_before_a_drop_ends_it_and_is_told(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED + [103.0] * 12))
    worse, better = findings_in_order(session)
    assert (worse.kind, worse.state) == (FindingKind.REGRESSION, FindingState.RESOLVED)
    assert (better.kind, better.state) == (FindingKind.IMPROVEMENT, FindingState.OPEN)


@pytest.mark.both_databases
def test_two_series_that_fall_together_are_one_finding(session: Session) -> None:
    both = noisy(STEADY + DROPPED), noisy(STEADY + DROPPED, seed=9)
    for number, (one, other) in enumerate(zip(*both, strict=True)):
        long.add(session, {number: one})
        long.add_point(session, number, other, long.OTHER)
        if number >= QUIET:
            long.look(session)
    finding = only(session)
    assert finding.series_count == 2
    assert actions_of(session, finding.id).count("open") == 1


def test_proposed_changes_that_were_compared_do_not_part_one_cause(session: Session) -> None:
    one, other = noisy(STEADY + DROPPED), noisy([100.0] * 21 + [95.0] * 11, seed=2)
    for number in range(32):
        long.add_proposals(session, number, 5)
        long.add(session, {number: one[number]})
        if number != 20:
            long.add(session, {number: other[number]}, series_id=long.OTHER, place=1)
        if number >= QUIET:
            long.look(session)
    assert only(session).series_count == 2


def test_changes_that_are_surely_a_revision_apart_are_two_findings(session: Session) -> None:
    one, other = noisy(STEADY + DROPPED), noisy([100.0] * 21 + [95.0] * 11, seed=2)
    for number in range(32):
        long.add(session, {number: one[number]})
        long.add(session, {number: other[number]}, series_id=long.OTHER, place=1)
        if number >= QUIET:
            long.look(session)
    first, second = findings_in_order(session)
    assert (first.first_bad, second.first_bad) == (long.revision_of(20), long.revision_of(21))


def test_two_steps_far_apart_are_two_findings(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED + [90.0] * 12))
    assert len(findings.list_findings(session).items) == 2


def test_what_was_declared_expected_stays_closed(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    finding = only(session)
    findings.act(session, finding.id, "expect", "ada", long.START, detail="bigger model")
    arrive(session, noisy([95.0] * 20, seed=5), start=32)
    assert only(session).state is FindingState.EXPECTED


@pytest.mark.parametrize("at_once", [False, True])
def test_a_return_from_a_level_that_was_declared_the_baseline_is_told(
    session: Session, at_once: bool
) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    findings.act(session, only(session).id, "expect", "ada", long.START)
    arrive(session, noisy([95.0] * 20, seed=2), 32)
    back = noisy([100.0] * 15, seed=3)
    if at_once:
        long.add(session, dict(enumerate(back, 52)))
        long.look(session)
    else:
        arrive(session, back, 52)
    expected, returned = findings_in_order(session)
    assert expected.state == FindingState.EXPECTED
    assert (returned.kind, returned.state) == (FindingKind.IMPROVEMENT, FindingState.OPEN)
    assert returned.first_bad == long.revision_of(52)
    arrive(session, noisy([95.0] * 15, seed=4), 67)
    _, returned, again = findings_in_order(session)
    assert returned.state == FindingState.RESOLVED
    assert (again.kind, again.first_bad) == (FindingKind.REGRESSION, long.revision_of(67))


def test_an_expected_improvement_that_is_lost_is_a_regression(session: Session) -> None:
    arrive(session, noisy(STEADY + RAISED))
    findings.act(session, only(session).id, "expect", "ada", long.START)
    arrive(session, noisy([100.0] * 12, seed=2), 32)
    expected, lost = findings_in_order(session)
    assert expected.state == FindingState.EXPECTED
    assert (lost.kind, lost.first_bad) == (FindingKind.REGRESSION, long.revision_of(32))


def test_a_finding_whose_evidence_is_excluded_is_withdrawn_and_comes_back(
    session: Session,
) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    finding = only(session)
    for number in range(20, 32):
        exclusions.exclude(session, long.result_of(number), "wrong clock", "ada", long.START)
    long.look(session)
    assert only(session).state is FindingState.WITHDRAWN
    for number in range(20, 32):
        exclusions.include(session, long.result_of(number), "ada", long.START)
    long.look(session)
    assert only(session).state is FindingState.OPEN
    assert actions_of(session, finding.id).count("open") == 1


@pytest.mark.both_databases
def test_a_withdrawn_finding_comes_back_where_its_change_is_by_then(session: Session) -> None:
    """Of the results that were excluded, the first two stay so: they were no part of it."""
    arrive(session, noisy(STEADY + DROPPED))
    first = only(session)
    for number in range(20, 32):
        exclusions.exclude(
            session, long.result_of(number), "wrong clock", "ada", long.placed_at(40)
        )
    long.look(session)
    assert only(session).state is FindingState.WITHDRAWN
    for number in range(22, 32):
        exclusions.include(session, long.result_of(number), "ada", long.placed_at(40))
    long.look(session)
    again = only(session)
    assert (again.id, again.state) == (first.id, FindingState.OPEN)
    assert (again.last_good, again.first_bad) == (long.revision_of(19), long.revision_of(22))
    assert f"since {long.revision_of(22)}" in again.sentence


@pytest.mark.parametrize(
    ("truth", "at_once"), long_but(itertools.product([30, 35, 40], [True, False]), 0, 3)
)
def test_what_comes_in_between_last_good_and_first_bad_narrows_a_finding_down(
    session: Session, truth: int, at_once: bool
) -> None:
    """As when somebody bisects: the finding is the same one, and blames another revision."""
    values = noisy([100.0] * truth + [95.0] * (60 - truth))
    first = first_of_gap(session, values, range(30, 40))
    assert (first.last_good, first.first_bad) == (long.revision_of(29), long.revision_of(40))
    fill(session, values, range(30, 40), at_once)
    finding = only(session)
    assert (finding.id, finding.state) == (first.id, FindingState.OPEN)
    assert finding.last_good == long.revision_of(truth - 1)
    assert finding.first_bad == long.revision_of(truth)
    assert finding.first_bad_at == long.placed_at(truth)
    assert f"since {long.revision_of(truth)}." in finding.sentence
    assert finding.headline.endswith(f"slower since {long.revision_of(truth)}")
    assert actions_of(session, finding.id)[:2] == ["open", "move"]
    assert actions_of(session, finding.id).count("open") == 1
    (link,) = findings.load_finding(session, finding.id).series
    assert link.first_bad_result == long.result_of(truth)


@pytest.mark.parametrize("truth", [30, 45, 60])
def test_many_points_that_come_in_late_at_once_narrow_a_finding_down(
    session: Session, truth: int
) -> None:
    """More of them than a change may wander as points follow it."""
    values = noisy([100.0] * truth + [95.0] * (80 - truth))
    first = first_of_gap(session, values, range(30, 60))
    fill(session, values, range(30, 60), at_once=True)
    finding = only(session)
    assert (finding.id, finding.first_bad) == (first.id, long.revision_of(truth))
    assert actions_of(session, finding.id) == ["open", "move"]


def test_what_was_not_there_when_measured_again_blames_no_code_where_it_moved_to(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirm, "not_reproduced", lambda *_: True)
    values = noisy([100.0] * 35 + [95.0] * 25)
    first_of_gap(session, values, range(30, 40))
    fill(session, values, range(30, 40), at_once=True)
    finding = only(session)
    assert f"since {long.revision_of(35)}" in finding.sentence
    assert "the code does not explain it" in finding.sentence
    assert finding.cause == "unknown"


@pytest.mark.parametrize("action", ["expect", "infrastructure"])
def test_a_closed_finding_stays_where_it_was_closed(session: Session, action: str) -> None:
    values = noisy([100.0] * 35 + [95.0] * 25)
    first = first_of_gap(session, values, range(30, 40))
    findings.act(session, first.id, action, "ada", long.placed_at(60))
    fill(session, values, range(30, 40), at_once=False)
    assert only(session).first_bad == long.revision_of(40)


def test_a_finding_that_was_measured_again_keeps_the_revisions_that_were(
    session: Session,
) -> None:
    values = noisy([100.0] * 35 + [97.0] * 25)
    for number in (*range(30), 40, 41):
        long.add(session, {number: values[number]})
        if number >= QUIET:
            long.look(session)
    opening.open_findings(Histories(session), [confirmed_drop(session, 30, 40)], long.START)
    for number in range(42, 60):
        long.add(session, {number: values[number]})
        long.look(session)
    fill(session, values, range(30, 40), at_once=False)
    finding = only(session)
    assert (finding.last_good, finding.first_bad) == (long.revision_of(29), long.revision_of(40))


def first_of_gap(session: Session, values: Sequence[float], gap: range) -> FindingSummary:
    """The finding about points of which those in ``gap`` have not come in yet."""
    arrive(session, values[: gap.start])
    arrive(session, values[gap.stop :], start=gap.stop)
    return only(session)


def fill(session: Session, values: Sequence[float], gap: range, at_once: bool) -> None:
    """The points of ``gap`` come in, one by one or within one look."""
    if at_once:
        long.add(session, {number: values[number] for number in gap})
    else:
        for number in gap:
            long.add(session, {number: values[number]})
            long.look(session)
    long.look(session)


def test_a_slower_worker_that_measures_the_old_level_again_ends_a_short_drop(
    database: Database,
) -> None:
    """Two points are no level of their own: that it is over is told by those that follow alone."""
    speeds = {"x": 1.0, "y": 0.96}
    noise = np.exp(np.random.default_rng(5).normal(0, 0.002, 80))

    def come(session: Session, numbers: range, workers: str, factor: float = 1.0) -> None:
        for number in numbers:
            worker = workers[number % len(workers)]
            value = float(100.0 * speeds[worker] * factor * noise[number])
            long.add(session, {number: value}, worker)
            if number >= QUIET:
                long.look(session)

    with database.writing() as session:
        long.prepare(session, ["x", "y"])
        come(session, range(40), "xy")
        come(session, range(40, 42), "xy", 0.97)
        opened = opening.open_findings(
            Histories(session), [confirmed_drop(session, 40)], long.START
        )
        come(session, range(42, 50), "y")
        (link,) = findings.load_finding(session, opened[0]).series
    assert link.ended == "recovered"


def confirmed_drop(session: Session, number: int, first_bad: int | None = None) -> Candidate:
    """A drop of three per cent, as one that was measured again is told.

    ``number`` is its place among the points; ``first_bad`` its revision, if that has another.
    """
    first_bad = number if first_bad is None else first_bad
    history = load_history(session, long.SERIES)
    before = float(np.median(history.values[:number]))
    change = ChangePoint(
        index=number,
        effect=-0.03,
        effect_low=-0.035,
        effect_high=-0.025,
        before=before,
        after=0.97 * before,
        improvement=False,
        confidence=0.99,
        evidence=9.0,
    )
    placed = series_history.PlacedChange(
        change,
        long.revision_of(number - 1),
        long.revision_of(first_bad),
        long.placed_at(first_bad),
        long.result_of(first_bad),
    )
    placed = changes.adopt(session, history.recent, placed, long.START)
    return Candidate(
        series=history.series,
        placed=placed,
        **gather_evidence.where_of(session, placed, history.series.project),
        doubt=0.01,
        certainty=Certainty.CONFIRMED,
    )


def test_an_imported_history_announces_only_what_is_recent(session: Session) -> None:
    long.add(session, dict(enumerate(noisy(STEADY + DROPPED + [95.0] * 100))))
    assert long.look(session) == []
    assert len(analysis.load_analysis(session, long.SERIES).changes) == 1


@pytest.mark.both_databases
def test_looking_twice_opens_nothing_twice(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    place = long.placed_at(0)
    pending.mark_pending(session, long.START, long.revision_of(0), place, long.result_of(0))
    assert long.look(session) == []
    assert session.scalar(select(func.count()).select_from(FindingRow)) == 1


@pytest.mark.both_databases
def test_whoever_saw_an_older_version_is_told(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    finding = only(session)
    findings.act(session, finding.id, "acknowledge", "ada", long.START, version=finding.version)
    with pytest.raises(Conflict, match="changed"):
        findings.act(session, finding.id, "expect", "bob", long.START, version=finding.version)
    with pytest.raises(Conflict, match="acknowledged"):
        findings.act(session, finding.id, "acknowledge", "bob", long.START)
    findings.plan(session, finding.id, findings.Plan(owner="ada"), "bob", long.START)
    assert only(session).owner == "ada"
    assert actions_of(session, finding.id)[-1] == "plan"


def test_every_action_leads_from_where_it_makes_sense_and_leaves_a_record(
    session: Session,
) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    finding_id = only(session).id
    for name in findings.ACTIONS:
        if name == "reopen":
            continue
        findings.act(session, finding_id, name, "ada", long.START)
        assert only(session).state == findings.ACTIONS[name].to
        if name != "acknowledge":
            assert only(session).closed_at is not None
            findings.act(session, finding_id, "reopen", "ada", long.START)
            assert only(session).closed_at is None
    rows = session.scalars(select(FindingEvent).where(FindingEvent.actor == "ada")).all()
    assert len(rows) == 2 * len(findings.ACTIONS) - 3


def test_the_expected_number_of_false_findings_is_reported(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    expected = findings.expected_false_since(session, long.START - timedelta(days=1))
    assert 0 < expected <= 0.2
    later: Any = findings.expected_false_since(session, long.START + timedelta(days=1))
    assert later == 0


@pytest.mark.parametrize(
    ("action", "known"), [("withdraw", True), ("not_reproduced", True), ("infrastructure", False)]
)
def test_what_was_refuted_is_reported_as_false(session: Session, action: str, known: bool) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    since = long.START - timedelta(days=1)
    expected = findings.expected_false_since(session, since)
    findings.act(session, only(session).id, action, "ada", long.START)
    assert findings.expected_false_since(session, since) == (1.0 if known else expected)
    findings.act(session, only(session).id, "reopen", "ada", long.START)
    assert findings.expected_false_since(session, since) == expected


def test_an_improvement_that_is_lost_again_is_a_regression(session: Session) -> None:
    arrive(session, noisy(STEADY + [110.0] * 40))
    findings.act(session, only(session).id, "expect", "ada", long.START)
    arrive(session, noisy([100.0] * 12, seed=5), start=60)
    gained, lost = sorted(findings.list_findings(session).items, key=lambda each: each.kind)
    assert (gained.kind, gained.state) == (FindingKind.IMPROVEMENT, FindingState.EXPECTED)
    assert (lost.kind, lost.state) == (FindingKind.REGRESSION, FindingState.OPEN)


def test_a_lost_improvement_that_nobody_had_closed_is_closed_and_told(session: Session) -> None:
    arrive(session, noisy(STEADY + [110.0] * 40 + [100.0] * 12))
    gained, lost = sorted(findings.list_findings(session).items, key=lambda each: each.kind)
    assert gained.state is FindingState.RESOLVED
    assert (lost.kind, lost.state) == (FindingKind.REGRESSION, FindingState.OPEN)


def test_many_points_of_one_revision_are_one_finding(session: Session) -> None:
    """A schedule that measures the same revision every night, and its node becomes slower."""
    for night, value in enumerate(noisy([100.0] * 40 + [95.0] * 30)):
        long.add(session, {0: value}, place=night, minutes=night)
        if night >= 35:
            long.look(session)
    finding = only(session)
    assert finding.state is FindingState.OPEN
    assert actions_of(session, finding.id) == ["open"]


def test_a_node_of_another_speed_does_not_split_a_revision(database: Database) -> None:
    """What it measures at the new level looks like the old one, or the other way round."""
    with database.writing() as session:
        long.prepare(session, ["fast", "slow"])
        steps = np.exp(np.random.default_rng(3).normal(0, 0.001, 80)) * 100.0
        for number, step in enumerate(steps):
            night, turn = divmod(number, 2)
            value = step * (0.99 if night >= 26 else 1.0) * (1.0 if turn else 1.015)
            worker = "slow" if turn else "fast"
            long.add(session, {night: float(value)}, worker, place=turn, minutes=turn)
            if night >= QUIET:
                long.look(session)
        (placed,) = analysis.load_analysis(session, long.SERIES).changes
        assert (placed.last_good, placed.first_bad) == (long.revision_of(25), long.revision_of(26))
        (found,) = [
            gather_evidence.members(session, row) for row in session.scalars(select(FindingRow))
        ]
        asked = gather_evidence.question_of(Histories(session), found)
    before, after = ({each.revision for each in side} for side in (asked.before, asked.after))
    assert long.revision_of(26) in after
    assert not before & after


@pytest.mark.parametrize(
    ("before", "after", "common"),
    [
        ("xxxxxxxxxyxxxxxxxxxx", "yyyyyyyyyyyy", {"y"}),
        ("xxxxxxxxxxxxxxxxxxxx", "yyyyyyyyyxyy", {"x"}),
        ("xxxxxxxxxxxxxxxxxxxx", "yyyyyyyyyyyy", set()),
    ],
)
def test_a_machine_that_measured_both_levels_is_asked_for_even_if_it_did_so_farther_away(
    database: Database, before: str, after: str, common: set[str]
) -> None:
    with database.writing() as session:
        long.prepare(session, ["x", "y"])
        for number, (value, worker) in enumerate(
            zip(noisy(STEADY + DROPPED), before + after, strict=True)
        ):
            long.add(session, {number: value}, worker)
            if number >= QUIET:
                long.look(session)
        (found,) = [
            gather_evidence.members(session, row) for row in session.scalars(select(FindingRow))
        ]
        asked = gather_evidence.question_of(Histories(session), found)
    workers = [{each.worker for each in side} for side in (asked.before, asked.after)]
    assert workers[0] & workers[1] == common
    assert [len(side) for side in (asked.before, asked.after)] == [gather_evidence.A_SIDE] * 2
    assert asked.before[-1].revision == long.revision_of(19)
    assert asked.after[0].revision == long.revision_of(20)


def both(
    session: Session, one: Sequence[float], other: Sequence[float], action: str = "expect"
) -> list[FindingSummary]:
    """The first series, whose finding somebody closes, and then the other one for the same nights.

    All findings, in the order in which they were opened.
    """
    arrive(session, one)
    first = only(session)
    findings.act(session, first.id, action, "ada", long.placed_at(40), detail="larger batch")
    for number, value in enumerate(other):
        long.add(session, {number: value}, series_id=long.OTHER, place=1)
        if number >= QUIET:
            long.look(session)
    told = findings.list_findings(session).items
    return [first, *(each for each in told if each.id != first.id)]


@pytest.mark.both_databases(slow="postgresql")
@pytest.mark.parametrize(
    ("workload", "level", "taken_in"),
    long_but([("resnet50", 194.0, True), ("resnet50", 160.0, False), ("unet", 194.0, True)], 0, 1),
)
def test_a_closed_finding_takes_in_what_moved_as_far_in_any_workload(
    session: Session, monkeypatch: pytest.MonkeyPatch, workload: str, level: float, taken_in: bool
) -> None:
    case = Case(workload=workload, preset="full", axes={"precision": "bf16"})
    monkeypatch.setitem(long.CASES, long.OTHER, case)
    row = session.get_one(SeriesRow, long.OTHER)
    row.case_key, row.case = case.key, case.model_dump(mode="json")
    told = both(session, noisy(STEADY + [97.0] * 12), noisy([200.0] * 20 + [level] * 12, seed=2))
    assert len(told) == (1 if taken_in else 2)
    assert taken_in or told[1].state is FindingState.OPEN


@pytest.mark.parametrize("closed", [True, False])
def test_at_one_revision_for_ever_a_later_drop_of_another_series_is_told(
    session: Session, closed: bool
) -> None:
    one, other = noisy(STEADY + [95.0] * 30), noisy([200.0] * 36 + [190.0] * 14, seed=2)
    for night, (left, right) in enumerate(zip(one, other, strict=True)):
        long.add(session, {0: left}, place=2 * night, minutes=night)
        long.add(session, {0: right}, series_id=long.OTHER, place=2 * night + 1, minutes=night)
        if night >= QUIET:
            long.look(session)
        if night == 30 and closed:
            findings.act(session, only(session).id, "environment", "ada", long.START)
    told = findings.list_findings(session).items
    assert sorted(each.series_count for each in told) == [1, 1]


@pytest.mark.both_databases
def test_two_changes_of_one_series_in_one_look_are_two_findings(session: Session) -> None:
    """The second begins a revision later: each was measured twelve times."""
    for number, value in enumerate(noisy(STEADY + DROPPED + [88.0] * 12)):
        revision = number if number < 20 else 20 if number < 32 else 21
        long.add(session, {revision: value}, place=number, minutes=number)
    assert len(long.look(session)) == 2
    assert [each.first_bad for each in findings_in_order(session)] == [
        long.revision_of(20),
        long.revision_of(21),
    ]
    long.add(session, {22: 88.1})
    assert long.look(session) == []


@pytest.mark.parametrize("level", [95.0, 106.0])
def test_a_change_and_its_return_in_one_look_are_told_as_if_seen_one_by_one(
    sqlite_url: str, level: float
) -> None:
    outcomes = []
    values = noisy(STEADY + [level] * 12 + [100.0] * 12)
    for together in (True, False):
        database = Database(sqlite_url)
        with database.writing() as session:
            long.prepare(session)
            if together:
                long.add(session, dict(enumerate(values)))
                long.look(session)
            else:
                arrive(session, values)
            outcomes.append(
                [
                    (each.kind, each.state, each.first_bad, actions_of(session, each.id))
                    for each in findings_in_order(session)
                ]
            )
            session.rollback()
        database.close()
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0][1] is FindingState.RESOLVED


def test_two_services_that_look_at_once_tell_of_a_change_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(noisy(STEADY + DROPPED))))
    compare, others = pipeline.compare_nodes, iter([database])

    def after_another(session: Session) -> tuple[Compared, ...]:
        """Another service looks too, between following a series and opening findings."""
        if (other := next(others, None)) is not None:
            assert pipeline.look(other, daily=0).opened
        return compare(session)

    monkeypatch.setattr(pipeline, "compare_nodes", after_another)
    assert not pipeline.look(database, daily=0).opened
    with database.reading() as session:
        assert len(findings.list_findings(session).items) == 1
