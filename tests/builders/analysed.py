"""An analysed history: a regression, a bad node, suspicions, and hostile words from strangers.

Points are written straight into the tables; analysis, findings and confirmations are the service's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from builders import kept_states
from builders import long_series as long
from builders.history_plans import HOSTILE
from sqlalchemy import update
from sqlalchemy.orm import Session

from service import findings
from service.analysis.statement import Statement
from service.database.session import Database
from service.findings import Plan, pipeline
from service.findings.bad_node_statistics import NodeChange
from service.findings.bad_nodes import open_bad_node
from service.findings.confirm.start import DAY
from service.history import exclusions
from service.models import ConfirmationRow, ConfirmationState, FindingState, WorkerRow
from service.schemas.findings import Certainty

STEADY, DROPPED = 30, 12
EXCLUDED = long.result_of(5)
"""The result that somebody took out."""
SUSPICIOUS = STEADY + DROPPED


@dataclass(frozen=True)
class Analysed:
    """The findings that are in the database."""

    regression: str
    node: str


def analyse(database: Database) -> Analysed:
    """Fill a migrated database; everything in it was opened just now."""
    with database.writing() as session:
        _measure(session)
        exclusions.exclude(session, EXCLUDED, f"fan broken {HOSTILE}", HOSTILE, long.START)
    assert pipeline.look(database, daily=0).opened
    with database.writing() as session:
        now = datetime.now(UTC)
        (finding,) = findings.list_findings(session).items
        plan = Plan(HOSTILE, f"look at the driver\n{HOSTILE}", (now - timedelta(days=3)).date())
        findings.plan(session, finding.id, plan, "ada", now)
        _suspect(session, now)
    assert pipeline.look(database).begun
    with database.writing() as session:
        (node,) = open_bad_node(session, _slow("x"), finding.comparability, now)
    return Analysed(finding.id, node)


def kept(database: Database) -> Analysed:
    """Fill a database in which nobody has written since it was migrated, as `analyse` does."""
    return kept_states.bring(database, "analysed", lambda: analyse(database))


def _measure(session: Session) -> None:
    long.prepare(session, ("w", "x"))
    noise = np.exp(np.random.default_rng(2).normal(0, 0.003, SUSPICIOUS))
    level = np.array([100.0] * STEADY + [95.0] * DROPPED) * noise
    level[5] = 60.0
    long.add(session, {number: float(value) for number, value in enumerate(level)})
    other = np.random.default_rng(3).normal(200.0, 0.4, SUSPICIOUS)
    for worker, rest in (("w", 0), ("x", 1)):
        values = {n: float(value) for n, value in enumerate(other) if n % 2 == rest}
        long.add(session, values, worker=worker, series_id=long.OTHER, place=1)


def _slow(worker: str) -> NodeChange:
    return NodeChange(
        worker=worker,
        last_good=long.revision_of(STEADY),
        first_bad=long.revision_of(STEADY + 1),
        share=0.08,
        says=Statement.of(
            "worker_at_fault",
            worker=worker,
            share=0.08,
            first_bad=long.revision_of(STEADY + 1),
            why=Statement.of("refused", reason=HOSTILE),
        ),
        certainty=Certainty.CONFIRMED,
    )


def _suspect(session: Session, now: datetime) -> None:
    """A point out of line with workers there to measure it again, and one that was a fluke."""
    session.execute(update(WorkerRow).values(last_seen_at=now))
    long.add(session, {SUSPICIOUS: 188.0}, worker="w", series_id=long.OTHER, place=1)
    session.add(
        ConfirmationRow(
            id="f" * 32,
            series_id=long.SERIES,
            case_key="elsewhere",
            last_good=long.revision_of(10),
            first_bad=long.revision_of(11),
            first_bad_at=long.placed_at(11),
            first_bad_result=long.result_of(11),
            worker="w",
            before=100.0,
            usual={},
            change_id=None,
            after=97.0,
            state=ConfirmationState.NOT_REPRODUCED,
            comparisons=[],
            reading=None,
            says=Statement.of("again_nothing", sentence=HOSTILE).stored(),
            created_at=now - DAY,
            decided_at=now - DAY,
        )
    )
    session.flush()


def reopen(database: Database, finding: str) -> None:
    """Bring a finding back to where it was opened, whatever was done with it."""
    with database.writing() as session:
        now = datetime.now(UTC)
        state = findings.load_finding(session, finding).summary.state
        if state is FindingState.ACKNOWLEDGED:
            findings.act(session, finding, "resolve", "ada", now)
        if state is not FindingState.OPEN:
            findings.act(session, finding, "reopen", "ada", now)
