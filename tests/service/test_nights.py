"""Thirty nights with a known truth: the findings are exactly those, once each, and close."""

import pytest
from builders.nights import Team
from sqlalchemy import select

from benchmarks.contracts import Case
from service import findings
from service.database import Database
from service.findings import FindingSummary, FindingView
from service.models import ConfirmationRow

BF16 = {"precision": "bf16"}


def steady(_case: Case, _code: int, _worker: str, _night: int) -> float:
    return 1_000.0


def found(database: Database) -> list[FindingSummary]:
    """Every finding, the oldest first."""
    with database.reading() as session:
        return list(findings.list_findings(session).items)[::-1]


def whole(database: Database, finding: FindingSummary) -> FindingView:
    with database.reading() as session:
        return findings.load_finding(session, finding.id)


def confirmations(database: Database) -> list[ConfirmationRow]:
    with database.reading() as session:
        return list(session.scalars(select(ConfirmationRow).order_by(ConfirmationRow.id)))


def truth(case: Case, code: int, worker: str, night: int) -> float:
    """Two regressions, a revert, an improvement, a driver, a bad node."""
    speed = {"resnet50": 1_000.0, "nanogpt": 50_000.0, "unet": 300.0}[case.workload]
    speed *= {"a": 1.0, "b": 1.004, "c": 0.997, "d": 1.001}[worker]
    if case.workload == "unet" and 7 <= code < 12:
        speed *= 0.95
    if case.workload == "nanogpt" and case.axes == BF16 and code >= 14:
        speed *= 1.06
    if night >= 18:
        speed *= 0.97  # the driver
    if case.workload == "resnet50" and code >= 22:
        speed *= 0.96
    if worker == "d" and night >= 25:
        speed *= 0.92
    return speed


def driver(night: int) -> dict[str, str]:
    return {"hw.gpu.driver": "580.1" if night < 18 else "590.2"}


@pytest.mark.parametrize("seed", [1, 2])
def test_the_findings_are_what_happened_once_each(sqlite_url: str, seed: int) -> None:
    database = Database(sqlite_url)
    team = Team(database, truth, driver, seed=seed)
    for night in range(30):
        team.night(night)
    told = found(database)
    for each in told:
        print(each.kind, each.state, each.cause, each.last_good, each.first_bad, each.sentence)
    for row in confirmations(database):
        print(row.case_key, row.first_bad, row.state, row.sentence)
    print(team.measured)
    database.close()
