"""A node that is slow in everything is named, and no code is blamed for it."""

from collections.abc import Iterator

import hypothesis
import numpy as np
import pytest
from builders import long_series as long
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from service import findings, levels
from service.database import Database
from service.findings import Kind
from service.findings.slowdown import Measured, contrasts, slowdown, well_again
from service.judging import conclude
from service.models import FindingState

NODES = ("a", "b", "c", "d")
CASES = 6


def fleet(
    nights: int,
    *,
    slow_from: int | None = None,
    slow_until: int = 10_000,
    by: float = 0.05,
    code: float = 0.0,
    seed: int = 1,
) -> list[Measured]:
    """Every night each case runs on a random node; ``b`` may be slow, the code may be too."""
    random = np.random.default_rng(seed)
    offsets = dict(zip(NODES, (0.0, 0.004, -0.004, 0.01), strict=True))
    told = []
    for night in range(nights):
        for case in range(CASES):
            node = NODES[int(random.integers(4))]
            away = random.normal(0, 0.003) + offsets[node]
            if slow_from is not None and slow_from <= night < slow_until and node == "b":
                away += by
            if code and night >= nights // 2:
                away += code
            told.append(Measured(f"s{case}", f"r{night:03d}", node, float(away)))
    return told


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_becomes_slow_is_named_with_what_it_lost(seed: int) -> None:
    told = fleet(40, slow_from=20, seed=seed)
    found = slowdown(contrasts(told), "b")
    assert found is not None
    assert found.share == pytest.approx(0.05, abs=0.015)
    assert "r019" < found.first_bad <= "r024"
    assert all(slowdown(contrasts(told), other) is None for other in "acd")


@hypothesis.settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.05, -0.05]))
def test_code_that_becomes_slow_is_no_nodes_fault(seed: int, code: float) -> None:
    told = fleet(40, code=code, seed=seed)
    assert [node for node in NODES if slowdown(contrasts(told), node)] == []


def test_one_bad_night_is_not_a_bad_node() -> None:
    told = fleet(40, slow_from=20, slow_until=21)
    assert slowdown(contrasts(told), "b") is None


def test_a_node_alone_is_never_named() -> None:
    told = [each for each in fleet(40, slow_from=20) if each.worker == "b"]
    assert slowdown(contrasts(told), "b") is None


def test_a_node_that_was_mended_is_well_again() -> None:
    ill, mended = fleet(30, slow_from=20), fleet(40, slow_from=20, slow_until=30)
    found = slowdown(contrasts(ill), "b")
    assert found is not None
    order = [f"r{number:03d}" for number in range(40)]
    for told, well in ((ill, False), (mended, True)):
        own = contrasts(told)["b"]
        assert well_again(own, order, found.last_good, found.share) is well
        assert not well_again(own, order[30:], found.last_good, found.share)


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    with database.writing() as session:
        long.prepare(session, NODES)
        yield session


def night(session: Session, number: int, random: np.random.Generator, slow: float) -> list[str]:
    """Two cases, each measured on two nodes."""
    for case, series in enumerate(long.CASES):
        for turn, node in enumerate(random.choice(NODES, 2, replace=False)):
            value = 100 * np.exp(random.normal(0, 0.003) - (slow if node == "b" else 0))
            long.add(session, {number: float(value)}, str(node), series, 2 * case + turn)
    due = levels.due(session)
    for series_id, since in due.since.items():
        levels.judge(session, series_id, since, long.START)
    return list(conclude(session, due, long.START, daily=0).opened)


def test_a_slow_node_is_one_finding_and_no_regression(session: Session) -> None:
    random = np.random.default_rng(4)
    for number in range(70):
        night(session, number, random, 0.06 if 30 <= number < 55 else 0.0)
        if number == 54:
            (finding,) = findings.list_findings(session).items
            assert (finding.kind, finding.worker) == (Kind.BAD_NODE, "b")
            assert finding.state is FindingState.OPEN
    (finding,) = findings.list_findings(session).items
    assert finding.state is FindingState.RESOLVED


def test_what_a_person_closed_is_not_opened_again(session: Session) -> None:
    random = np.random.default_rng(4)
    for number in range(50):
        night(session, number, random, 0.06 if number >= 30 else 0.0)
        told = findings.list_findings(session).items
        if number == 40:
            (finding,) = told
            findings.act(session, finding.id, "expect", "ada", long.START, detail="old fans")
    (finding,) = told
    assert finding.state is FindingState.EXPECTED
