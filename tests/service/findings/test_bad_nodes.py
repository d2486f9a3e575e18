"""A node that is slow in everything is named, and no code is blamed for it."""

from collections.abc import Iterator
from itertools import accumulate

import hypothesis
import numpy as np
import pytest
from builders import long_series as long
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from service import findings
from service.analysis.statement import Statement
from service.database.session import Database
from service.findings.bad_node_statistics import (
    NodeChange,
    NodeMeasurement,
    contrasts,
    slowdown,
    well_again,
)
from service.findings.bad_nodes import ill_nodes, open_bad_node
from service.models import FindingState, SeriesRow
from service.schemas.findings import FindingKind

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
) -> list[NodeMeasurement]:
    """Every night each case runs on a random node; ``b`` may be slow, the code may be too."""
    random = np.random.default_rng(seed)
    offsets = dict(zip(NODES, (0.0, 0.004, -0.004, 0.01), strict=True))
    measured = []
    for night in range(nights):
        for case in range(CASES):
            node = NODES[int(random.integers(4))]
            away = random.normal(0, 0.003) + offsets[node]
            if slow_from is not None and slow_from <= night < slow_until and node == "b":
                away += by
            if code and night >= nights // 2:
                away += code
            measured.append(NodeMeasurement(f"s{case}", f"r{night:03d}", node, float(away)))
    return measured


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_becomes_slow_is_named_with_what_it_lost(seed: int) -> None:
    measured = fleet(40, slow_from=20, seed=seed)
    change = slowdown(contrasts(measured), "b")
    assert change is not None
    assert change.share == pytest.approx(0.05, abs=0.015)
    assert "r019" < change.first_bad <= "r024"
    assert all(slowdown(contrasts(measured), other) is None for other in "acd")


@hypothesis.settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.05, -0.05]))
def test_code_that_becomes_slow_is_no_nodes_fault(seed: int, code: float) -> None:
    measured = fleet(40, code=code, seed=seed)
    assert [node for node in NODES if slowdown(contrasts(measured), node)] == []


def test_one_bad_night_is_not_a_bad_node() -> None:
    measured = fleet(40, slow_from=20, slow_until=21)
    assert slowdown(contrasts(measured), "b") is None


def test_many_results_against_the_same_few_of_others_are_not_enough() -> None:
    """Ten slow results that all rest on the same four of others may be flukes of those."""
    plan = "ababababab" + "bbbb" + "a"
    measured = [
        NodeMeasurement(series, f"r{night:02d}", node, 0.05 if node == "b" and night > 8 else 0.0)
        for night, node in enumerate(plan)
        for series in ("s0", "s1")
    ]
    assert slowdown(contrasts(measured), "b") is None
    later = [
        NodeMeasurement(series, f"r{night:02d}", node, 0.05 if node == "b" else 0.0)
        for night, node in enumerate("ba", len(plan))
        for series in ("s0", "s1")
    ]
    assert slowdown(contrasts([*measured, *later]), "b") is not None


def test_between_others_that_differ_a_result_says_nothing() -> None:
    """Whether it was measured before the change or after it, nobody knows."""
    costs = {"r0": ("a", 0.0), "r1": ("b", 0.002), "r2": ("a", 0.001), "r3": ("b", 0.034)}
    costs |= {"r4": ("a", 0.031), "r5": ("b", 0.033), "r6": ("a", 0.03)}
    measured = [
        NodeMeasurement("s", revision, node, cost) for revision, (node, cost) in costs.items()
    ]
    of_worker = contrasts(measured)["b"]
    assert [contrast.revision for contrast in of_worker] == ["r1", "r5"]
    assert [contrast.size for contrast in of_worker] == pytest.approx([0.001, 0.002])


CHANGE = st.just(0.0) | st.floats(0.0, 0.3)


@hypothesis.settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(NODES), min_size=3, max_size=3), CHANGE), min_size=8
    ),
    st.sampled_from([1, -1]),
    st.lists(st.floats(0.0, 0.009), min_size=4, max_size=4),
)
def test_what_moves_every_node_names_none_whoever_measures_when(
    nights: list[tuple[list[str], float]], sign: int, offsets: list[float]
) -> None:
    """Nodes that differ as those of one kind do; drivers or code may change any night.

    All one way: of a change that comes and goes with the nights of one node nobody could say that
    it is not the node's.
    """
    differ = dict(zip(NODES, offsets, strict=True))
    levels_ = [sign * level for level in accumulate(change for _, change in nights)]
    measured = [
        NodeMeasurement(f"s{case}", f"r{night:03d}", node, levels_[night] + differ[node])
        for night, (nodes, _) in enumerate(nights)
        for case, node in enumerate(nodes)
    ]
    assert [node for node in NODES if slowdown(contrasts(measured), node)] == []


def test_who_is_as_fast_as_the_others_now_is_not_slow() -> None:
    """It seemed faster before, for the others had been measured while everything was slow."""
    slow, fast = 0.25, 0.0
    nights = [("aab", 0.0), ("aaa", -slow), ("bbc", slow), ("aaa", fast), ("bab", slow)]
    nights += [("acb", slow), ("cca", -slow), ("ccb", -slow), ("aaa", fast), ("cab", fast)]
    measured = [
        NodeMeasurement(f"s{case}", f"r{night}", node, level)
        for night, (nodes, level) in enumerate(nights)
        for case, node in enumerate(nodes)
    ]
    assert slowdown(contrasts(measured), "a") is None


