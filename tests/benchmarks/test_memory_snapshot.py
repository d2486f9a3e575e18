"""Snapshots of the allocator become the record of one step; failing to take one costs a note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.measure.profile import observation, recording, replay, snapshot
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

Entry = dict[str, Any]
USER = {"filename": "/home/me/train.py", "line": 7, "name": "loss"}
TORCH = {"filename": torch.__file__, "line": 1, "name": "relu"}
HARNESS = {"filename": f"{observation._HARNESS}trainer.py", "line": 9, "name": "step"}
HASH = "c" + "ab" + 48 * "x"
INDUCTOR = {"filename": f"/tmp/cache/ab/{HASH}.py", "line": 3, "name": "call"}
MARKS = {100: snapshot.BEGINNING, 101: "start", 102: "forward", 103: "backward", 104: "optimizer"}


def entry(action: str, addr: int, size: int = 1, frames: tuple[Entry, ...] = ()) -> Entry:
    return {"action": action, "addr": addr, "size": size, "frames": list(frames), "stream": 0}


def block(address: int, size: int, state: str = "active_allocated", **more: Any) -> Entry:
    return {"address": address, "size": size, "state": state, "frames": [], **more}


def segment(address: int, size: int, *blocks: Entry, **more: Any) -> Entry:
    return {"address": address, "total_size": size, "device": 0, "blocks": list(blocks), **more}


def after(*trace: Entry) -> Mapping[str, Any]:
    timed = [one | {"time_us": 5_000 + 10 * number} for number, one in enumerate(trace)]
    return {"device_traces": [timed]}


TRACE = (
    entry("alloc", 55, 9, (USER,)),  # of the step before
    entry("alloc", 101),  # an older block at a mark's address
    entry("free_completed", 101),
    entry("alloc", 100),
    entry("snapshot", 0),
    entry("alloc", 101),
    entry("alloc", 60, 4_096, (TORCH, USER, HARNESS)),
    entry("alloc", 102),
    entry("free_requested", 60, 4_096),
    entry("free_completed", 60, 4_096),
    entry("alloc", 103),
    entry("alloc", 61, 8, (TORCH, HARNESS)),
    entry("alloc", 104),
    entry("free_completed", 61, 8),
)


def test_events_are_cut_into_phases_by_marks_that_are_none_of_them() -> None:
    read = snapshot.recording({"segments": []}, after(*TRACE), 0, MARKS)
    assert [(one.action, one.block.address, one.phase) for one in read.events] == [
        ("snapshot", 0, "start"),
        ("alloc", 60, "forward"),
        ("free_requested", 60, "backward"),
        ("free_completed", 60, "backward"),
        ("alloc", 61, "optimizer"),
        ("free_completed", 61, "end"),
    ]
    assert [one.at_s for one in read.events] == pytest.approx(
        [0.0, 20e-6, 40e-6, 50e-6, 70e-6, 90e-6]
    )


def test_a_history_that_does_not_reach_back_is_not_read_as_a_step() -> None:
    with pytest.raises(snapshot.TooLong):
        snapshot.recording({"segments": []}, after(*TRACE[4:]), 0, MARKS)


def test_blocks_alive_before_the_step_keep_their_line_and_the_size_that_was_asked_for() -> None:
    before = {
        "segments": [
            segment(
                0,
                4_096,
                block(0, 1_024, requested_size=1_000, frames=[TORCH, USER]),
                block(1_024, 512, "active_awaiting_free"),
                block(100, 512),  # the mark
                block(2_048, 2_048, "inactive"),
            ),
            segment(9_000, 50, block(9_000, 50), device=1),
        ]
    }
    read = snapshot.recording(before, after(*TRACE), 0, MARKS)
    assert [(one.address, one.size_b) for one in read.blocks] == [(0, 1_000), (1_024, 512)]
    assert [one.line for one in read.blocks] == ["/home/me/train.py:7", ""]
    assert read.reserved_b == 4_096


def test_a_private_pool_is_one_block_and_its_inside_is_passed_over() -> None:
    inside = entry("alloc", 10_100, 64)
    before = {
        "segments": [
            segment(10_000, 500, block(10_000, 100), segment_pool_id=(0, 1)),
            segment(20_000, 300, segment_pool_id=(0, 1)),
            segment(30_000, 70, block(30_000, 70), segment_pool_id=(0, 0)),
        ]
    }
    read = snapshot.recording(before, after(*TRACE[:6], inside, *TRACE[6:]), 0, MARKS)
    assert [(one.address, one.size_b) for one in read.blocks] == [
        *((10_000, 500), (20_000, 300)),
        (30_000, 70),
    ]
    assert read.known == {10_000: replay.GRAPHS, 20_000: replay.GRAPHS}
    assert read.pools_b == (800,)
    assert 10_100 not in {one.block.address for one in read.events}


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ((TORCH, USER, HARNESS), "/home/me/train.py:7"),
        ((INDUCTOR, TORCH, HARNESS), "compiled code"),
        ((INDUCTOR, TORCH, USER, HARNESS), "/home/me/train.py:7"),
        ((), ""),
    ],
)
def test_an_allocation_is_put_down_to_the_workloads_line(
    frames: tuple[Entry, ...], line: str
) -> None:
    assert snapshot.source(frames) == line


def test_what_no_line_of_the_workload_allocated_names_torchs() -> None:
    assert snapshot.source((TORCH, HARNESS)).endswith("torch/__init__.py:1")


def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    out: torch.Tensor = model(batch[0]).mean()
    return out


def trainer(device: str) -> Trainer:
    made = Trainer(
        Recipe(
            model=nn.Linear(4, 1),
            loss=loss,
            optimizer=torch.optim.SGD,
            parameters=nn.Module.parameters,
            dataset=torch.utils.data.TensorDataset(torch.randn(16, 4)),
            batch=8,
            optimizer_options={"lr": 0.1},
        ),
        torch.device("cpu"),
    )
    made.device = torch.device(device)
    return made


RING = [(torch.randn(8, 4),)] * 2


def test_a_cpu_keeps_no_history_and_has_no_note() -> None:
    profiled = recording.profile(trainer("cpu"), RING)
    assert profiled.memory is None
    assert profiled.notes == ()
    assert profiled.busy_s is not None


def test_a_history_that_cannot_be_kept_costs_a_note_and_is_always_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As under cudaMallocAsync: the profile itself stays."""
    asked: list[object] = []

    def refusing(enabled: str | None, **_: object) -> None:
        asked.append(enabled)
        if enabled:
            raise RuntimeError("cudaMallocAsync does not yet support recordHistory")

    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", refusing)
    monkeypatch.setattr(snapshot, "free_memory", lambda device: None)
    whole = recording._profiled(trainer("cpu"), RING, None)
    monkeypatch.setattr(recording, "_profiled", lambda *_: whole)
    profiled = recording.profile(trainer("cuda"), RING)
    assert asked == ["all", None]
    assert profiled.memory is None
    assert profiled.model_copy(update={"notes": ()}) == whole
    assert profiled.notes == (
        "The memory of a step could not be recorded: RuntimeError: cudaMallocAsync does not yet "
        "support recordHistory",
    )


