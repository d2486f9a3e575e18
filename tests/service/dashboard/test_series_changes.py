"""The page of a series ties a finding to the change that the analysis means, and to no other."""

from builders import long_series as long
from builders.long_series import STEADY, noisy
from builders.looked import arrive, only
from sqlalchemy import select, update

from service import findings
from service.dashboard.series_changes import LevelChange, changes_of
from service.database.session import Database
from service.history.queries import load_series
from service.models import ChangeRow, FindingSeries


def shown(database: Database) -> list[LevelChange]:
    with database.reading() as session:
        return changes_of(session, load_series(session, long.SERIES))


def test_a_drop_that_came_again_is_tied_to_its_own_finding(database: Database) -> None:
    """To the detector both drops are one that begins with the first; that finding is closed."""
    values = noisy(STEADY + [95.0] * 5 + [100.0] * 3 + [95.0] * 12)
    with database.writing() as session:
        long.prepare(session)
        arrive(session, values[:25])
        first = only(session)
        findings.act(session, first.id, "resolve", "ada", long.placed_at(25))
        arrive(session, values[25:], start=25)
        (again,) = [each for each in findings.list_findings(session).items if each.id != first.id]
    (level,) = shown(database)
    assert level.finding is not None
    assert (level.finding.id, level.placed.first_bad) == (again.id, long.revision_of(28))


def test_a_finding_follows_its_change_and_not_what_lies_nearer(database: Database) -> None:
    """Two drops; what the finding of the second one says of its place is planted at the first."""
    with database.writing() as session:
        long.prepare(session)
        arrive(session, noisy(STEADY + [95.0] * 8 + [90.0] * 16, deviation=0.001))
        told = {each.first_bad: each.id for each in findings.list_findings(session).items}
        rows = session.scalars(select(ChangeRow).order_by(ChangeRow.first_bad_at)).all()
        assert [row.first_bad for row in rows] == sorted(told)
        session.execute(
            update(FindingSeries)
            .where(FindingSeries.change_id == rows[1].id)
            .values(first_bad_at=rows[0].first_bad_at, first_bad_result=rows[0].first_bad_result)
        )
    assert [each.finding and each.finding.id for each in shown(database)] == [
        told[row.first_bad] for row in rows
    ]
