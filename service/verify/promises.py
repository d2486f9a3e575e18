"""The promises, and the run that checks them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from service.database import Database, now_of
from service.verify import gates, jobs, series, traces, whole
from service.verify.reading import every_job
from service.verify.values import Breach, Finding, Outcome, Report

PROMISES = {
    1: "Every accepted job reaches one terminal state, once.",
    2: "Every answered result is present with its digest, and so is each trace that is kept.",
    3: "A job has at most one counted result, of its last attempt, from the lease holder.",
    4: "Attempts are 1, 2, 3 ... without a gap.",
    5: "No two leases for one job at once, no two running attempts on one GPU.",
    6: "The points of the series are the samples of the counted results.",
    7: "The series does not depend on the order of arrival.",
    8: "Each schedule slot fires once.",
    9: "A refused request changes nothing: every state is explained by accepted steps.",
    10: "The gate never passes because data is missing.",
}
_NOTHING_PASSED = "No gate has passed anything in this database."


@dataclass
class _Tally:
    """How often a promise was broken, and the shortest history that shows it."""

    count: int = 0
    shortest: Breach | None = None

    def add(self, breach: Breach) -> None:
        self.count += 1
        if self.shortest is None or len(breach.history) < len(self.shortest.history):
            self.shortest = breach


def verify(database: Database) -> Report:
    """Check every promise on one unchanging view of ``database``; nothing is written."""
    with database.reading() as session:
        if database.kind == "postgresql":  # SQLite's readers see one moment anyway
            session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        return check(session)


def check(session: Session) -> Report:
    """Check every promise as ``session`` sees the database."""
    tallies = {number: _Tally() for number in PROMISES}

    def note(breaches: Iterable[Breach]) -> None:
        for breach in breaches:
            tallies[breach.promise].add(breach)

    job_count = result_count = 0
    for job in every_job(session):
        job_count += 1
        for rule in jobs.CHECKS:
            note(rule(job))
    for found in series.every_result(session):
        result_count += 1
        note(found)
    note(series.points_of_nothing(session))
    note(traces.every_trace(session))
    note(whole.one_job_per_device(session, now_of(session)))
    note(whole.slots_fire_once(session))
    note(whole.nothing_is_half_there(session))
    warnings = [
        f"The guards of table {table} are not all there; take the migration down and up again."
        for table in whole.missing_guards(session)
    ]
    passes = 0
    for found in gates.every_pass(session):
        passes += 1
        note(found)
    findings = [_finding(number, tally) for number, tally in tallies.items()]
    if not passes:
        findings[-1] = Finding(
            gates.GATE, PROMISES[gates.GATE], Outcome.NOT_APPLICABLE, _NOTHING_PASSED
        )
    return Report(findings, job_count, result_count, warnings)


def _finding(number: int, tally: _Tally) -> Finding:
    promise, worst = PROMISES[number], tally.shortest
    if worst is None:
        return Finding(number, promise, Outcome.HELD)
    sentence = f"{worst.subject}: {worst.sentence}"
    return Finding(number, promise, Outcome.BROKEN, sentence, tally.count, worst)
