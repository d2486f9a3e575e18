"""The record of a step's allocations becomes bytes by category and line; planted causes are found.

The events are written by hand: what they hold at each instant is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from benchmarks.contracts import Memory, MemoryLine
from benchmarks.measure.profile import replay
from benchmarks.measure.profile.replay import AllocatorEvent, Block, Recording

MIB = 2**20


class Step:
    """A step that is written event by event, one in each millisecond."""

    def __init__(self) -> None:
        self.events: list[AllocatorEvent] = []
        self.phase = "start"
        self._clock: Iterator[int] = count()

    def alloc(self, address: int, size_b: int, line: str = "") -> Step:
        return self._add("alloc", Block(address, size_b, line))

    def free(self, address: int) -> Step:
        self._add("free_requested", Block(address, 0))
        return self._add("free_completed", Block(address, 0))

    def enter(self, phase: str) -> Step:
        self.phase = phase
        return self

    def driver(self, action: str, size_b: int) -> Step:
        return self._add(action, Block(0xFFFF, size_b))

    def _add(self, action: str, block: Block) -> Step:
        self.events.append(AllocatorEvent(action, block, next(self._clock) / 1e3, self.phase))
        return self

    def recorded(self, *blocks: Block, **more: object) -> Memory:
        made: dict[str, object] = {"reserved_b": 100 * MIB, "device_b": 1000 * MIB, **more}
        return replay.replay(Recording(blocks, tuple(self.events), **made))  # type: ignore[arg-type]


WEIGHTS, MOMENTS, INPUT = Block(1, 10 * MIB), Block(2, 20 * MIB), Block(3, 4 * MIB)
KNOWN = {1: "parameters", 2: "optimizer", 3: "inputs"}


def a_step() -> Step:
    """Two activations, a temporary of each pass, a gradient of the weights, an update's scratch."""
    step = Step().enter("forward")
    step.alloc(10, 8 * MIB, "model.py:1").alloc(11, 3 * MIB, "model.py:1").free(11)
    step.alloc(12, 12 * MIB, "model.py:2")
    step.enter("backward").alloc(20, 5 * MIB).free(12).alloc(21, 10 * MIB)
    step.free(20).free(10)
    step.enter("optimizer").alloc(30, 2 * MIB, "adam.py:9").free(30).free(21)
    return step


def told(**more: object) -> Memory:
    blocks = (WEIGHTS, MOMENTS, INPUT)
    return a_step().recorded(*blocks, known=KNOWN, gradients=frozenset({21}), **more)


def test_the_peak_is_told_by_category() -> None:
    memory = told()
    assert memory.categories == {
        "parameters": 10 * MIB,
        "optimizer": 20 * MIB,
        "inputs": 4 * MIB,
        "activations": 20 * MIB,
        "temporaries": 5 * MIB,
    }
    assert memory.peak_b == sum(memory.categories.values()) == 59 * MIB
    # forward has five events before the backward pass's first allocation
    assert memory.peak_at_s == pytest.approx(0.005)
    assert memory.device_b == 1000 * MIB


def test_the_largest_lines_at_the_peak_come_first_and_carry_their_category() -> None:
    assert list(told().lines) == [
        MemoryLine(source="model.py:2", category="activations", size_b=12 * MIB, blocks=1),
        MemoryLine(source="model.py:1", category="activations", size_b=8 * MIB, blocks=1),
    ]


def test_each_category_follows_its_blocks_over_the_step() -> None:
    memory = told()
    assert memory.at_s[0] == 0.0
    assert memory.alive_b["gradients"] == tuple(
        10 * MIB if 0.0075 < at_s < 0.0165 else 0 for at_s in memory.at_s
    )
    assert set(memory.alive_b["parameters"]) == {10 * MIB}
    assert memory.alive_b["activations"][-1] == 0
    assert max(map(sum, zip(*memory.alive_b.values(), strict=True))) == memory.peak_b


def test_phases_are_told_where_they_begin() -> None:
    begins = told().phases_s
    assert begins == pytest.approx({"forward": 0.0, "backward": 0.005, "optimizer": 0.013})


def test_a_list_that_keeps_an_activation_is_found_with_its_line_and_bytes() -> None:
    step = a_step()
    step.events[0] = AllocatorEvent("alloc", Block(10, 7 * MIB, "model.py:1"), 0.0, "forward")
    kept = Step().enter("forward").alloc(40, 33 * MIB, "train.py:77").events
    step.events = [*kept, *step.events]
    before = Block(41, 33 * MIB, "train.py:77")  # that of the step before
    memory = step.recorded(WEIGHTS, before, known=KNOWN)
    assert memory.categories["kept"] == 66 * MIB
    assert memory.lines[0] == MemoryLine(
        source="train.py:77", category="kept", size_b=66 * MIB, blocks=2
    )