@pytest.mark.parametrize("noise", [0.002, 0.006])
@pytest.mark.parametrize("seed", range(10))
def test_a_new_driver_names_no_node_however_unevenly_they_work(seed: int, noise: float) -> None:
    random = np.random.default_rng(seed)
    offsets = dict(zip(NODES, (0.0, -0.004, 0.003, -0.001), strict=True))
    shares = random.dirichlet([0.5] * 4)
    measured: list[NodeMeasurement] = []
    for night in range(26):
        if random.random() < 0.3:
            shares = random.dirichlet([0.5] * 4)
        for case in range(CASES):
            node = NODES[int(random.choice(4, p=shares))]
            cost = random.normal(0, noise) + offsets[node] + (0.03 if night >= 18 else 0.0)
            measured.append(NodeMeasurement(f"s{case}", f"r{night:03d}", node, float(cost)))
        assert [node for node in NODES if slowdown(contrasts(measured), node)] == []


def test_a_node_alone_is_never_named() -> None:
    measured = [row for row in fleet(40, slow_from=20) if row.worker == "b"]
    assert slowdown(contrasts(measured), "b") is None


def test_a_node_that_was_mended_is_well_again() -> None:
    ill, mended = fleet(30, slow_from=20), fleet(40, slow_from=20, slow_until=30)
    change = slowdown(contrasts(ill), "b")
    assert change is not None
    order = [f"r{number:03d}" for number in range(40)]
    for measured, well in ((ill, False), (mended, True)):
        of_worker = contrasts(measured)["b"]
        assert well_again(of_worker, order, change.last_good, change.share) is well
        assert not well_again(of_worker, order[30:], change.last_good, change.share)


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
    return long.look(session)


def test_a_slow_node_is_one_finding_and_no_regression(session: Session) -> None:
    random = np.random.default_rng(4)
    for number in range(70):
        night(session, number, random, 0.06 if 30 <= number < 55 else 0.0)
        if number == 54:
            (finding,) = findings.list_findings(session).items
            assert (finding.kind, finding.worker) == (FindingKind.BAD_NODE, "b")
            assert finding.state is FindingState.OPEN
    (finding,) = findings.list_findings(session).items
    assert finding.state is FindingState.RESOLVED


def test_proposed_changes_that_are_compared_hide_no_slow_node(session: Session) -> None:
    random = np.random.default_rng(4)
    for number in range(60):
        night(session, number, random, 0.06 if 30 <= number < 46 else 0.0)
        long.add_proposals(session, number, 8)
        (finding, *more) = findings.list_findings(session).items or [None]
        if number == 45:
            assert finding is not None
            assert (finding.kind, finding.state) == (FindingKind.BAD_NODE, FindingState.OPEN)
    assert finding is not None
    assert finding.state is FindingState.RESOLVED
    assert not more


@pytest.mark.both_databases(slow="postgresql")
def test_a_node_that_was_slow_in_another_metric_only_is_well_again(session: Session) -> None:
    """Its disk was; that it trains as fast as ever said nothing of that."""
    random = np.random.default_rng(4)
    row = session.get_one(SeriesRow, long.OTHER)
    row.metric, row.unit, row.direction = "first_step_time", "s", "lower"
    for number in range(24):
        for place, node in enumerate(("a", "b")):
            slow = 1.4 if node == "b" and 14 <= number < 18 else 1.0
            rate, wait = np.exp(random.normal(0, 0.003, 2)) * (100.0, 30.0 * slow)
            long.add(session, {number: float(rate)}, node, place=place)
            long.add(session, {number: float(wait)}, node, long.OTHER, place=2 + place)
        if number == 16:
            last_good, first_bad = long.revision_of(13), long.revision_of(14)
            says = Statement.of("remark", text="slow disk")
            change = NodeChange("b", last_good, first_bad, 0.4, says, series=(long.OTHER,))
            assert open_bad_node(session, change, row.comparability, long.START)
        long.look(session)
        if number == 17:
            assert ill_nodes(session) == {"b"}
    assert ill_nodes(session) == frozenset()


def test_a_new_driver_that_one_node_meets_first_is_not_that_nodes_fault(session: Session) -> None:
    """``c`` is as fast as ``a``, and ``b`` faster; ``c`` measures the first two nights alone."""
    for number, node in enumerate("acacacacacacac" + "cc" + "bacbacbac"):
        value = (100.8 if node == "b" else 100.0) * (0.97 if number >= 14 else 1.0)
        for place, series in enumerate(long.CASES):
            long.add(session, {number: value}, node, series, place)
        long.look(session)
    summaries = findings.list_findings(session).items
    assert [one for one in summaries if one.kind is FindingKind.BAD_NODE] == []


def test_what_a_person_closed_is_not_opened_again(session: Session) -> None:
    random = np.random.default_rng(4)
    for number in range(50):
        night(session, number, random, 0.06 if number >= 30 else 0.0)
        summaries = findings.list_findings(session).items
        if number == 40:
            (finding,) = summaries
            findings.act(session, finding.id, "expect", "ada", long.START, detail="old fans")
    (finding,) = summaries
    assert finding.state is FindingState.EXPECTED
