"""Two gangs of a pair: they take turns, and one whose other side dies says so."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from builders import loaded, real_gangs
from builders.real_gangs import MODEL, SLOW_S, measured, spec

from benchmarks.contracts import DuetSide, ProcessSpec, Result, Status
from benchmarks.diagnosis.paired import paired


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_gangs.surround(tmp_path, monkeypatch)


@pytest.fixture
def forked_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that need not load torch."""
    loaded.forked_ranks(monkeypatch)


def two_sides(*sides: ProcessSpec) -> list[Result]:
    """The two sides of a pair, each a gang."""

    def side(place: int, asked: ProcessSpec, end: socket.socket) -> Result:
        told = DuetSide(socket_fd=end.fileno(), first=place == 0, turns=4, turn_s=0.05)
        with end:  # as it closes when the process of a side ends
            return measured(asked.model_copy(update={"duet": told}))

    with ThreadPoolExecutor() as both:
        return list(both.map(side, range(2), sides, socket.socketpair()))


def faulty(folder: Path, fault: str) -> ProcessSpec:
    """A gang with this fault of its own code."""
    name = f"side_{fault.replace(' ', '_')}"
    (folder / f"{name}.py").write_text(MODEL.replace('os.environ["FAULT"]', repr(fault)))
    return spec(f"{name}:build")


@pytest.mark.usefixtures("forked_ranks")
def test_two_gangs_measure_in_turn(tmp_path: Path) -> None:
    """Their windows do not overlap. Rank 1 is late in each step of the one side, and a turn is told
    by the rank that took longest."""
    quick, slow = two_sides(faulty(tmp_path, "none"), faulty(tmp_path, "exchanges slowly"))
    assert (quick.status, slow.status) == (Status.OK, Status.OK), (quick.reason, slow.reason)
    assert len(quick.turns) == len(slow.turns) == 4
    spans = sorted((one.window.start_s, one.window.end_s) for one in (*quick.turns, *slow.turns))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert all(turn.step_s > 2 * SLOW_S for turn in slow.turns), "rank 1 waits, and the exchange"
    assert all(turn.step_s < SLOW_S for turn in quick.turns)
    both = paired(quick, slow)
    assert both.baseline is not None
    assert {one.metric for one in both.samples} == {"throughput", "step_time", "peak_memory"}
    assert not both.replicates


@pytest.mark.usefixtures("forked_ranks")
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("fault", ["is killed", "dies at once"])
def test_a_side_whose_rank_dies_ends_the_pair_and_the_other_side_says_so(
    tmp_path: Path, fault: str, place: int
) -> None:
    """At once: in the first step, for which the other side waits if it is the second one."""
    sides = [faulty(tmp_path, "none"), faulty(tmp_path, "none")]
    sides[place] = faulty(tmp_path, fault)
    told = two_sides(*sides)
    struck, other = told[place], told[1 - place]
    assert (struck.status, other.status) == (Status.CRASHED, Status.RUNTIME_ERROR)
    assert struck.reason.startswith("Rank 1 of 2: It was killed by SIGKILL"), struck.reason
    assert "The other side of the pair ended before its time." in other.reason


@pytest.mark.usefixtures("forked_ranks")
def test_two_pipelines_measure_in_turn_though_one_rank_alone_knows_the_loss() -> None:
    for told in two_sides(*[spec("nanogpt", parallel="pp", batch="2")] * 2):
        assert told.status is Status.OK, told.reason
        assert len(told.turns) == 4