def test_without_the_list_nothing_is_kept() -> None:
    assert "kept" not in told().categories
    assert "kept" not in told().alive_b


def test_fragmentation_is_what_is_held_at_the_peak_and_not_alive() -> None:
    memory = told(reserved_b=80 * MIB)
    assert memory.unused_b == 21 * MIB
    assert memory.fragmentation == pytest.approx(21 / 80)
    assert told(reserved_b=59 * MIB).fragmentation == 0.0


def test_segments_that_come_and_go_in_the_step_move_what_is_held() -> None:
    step = Step().enter("forward").driver("segment_alloc", 20 * MIB).alloc(10, 15 * MIB)
    step.enter("backward").free(10).driver("segment_free", 20 * MIB)
    memory = step.recorded(WEIGHTS, known=KNOWN, reserved_b=12 * MIB)
    assert memory.reserved_b == 32 * MIB
    assert memory.held_b == (12 * MIB, *[32 * MIB] * 3, 12 * MIB)


def test_memory_counts_until_its_free_is_completed() -> None:
    step = Step().enter("forward").alloc(10, MIB).alloc(11, MIB)
    step._add("free_requested", Block(10, MIB))
    step.alloc(12, MIB).free(12)
    assert step.recorded().peak_b == 3 * MIB


def test_an_address_that_is_used_again_is_another_block() -> None:
    step = Step().enter("forward").alloc(10, MIB, "a.py:1").free(10).alloc(10, 2 * MIB, "a.py:2")
    step.enter("backward").free(10).alloc(10, 3 * MIB).enter("optimizer").free(10)
    memory = step.recorded(gradients=frozenset({10}))
    assert memory.categories == {"gradients": 3 * MIB}
    assert max(memory.alive_b["activations"]) == 2 * MIB
    assert max(memory.alive_b["temporaries"]) == MIB


def test_each_micro_batch_has_its_own_activations() -> None:
    step = Step()
    for _ in range(2):
        step.enter("forward").alloc(10, 4 * MIB, "model.py:1").alloc(11, MIB).free(11)
        step.enter("backward").free(10)
    memory = step.enter("optimizer").alloc(30, 1).free(30).recorded()
    assert memory.categories == {"activations": 4 * MIB, "temporaries": MIB}


def test_gradients_that_are_kept_from_step_to_step_are_gradients() -> None:
    memory = a_step().recorded(WEIGHTS, Block(50, 10 * MIB), gradients=frozenset({50}))
    assert memory.categories["gradients"] == 10 * MIB


def test_a_batch_that_is_copied_for_the_step_is_an_input() -> None:
    step = Step().alloc(10, MIB, "receive.py:3").enter("forward").alloc(11, 1).free(11)
    step.enter("backward").free(10)
    assert step.recorded().categories == {"inputs": MIB, "temporaries": 1}


@pytest.mark.parametrize(
    ("size_b", "category"),
    [(33_554_432, "workspace"), (8_519_680, "workspace"), (33_554_431, "kept")],
)
def test_the_workspace_of_cublas_is_known_by_its_size(size_b: int, category: str) -> None:
    assert Step().recorded(Block(9, size_b)).categories == {category: size_b}


def test_a_graphs_pool_is_one_block_of_its_whole_size() -> None:
    memory = Step().recorded(Block(7, 64 * MIB), known={7: "graphs"}, pools_b=(MIB, 63 * MIB))
    assert memory.categories == {"graphs": 64 * MIB}
    assert memory.pools_b == (63 * MIB, MIB)
    assert memory.phases_s == {}


def test_a_long_step_keeps_its_peak_and_its_ends_within_bounds() -> None:
    step = Step().enter("forward")
    for number in range(2_000):
        size_b = 9 * MIB if number == 1_234 else MIB
        step.alloc(10, size_b, f"model.py:{number}").free(10)
    memory = step.recorded(WEIGHTS, known=KNOWN)
    assert 100 <= len(memory.at_s) <= replay.POINTS
    assert memory.peak_b == 19 * MIB
    assert max(memory.alive_b["temporaries"]) == 9 * MIB
    assert memory.at_s[memory.alive_b["temporaries"].index(9 * MIB)] == memory.peak_at_s
    assert list(memory.at_s) == sorted(memory.at_s)
    assert (memory.at_s[0], memory.at_s[-1]) == (0.0, step.events[-1].at_s)
    assert [one.source for one in memory.lines] == ["model.py:1234"]


def test_more_lines_than_are_told_leave_the_smallest_out() -> None:
    step = Step().enter("forward")
    for number in range(1, 31):
        step.alloc(number, number, f"model.py:{number}")
    step.enter("backward")
    for number in range(1, 31):
        step.free(number)
    lines = step.recorded().lines
    assert [one.size_b for one in lines] == list(range(30, 10, -1))
