"""The promises, and the run that checks them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from service.database.session import Database
from service.history.artifacts import ArtifactStore
from service.maintenance.verify import (
    agreement,
    any_row,
    bisection_rows,
    comparison_rows,
    finding_rows,
    guards,
    imported,
    jobs,
    series,
    values,
    whole,
)
from service.maintenance.verify.reading import every_job
from service.maintenance.verify.statements import ROW_CHECKS
from service.schemas.errors import ArtifactsUnavailable

PROMISES = {
    1: "Every accepted job reaches one terminal state, once.",
    2: "Every answered result is present with its digest, and so is each artifact that is kept.",
    3: "A job has at most one counted result, of its last attempt, from the lease holder.",
    4: "Attempts are 1, 2, 3 ... without a gap.",
    5: "No two leases for one job at once, no two running attempts on one GPU.",
    6: "The points of the series are the samples of the counted results.",
    7: "The series does not depend on the order of arrival.",
    8: "Each schedule slot fires once.",
    9: "A refused request changes nothing: every state is explained by accepted steps.",
    10: "The gate never passes because data is missing.",
    11: "Rows agree with each other, with the stored documents and with the log.",
    12: "The database's guards are those that this version makes.",
}
Look = Callable[[Session], Iterable[Iterable[values.Breach]]]


def _each_job(session: Session) -> Iterator[Iterable[values.Breach]]:
    for job in every_job(session):
        yield [breach for rule in (*jobs.CHECKS, *agreement.CHECKS) for breach in rule(job)]


def _together(rule: Callable[[Session], Iterable[values.Breach]]) -> Look:
    return lambda session: (rule(session),)


_COUNTED: Sequence[Look] = (_each_job, series.every_result, comparison_rows.every_pass)
"""What gives the breaches of one job, one result, one pass at a time."""
_RULES: Sequence[Callable[[Session], Iterable[values.Breach]]] = (
    any_row.made_at_their_time,
    any_row.lost_parents,
    any_row.wrong_digests,
    any_row.places_of_revisions,
    any_row.what_was_made_is_there,
    any_row.thresholds_as_chosen,
    any_row.numbered_without_gap,
    any_row.who_acted,
    imported.every_imported_point,
    finding_rows.shown_changes,
    finding_rows.every_finding,
    finding_rows.every_suspicion,
    whole.eligible_workers,
    whole.devices_of_workers,
    whole.one_job_per_device,
    comparison_rows.every_comparison,
    bisection_rows.every_bisection,
    guards.wrong_guards,
    *ROW_CHECKS,
)


def _is_away(error: Exception) -> bool:
    """Whether the database or the artifacts cannot be used, whatever the rows say."""
    if isinstance(error, DBAPIError):
        return not any_row.is_unreadable(error)
    return isinstance(error, ArtifactsUnavailable)


def _rules(
    artifacts: ArtifactStore | None,
) -> Iterator[Callable[[Session], Iterable[values.Breach]]]:
    yield from _RULES
    if artifacts is not None:
        yield partial(whole.every_artifact, artifacts=artifacts)


NAMED = 20
"""Breaches of one promise that are named; the others are counted."""
_UNREAD = "A look ended early, at a row that cannot be read"
_NOTHING_PASSED = "No gate has passed anything in this database."


@dataclass
class _Tally:
    """The number of times that a promise was broken, and the shortest history that shows it."""

    count: int = 0
    shortest: values.Breach | None = None
    first: list[values.Breach] = field(default_factory=list)

    def add(self, breach: values.Breach) -> None:
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(breach)
        if self.shortest is None or len(breach.history) < len(self.shortest.history):
            self.shortest = breach


def verify(database: Database, artifacts: ArtifactStore | None = None) -> values.VerificationReport:
    """Check every promise on one unchanging view of ``database``; nothing is written.

    Without ``artifacts`` the bodies of artifacts are not read.
    """
    with database.reading() as session:
        if database.kind == "postgresql":  # SQLite's readers see one moment anyway
            session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        return check(session, artifacts)


def check(session: Session, artifacts: ArtifactStore | None = None) -> values.VerificationReport:
    """Check every promise as ``session`` sees the database."""
    tallies = {number: _Tally() for number in PROMISES}

    def note(breaches: Iterable[values.Breach]) -> None:
        for breach in breaches:
            tallies[breach.promise].add(breach)

    counts = dict.fromkeys(_COUNTED, 0)
    broken_off = False
    for look in (*_COUNTED, *map(_together, _rules(artifacts))):
        try:
            for breaches in look(session):
                note(breaches)
                if look in counts:
                    counts[look] += 1
        except Exception as error:  # at a row that the service cannot have written
            if _is_away(error):
                raise
            broken_off = True
            note(
                [
                    values.Breach(
                        agreement.ROWS,
                        "the database",
                        f"{_UNREAD} ({type(error).__name__}: {error}).",
                    )
                ]
            )
    if broken_off:
        note(any_row.unreadable(session))
    findings = [_finding(number, tally) for number, tally in tallies.items()]
    job_count, result_count, passes = counts.values()
    if not passes and tallies[comparison_rows.GATE].shortest is None:
        none = values.Finding(
            comparison_rows.GATE,
            PROMISES[comparison_rows.GATE],
            values.CheckOutcome.NOT_APPLICABLE,
            _NOTHING_PASSED,
        )
        findings[list(tallies).index(comparison_rows.GATE)] = none
    return values.VerificationReport(findings, job_count, result_count, _warnings(session))


def _warnings(session: Session) -> list[str]:
    return [
        f"The trigger {name} is none of this version's; find out who made it."
        for name in guards.strange_triggers(session)
    ]


def _finding(number: int, tally: _Tally) -> values.Finding:
    promise, worst = PROMISES[number], tally.shortest
    if worst is None:
        return values.Finding(number, promise, values.CheckOutcome.HELD)
    others = tuple(str(breach) for breach in tally.first if breach is not worst)
    return values.Finding(
        number, promise, values.CheckOutcome.BROKEN, str(worst), tally.count, worst, others
    )
