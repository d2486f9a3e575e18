"""What moved with a known cause joins its finding at once, and nothing else does."""

from __future__ import annotations

import math

import pytest
from builders.nights import Team
from sqlalchemy import func, select

from benchmarks.contracts import Case
from service import findings
from service.database.session import Database
from service.findings import causes
from service.models import ConfirmationRow
from service.wording.headline import HEADLINE_WORDS
from service.wording.statements import MOST_WORDS

SLOWER_FROM = 10
CASES = tuple(
    Case(workload=workload, preset="full", axes=axes)
    for workload in ("resnet50", "nanogpt", "unet")
    for axes in ({}, {"precision": "bf16"})
)


def speed(case: Case, code: int, _worker: str, _night: int) -> float:
    """All bf16 cases become 2 % slower."""
    slower = case.axes.get("precision") == "bf16" and code >= SLOWER_FROM
    return 1_000.0 * (0.98 if slower else 1.0)


def test_one_cause_in_several_cases_is_one_finding_the_same_night(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    team = Team(database, speed, seed=4, cases=CASES)
    for night in range(SLOWER_FROM + 1):
        team.night(night)
    with database.reading() as session:
        (finding,) = findings.list_findings(session).items
        about = findings.load_finding(session, finding.id).series
        measured_again = session.scalar(select(func.count()).select_from(ConfirmationRow))
    assert {one.series.case.axes.get("precision") for one in about} == {"bf16"}
    assert len({one.series.case.key for one in about}) == sum(bool(case.axes) for case in CASES)
    assert {one.series.metric for one in about} == {"throughput"}
    assert finding.headline.startswith("bf16 training ")
    assert finding.headline.endswith("% slower since r10")
    assert "all 3 cases, none of the other 3" in finding.sentence
    assert len(finding.headline.split()) < HEADLINE_WORDS
    assert len(finding.sentence.split()) <= MOST_WORDS
    assert measured_again is not None
    assert measured_again <= len(team.names), "one for each worker on which it was seen"
    database.close()


@pytest.mark.parametrize("size", [-0.05, -0.01, 0.02])
def test_a_shift_of_the_causes_size_supports_it_and_none_speaks_against_it(size: float) -> None:
    cause, noise = math.log1p(size), 0.002
    assert causes.support(cause, cause, noise) > causes.SUPPORT
    assert causes.support(cause, 0.0, noise) < 0
    assert causes.support(cause, -cause, noise) == -math.inf
    assert causes.support(cause, cause / 3, noise) == -math.inf, "it has a cause of its own"


def test_more_noise_supports_less() -> None:
    supports = [causes.support(-0.01, -0.01, noise) for noise in (0.001, 0.002, 0.004, 0.01)]
    assert supports == sorted(supports, reverse=True)
    assert supports[-1] < causes.SUPPORT


@pytest.mark.parametrize("size", [-0.05, -0.01, 0.02])
def test_what_did_not_move_stayed_and_what_does_not_tell_did_neither(size: float) -> None:
    cause, noise = math.log1p(size), 0.002
    assert causes.stayed(cause, 0.0, noise)
    assert causes.stayed(cause, -cause, noise), "another cause moved it the other way"
    assert causes.stayed(cause, 0.0, abs(cause)), "noise alone is likelier, if little"
    assert not causes.stayed(cause, cause, noise)
    assert not causes.stayed(cause, 0.45 * cause, abs(cause) / 20), "it moved, by another cause"
    unclear = cause, 0.6 * cause, abs(cause) / 3
    assert not causes.stayed(*unclear)
    assert causes.support(*unclear) < causes.SUPPORT
