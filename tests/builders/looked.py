"""Points that come in one by one, each looked at, and the findings that this leaves."""

from collections.abc import Sequence

from builders import kept_states
from builders import long_series as long
from sqlalchemy.orm import Session

from service import findings
from service.schemas.findings import FindingSummary

QUIET = 19
"""So many points at the start of a history hold no change: to look at each of them would find
nothing, and they end as if they had been looked at, which `test_analysed_histories` shows."""


def arrive(
    database_session: Session,
    values: Sequence[float],
    start: int = 0,
    series: str = long.SERIES,
    quiet: int = QUIET,
) -> list[str]:
    """Points come in one by one, and each is looked at, but the first ``quiet`` of a history
    together; the ids of findings opened.

    Many histories begin with the same points, so what the first of a test lead to is kept.
    """
    name = ("arrived", tuple(values), start, series, quiet)
    return kept_states.advance(
        database_session, name, lambda: _arrive(database_session, values, start, series, quiet)
    )


def _arrive(
    database_session: Session, values: Sequence[float], start: int, series: str, quiet: int
) -> list[str]:
    opened: list[str] = []
    for number, value in enumerate(values, start):
        long.add(database_session, {number: value}, series_id=series)
        if number >= min(quiet, start + len(values)) - 1:
            opened += long.look(database_session)
    return opened


def only(session: Session) -> FindingSummary:
    """The one finding that there is."""
    (finding,) = findings.list_findings(session).items
    return finding


def findings_in_order(session: Session) -> list[FindingSummary]:
    """All findings, in the order of what they are about."""
    return sorted(findings.list_findings(session).items, key=lambda finding: finding.first_bad_at)


def actions_of(session: Session, finding_id: str) -> list[str]:
    """What has been done with a finding, in order."""
    return [event.action for event in findings.load_finding(session, finding_id).events]