def test_a_step_that_fails_while_it_is_recorded_stops_the_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        torch.cuda.memory, "_record_memory_history", lambda enabled, **_: asked.append(enabled)
    )
    monkeypatch.setattr(snapshot, "free_memory", lambda device: None)
    made = trainer("cuda")
    plain = made._forward
    with pytest.raises((RuntimeError, AssertionError)):  # there is no CUDA for its marks
        snapshot.memory(made, RING)
    assert asked == ["all", None]
    assert made._forward == plain


def test_marks_know_every_gradient_and_where_the_code_keeps_its_tensors() -> None:
    made = trainer("cpu")
    made.inputs = (torch.randn(3),)  # as of a graph
    with snapshot.marked(made) as current:
        current[0] = marks = snapshot._Marks(made)
        marks.end(snapshot.BEGINNING)
        known = snapshot._known(made, RING)
        batch = made.place(RING[0])
        marks.end("start")
        made.step(batch)
        marks.end("optimizer")
    assert list(marks.ends.values()) == [
        *(snapshot.BEGINNING, "start", "forward", "forward", "backward", "optimizer"),
    ]
    assert len(marks.gradients) == 2  # of the weight and of the bias
    weight, bias = made.model.parameters()
    addresses = {weight.data_ptr(): "parameters", bias.data_ptr(): "parameters"}
    inputs = (RING[0][0], made.inputs[0])
    assert known == addresses | {tensor.data_ptr(): "inputs" for tensor in inputs}


@pytest.mark.gpu
def test_a_list_that_keeps_activations_is_found_on_a_gpu_with_its_line() -> None:
    """Three matrices of 64 MiB: one is kept each step, by one line."""
    kept: list[torch.Tensor] = []
    side = 4_096

    def keeping(model: nn.Module, batch: Batch) -> torch.Tensor:
        hidden = model(batch[0])
        kept.append(hidden.detach() * 2)
        return hidden.square().mean()  # type: ignore[no-any-return]

    device = torch.device("cuda", 0)
    model = nn.Linear(side, side, bias=False).to(device)
    plain = trainer("cpu").recipe
    made = Trainer(
        Recipe(**{**vars(plain), "model": model, "loss": keeping, "batch": side}), device
    )
    ring = [(torch.randn(side, side, device=device),)]
    made.step(ring[0])
    memory = snapshot.memory(made, ring)
    assert memory is not None
    matrix_b = 4 * side * side
    assert memory.categories["parameters"] == matrix_b
    assert memory.categories["inputs"] == matrix_b
    largest = next(one for one in memory.lines if one.category == "kept")
    assert largest.size_b == 2 * matrix_b  # of the step before it and of its own
    number = keeping.__code__.co_firstlineno + 2
    assert largest.source.endswith(f"test_memory_snapshot.py:{number}")
