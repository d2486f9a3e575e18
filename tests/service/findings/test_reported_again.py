"""A surprise whose both revisions are at the new level is the reported change, or another one."""

import pytest
from builders import long_series as long
from builders.long_series import noisy
from sqlalchemy.orm import Session

from service.findings.suspicion import Baseline, Suspicion
from service.findings.witnesses import is_reported
from service.history.analysis import load_history

DROPS_AT, SEEN_AT = 30, 44


def suspected(session: Session, before: float, after: float) -> bool:
    """Say if a finding has what both revisions around ``SEEN_AT`` showed when measured again."""
    history = load_history(session, long.SERIES)
    suspicion = Suspicion(
        series=history.series,
        last_good=long.revision_of(SEEN_AT - 1),
        first_bad=long.revision_of(SEEN_AT),
        first_bad_at=long.placed_at(SEEN_AT),
        first_bad_result="",
        change_id=None,
        worker="w",
        usual=Baseline(before, {}),
        after=after,
    )
    return is_reported(session, history, suspicion, beside=False)


@pytest.fixture
def slower(session: Session) -> Session:
    """A finding tells of 100 to 97 at revision 30."""
    values = noisy([100.0] * DROPS_AT + [97.0] * (SEEN_AT + 1 - DROPS_AT), seed=5)
    long.add(session, dict(enumerate(values)))
    assert long.look(session)
    return session


def test_a_change_that_is_seen_late_is_the_reported_one(slower: Session) -> None:
    assert suspected(slower, 99.6, 97.0)


@pytest.mark.parametrize(("before", "after"), [(97.0, 94.1), (97.0, 99.9), (100.0, 88.0)])
def test_a_second_step_a_recovery_and_a_larger_change_are_others(
    slower: Session, before: float, after: float
) -> None:
    assert not suspected(slower, before, after)


def test_a_change_after_the_reported_one_was_taken_back_is_another(session: Session) -> None:
    back = DROPS_AT + 10
    levels = [100.0] * DROPS_AT + [97.0] * 10 + [100.0] * (SEEN_AT + 12 - back)
    for number, value in enumerate(noisy(levels, seed=5)):
        long.add(session, {number: value})
        if number >= DROPS_AT:
            long.look(session)
    assert not suspected(session, 100.0, 97.0)
