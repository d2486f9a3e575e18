"""A change keeps its identity while points come in: matched once, and by nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from builders import long_series as long
from builders.long_series import DROPPED, STEADY, noisy
from builders.looked import arrive, only
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from service import findings
from service.analysis.detection.change import ChangePoint
from service.analysis.detection.windows import SAME
from service.findings import opening
from service.findings.gather_evidence import where_of
from service.findings.rules import Candidate
from service.history import analysis, changes, exclusions
from service.history.analysis import Histories, load_history
from service.history.changes import ALIKE, KnownChange, alike, identities
from service.history.series_history import PlacedChange
from service.models import AnalysisRow, ChangeRow, FindingSeries, FindingState, SettledWindow
from service.schemas.findings import Certainty


def change(index: int, effect: float) -> PlacedChange:
    """A computed change that begins with a point of its own revision."""
    point = ChangePoint(
        index=index,
        effect=effect,
        effect_low=effect - 0.001,
        effect_high=effect + 0.001,
        before=100.0,
        after=100.0 * (1.0 + effect),
        improvement=effect > 0,
        confidence=0.99,
        evidence=9.0,
    )
    good, bad = long.revision_of(index - 1), long.revision_of(index)
    return PlacedChange(point, good, bad, long.placed_at(index), long.result_of(index))


def known(
    name: str, index: int, effect: float, *, reported: bool = False, closed: bool = False
) -> KnownChange:
    """A stored change; ``closed`` only if somebody was told of it."""
    sizes = effect, effect - 0.001, effect + 0.001
    return KnownChange(name, index, index, *sizes, reported, reported and closed)


PLACES = st.integers(1, 80)
EFFECTS = st.sampled_from([-0.2, -0.05, -0.03, 0.03, 0.06])
CHANGES = st.dictionaries(PLACES, EFFECTS, max_size=6).map(
    lambda drawn: [change(index, effect) for index, effect in sorted(drawn.items())]
)
KNOWN = st.lists(st.tuples(PLACES, EFFECTS, st.booleans(), st.booleans()), max_size=6).map(
    lambda drawn: [
        known(f"{number:x}", index, effect, reported=reported, closed=closed)
        for number, (index, effect, reported, closed) in enumerate(drawn)
    ]
)


@given(computed=CHANGES, stored=KNOWN)
def test_who_is_the_same_lies_near_goes_the_same_way_and_is_nobody_else(
    computed: Sequence[PlacedChange], stored: Sequence[KnownChange]
) -> None:
    matches = identities(computed, stored)
    taken = [old.id for old in matches if old is not None]
    assert len(matches) == len(computed)
    assert len(set(taken)) == len(taken)
    for new, old in zip(computed, matches, strict=True):
        if old is not None:
            assert abs(new.change.index - old.index) <= SAME
            assert (new.change.effect > 0) == (old.effect > 0)
            assert not old.closed or alike(new.change.effect, old.effect)


@given(computed=CHANGES, stored=KNOWN)
def test_nobody_is_new_while_a_stored_change_that_it_may_be_is_left(
    computed: Sequence[PlacedChange], stored: Sequence[KnownChange]
) -> None:
    matches = identities(computed, stored)
    left = [old for old in stored if old not in matches]
    for new, old in zip(computed, matches, strict=True):
        assert old is not None or not any(old.may_be(new) for old in left)


@given(computed=CHANGES, stored=KNOWN, random=st.randoms())
def test_the_order_in_which_changes_are_stored_decides_nothing(
    computed: Sequence[PlacedChange], stored: list[KnownChange], random: Random
) -> None:
    shuffled = list(stored)
    random.shuffle(shuffled)
    assert identities(computed, shuffled) == identities(computed, stored)


@given(computed=CHANGES)
def test_an_analysis_that_is_made_again_finds_each_change_again(
    computed: Sequence[PlacedChange],
) -> None:
    stored = [
        known(f"{at:x}", one.change.index, one.change.effect) for at, one in enumerate(computed)
    ]
    assert identities(computed, stored) == stored


def test_somebody_who_was_told_of_a_change_keeps_it_before_others_do() -> None:
    near, reported = known("a", 30, -0.03), known("b", 36, -0.03, reported=True)
    assert identities([change(31, -0.03)], [near, reported]) == [reported]


def test_points_that_came_in_late_may_move_a_change_farther_than_it_wanders() -> None:
    late = replace(known("a", 60, -0.03, reported=True), since=30)
    assert identities([change(35, -0.03)], [late]) == [late]
    assert identities([change(35, -0.03)], [replace(late, since=60)]) == [None]


@pytest.mark.parametrize(("effect", "same"), [(-0.05, True), (-0.1, True), (-0.101, False)])
def test_a_closed_change_is_another_one_when_it_is_of_another_size(
    effect: float, same: bool
) -> None:
    closed = replace(known("a", 30, -0.05, reported=True, closed=True), low=-0.05, high=-0.05)
    narrow = change(30, effect)
    narrow = replace(narrow, change=replace(narrow.change, effect_low=effect, effect_high=effect))
    assert ALIKE == 2.0
    assert identities([narrow], [closed]) == [closed if same else None]


def ids(session: Session) -> list[str]:
    return [one.id for one in analysis.load_analysis(session, long.SERIES).changes]


def test_a_change_is_the_same_row_from_its_first_night_on(session: Session) -> None:
    values = noisy(STEADY + [95.0] * 30)
    seen = []
    for number, value in enumerate(values):
        arrive(session, [value], number)
        seen += ids(session)
    (link,) = session.scalars(select(FindingSeries))
    assert set(seen) == {link.change_id}
    assert len(seen) > 20


def test_a_series_that_is_analysed_from_the_start_keeps_its_changes(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED + [100.0] * 12))
    before = analysis.load_analysis(session, long.SERIES).changes
    session.execute(delete(SettledWindow))
    session.execute(delete(AnalysisRow))
    session.expire_all()
    assert ids(session) == []
    long.analyse(session, long.SERIES, long.START - timedelta(days=1))
    assert analysis.load_analysis(session, long.SERIES).changes == before
    assert len(before) == 2


def test_a_change_that_is_gone_is_kept_for_its_finding_alone(session: Session) -> None:
    arrive(session, noisy(STEADY + DROPPED))
    long.add(session, dict(enumerate(noisy(STEADY + DROPPED))), series_id=long.OTHER, place=1)
    long.analyse(session, long.OTHER, long.START)
    assert len(analysis.load_analysis(session, long.OTHER).changes) == 1
    before, out = ids(session), [(number, place) for number in range(20, 32) for place in (0, 1)]
    for number, place in out:
        result = long.result_of(number, place)
        exclusions.exclude(session, result, "wrong clock", "ada", long.placed_at(40))
    long.look(session)
    (row,) = session.scalars(select(ChangeRow))
    assert (row.id, row.present, row.series_id) == (before[0], False, long.SERIES)
    for number, place in out:
        exclusions.include(session, long.result_of(number, place), "ada", long.placed_at(40))
    long.look(session)
    assert ids(session) == before
    assert only(session).state is FindingState.OPEN


def test_what_was_measured_again_is_the_change_that_the_history_shows_later(
    session: Session,
) -> None:
    values = noisy(STEADY + DROPPED)
    arrive(session, values[:21])
    history = load_history(session, long.SERIES)
    adopted = changes.adopt(session, history.recent, change(20, -0.05), long.START)
    candidate = Candidate(
        series=history.series,
        placed=adopted,
        **where_of(session, adopted, history.series.project),
        doubt=0.01,
        certainty=Certainty.CONFIRMED,
    )
    assert len(opening.open_findings(Histories(session), [candidate], long.START)) == 1
    assert ids(session) == []
    arrive(session, values[21:], 21)
    assert ids(session) == [adopted.id]


def test_what_was_measured_again_is_a_change_right_there_and_no_reported_one(
    session: Session,
) -> None:
    values = noisy(STEADY + DROPPED)
    long.add(session, dict(enumerate(values)))
    long.analyse(session, long.SERIES, long.START)
    (shown,) = analysis.load_analysis(session, long.SERIES).changes
    tail = analysis.load_history(session, long.SERIES).recent
    assert changes.adopt(session, tail, change(22, -0.05), long.START) == shown
    assert changes.adopt(session, tail, change(24, -0.05), long.START).id != shown.id
    assert changes.adopt(session, tail, change(22, 0.05), long.START).id != shown.id
    assert len(long.look(session)) == 1
    assert changes.adopt(session, tail, change(22, -0.05), long.START).id != shown.id


def test_what_happens_again_after_its_finding_was_closed_is_another_change(
    session: Session,
) -> None:
    values = noisy(STEADY + [95.0] * 5 + [100.0] * 3 + [95.0] * 12)
    arrive(session, values[:25])
    first = only(session)
    findings.act(session, first.id, "resolve", "ada", long.placed_at(25))
    arrive(session, values[25:], start=25)
    links = {link.finding_id: link.change_id for link in session.scalars(select(FindingSeries))}
    assert len(links) == 2
    assert ids(session) == [name for finding, name in links.items() if finding != first.id]
