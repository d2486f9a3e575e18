"""Steps of FULL in a kept trace: who waits for whom can be seen, on the tracks of both."""

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, get_worker_info

from benchmarks.contracts import Profile
from benchmarks.measure.graphs import trainer as made_trainer
from benchmarks.measure.profile import extra_passes, full_trace, recording
from benchmarks.measure.profile.full_trace import FULL, LOADER, SYNTH
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

B, WIDTH = 8, 32
SLOW_S = 0.08
"""Seconds in which a slow data set makes a batch."""
PHASES = ("data", "copy", "forward", "backward", "optimizer")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
Event = dict[str, Any]


class Samples(Dataset[Batch]):
    """Samples at a price."""

    def __init__(self, read_s: float = 0.0, collate_s: float = 0.0) -> None:
        self.read_s, self.collate_s = read_s, collate_s
        self.opened = False

    def open(self) -> None:
        self.opened = True

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> Batch:
        time.sleep(self.read_s / B)
        return (torch.full((WIDTH,), float(index)),)

    def collate(self, samples: list[Batch]) -> Batch:
        time.sleep(self.collate_s)
        return (torch.stack([sample[0] for sample in samples]),)


class Plain(Dataset[Tensor]):
    """Samples that torch's own collate makes a batch of, as those of most users."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> tuple[Tensor]:
        return (torch.full((WIDTH,), float(index)),)


def loss(model: nn.Module, batch: Batch) -> Tensor:
    out: Tensor = model(batch[0]).pow(2).mean()
    return out


def trainer(dataset: Dataset[Any], workers: int = 0, **more: Any) -> Trainer:
    device = torch.device(more.pop("device", "cpu"))
    recipe = Recipe(
        model=nn.Linear(WIDTH, WIDTH).to(device),
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=dataset,
        batch=B,
        optimizer_options={"lr": 1e-4},
        loader_options={"num_workers": workers, **more.pop("loader_options", {})},
    )
    return made_trainer(replace(recipe, **more), device)


def traced(made: Trainer, folder: Path, name: str = "trace.json.gz") -> list[Event]:
    """The events of a kept trace, once steps of FULL were added to it."""
    keep = folder / name
    ring = [(torch.randn(B, WIDTH, device=made.device),) for _ in range(4)]
    recording._timed(made, ring, keep)
    full_trace.add(made, 0, keep, lambda: None)
    return recording.events_of(keep)


def ranges(events: list[Event], name: str) -> list[Event]:
    found = [e for e in events if e.get("name") == name and e["cat"] == "user_annotation"]
    return sorted(found, key=lambda event: float(event["ts"]))


def steps_of(events: list[Event], name: str) -> list[Event]:
    numbers = range(1, 1 + sum(str(e.get("name")).startswith(f"{name} ") for e in events))
    return [ranges(events, f"{name} {number}")[0] for number in numbers]


def within(events: list[Event], around: Event) -> list[Event]:
    """Events that lie in another one, whatever their track."""
    start, end = around["ts"], around["ts"] + around["dur"]
    return [e for e in events if "dur" in e and start <= e["ts"] and e["ts"] + e["dur"] <= end]


def phases_of(events: list[Event], step: Event) -> list[Event]:
    """The ranges of a step's phases on the host, which a GPU's own track repeats."""
    inside = within(events, step)
    found = [one for name in PHASES for one in ranges(inside, name)]
    return sorted(found, key=lambda event: float(event["ts"]))


def seconds(events: list[Event]) -> float:
    return sum(float(event["dur"]) for event in events) / 1e6


def waited_s(events: list[Event]) -> list[float]:
    """Seconds of each FULL step in which it waited for its batch."""
    return [seconds(ranges(within(events, one), "data")) for one in steps_of(events, FULL)]


def loader_s(events: list[Event], name: str) -> dict[int, float]:
    """Seconds of each loader process's shortest range of this name.

    A busy machine lengthens some of them, hardly all.
    """
    shortest: dict[int, float] = {}
    for event in events:
        if event.get("cat") == LOADER and event["name"] == name:
            lasted = seconds([event])
            shortest[event["pid"]] = min(lasted, shortest.get(event["pid"], lasted))
    return shortest


def names_of_processes(events: list[Event]) -> dict[int, str]:
    told = [e for e in events if e.get("name") == "process_name"]
    return {event["pid"]: event["args"]["name"] for event in told}


@pytest.mark.parametrize("device", DEVICES)
def test_a_starved_step_waits_in_its_data_range_while_each_loader_process_reads(
    device: str, tmp_path: Path
) -> None:
    events = traced(trainer(Samples(read_s=SLOW_S), workers=2, device=device), tmp_path)
    waits = waited_s(events)
    assert len(waits) == recording.ACTIVE
    # Two processes give a batch every SLOW_S / 2 on the mean, and the step takes next to nothing.
    assert sum(waits) / len(waits) > 0.35 * SLOW_S
    reading = loader_s(events, "read")
    assert len(reading) == 2
    assert os.getpid() not in reading
    assert all(SLOW_S <= s < 3 * SLOW_S for s in reading.values())
    named = names_of_processes(events)
    assert {named[pid] for pid in reading} == {"loader process 0", "loader process 1"}


@pytest.mark.parametrize("device", DEVICES)
def test_the_batch_that_a_step_waits_for_is_made_before_its_wait_ends(
    device: str, tmp_path: Path
) -> None:
    """The clocks of both tracks agree: no batch is used before it was collated."""
    events = traced(trainer(Samples(read_s=SLOW_S), workers=2, device=device), tmp_path)
    collated = {
        e["args"][FULL]: e["ts"] + e["dur"]
        for e in events
        if e.get("cat") == LOADER and e["name"] == "collate"
    }
    late_s = []
    for number, one in enumerate(steps_of(events, FULL), 1):
        (data,) = ranges(within(events, one), "data")
        if number in collated:  # the first ones were made before the steps that are recorded
            late_s.append((data["ts"] + data["dur"] - collated[number]) / 1e6)
    assert min(late_s) > 0
    assert min(late_s) < 0.5 * SLOW_S, "it comes at once where a step waits for it"


def test_a_fast_loader_lets_no_step_wait(tmp_path: Path) -> None:
    def slow_loss(model: nn.Module, batch: Batch) -> Tensor:
        time.sleep(SLOW_S)
        return loss(model, batch)

    made = trainer(Samples(), workers=2, loss=slow_loss)
    events = traced(made, tmp_path)
    assert statistics.median(waited_s(events)) < 0.3 * SLOW_S
    assert min(loader_s(events, "read").values()) < 0.3 * SLOW_S


def test_collating_has_a_range_of_its_own(tmp_path: Path) -> None:
    events = traced(trainer(Samples(collate_s=SLOW_S), workers=1), tmp_path)
    assert min(loader_s(events, "collate").values()) >= SLOW_S
    assert min(loader_s(events, "read").values()) < 0.3 * SLOW_S


def gaps_us(events: list[Event]) -> Iterator[float]:
    """What lies in the wait of each FULL step before its batch was read, and after that."""
    for number, one in enumerate(steps_of(events, FULL), 1):
        (data,) = ranges(within(events, one), "data")
        (read,) = (e for e in events if e.get("name") == "read" and e["args"].get(FULL) == number)
        assert (read["pid"], read["tid"]) == (data["pid"], data["tid"])
        gaps = (read["ts"] - data["ts"], data["ts"] + data["dur"] - read["ts"] - read["dur"])
        assert min(gaps) > -100
        yield from gaps


def test_without_loader_processes_the_reading_lies_in_the_steps_own_wait(tmp_path: Path) -> None:
    """So the clock of the stamps is that of the profiler, to well under a millisecond."""
    slow = trainer(Samples(read_s=SLOW_S))
    # Whatever else the machine does may hold up a step of one trace, and not those of all three.
    longest_us = (max(gaps_us(traced(slow, tmp_path))) for _ in range(3))
    assert any(gap_us < 0.5 * SLOW_S * 1e6 for gap_us in longest_us)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [FULL, SYNTH])
def test_the_phases_of_each_step_follow_one_another_within_it(
    name: str, device: str, tmp_path: Path
) -> None:
    events = traced(trainer(Samples(), device=device), tmp_path, "trace.json")
    steps = steps_of(events, name)
    assert len(steps) == recording.ACTIVE
    for one in steps:
        inside = phases_of(events, one)
        assert [event["name"] for event in inside] == list(PHASES)
        ends = [event["ts"] + event["dur"] for event in inside]
        assert all(end <= after["ts"] for end, after in zip(ends, inside[1:], strict=False))
    products = [e for e in events if e.get("name") == "aten::addmm"]
    forwards = [e for one in steps for e in ranges(within(events, one), "forward")]
    assert sum(bool(within([op], forward)) for op in products for forward in forwards) == len(steps)


def test_each_part_of_an_accumulated_batch_has_its_own_forward_and_backward(tmp_path: Path) -> None:
    events = traced(trainer(Samples(), accumulation=2), tmp_path)
    first = steps_of(events, FULL)[0]
    inside = [e["name"] for e in within(events, first) if e["name"] in PHASES]
    assert sorted(inside) == sorted([*PHASES, "forward", "backward"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")  # raised within Inductor
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_a_compiled_step_has_its_ranges(device: str, tmp_path: Path) -> None:
    options = {"backend": "eager"} if device == "cpu" else {"mode": "reduce-overhead"}
    made = trainer(Samples(), device=device, compile_options=options)
    events = traced(made, tmp_path)
    for one in steps_of(events, FULL):
        assert {e["name"] for e in within(events, one)} >= set(PHASES)


def test_a_step_that_is_one_graph_has_one_range_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(Samples())
    monkeypatch.setattr(made, "recipe", replace(made.recipe, graphs=True))
    monkeypatch.setattr(made, "step", lambda batch: batch[0].sum())
    events = traced(made, tmp_path)
    for one in steps_of(events, FULL):
        names = {e["name"] for e in within(events, one)}
        assert names & {*PHASES, "CUDA graph"} == {"data", "copy", "CUDA graph"}


@pytest.mark.gpu
def test_a_captured_step_on_a_gpu_has_one_range_and_its_kernels(tmp_path: Path) -> None:
    events = traced(trainer(Samples(), device="cuda", graphs=True), tmp_path)
    for one in steps_of(events, FULL):
        names = {e["name"] for e in within(events, one)}
        assert names & {*PHASES, "CUDA graph"} == {"data", "copy", "CUDA graph"}
    first = steps_of(events, FULL)[0]["ts"]
    assert any(e.get("cat") == "kernel" and e["ts"] >= first for e in events)


@pytest.mark.gpu
@pytest.mark.parametrize("prefetch", [False, True])
def test_copies_and_the_thread_that_pins_batches_can_be_seen(
    prefetch: bool, tmp_path: Path
) -> None:
    """Copies lie on the stream of the computation, or on one of their own."""
    pinned = {"loader_options": {"pin_memory": True}, "non_blocking": True}
    made = trainer(Samples(), workers=2, device="cuda", prefetch=prefetch, **pinned)
    events = traced(made, tmp_path)
    steps = steps_of(events, FULL)
    since = [e for e in events if float(e.get("ts", 0)) >= steps[0]["ts"] and "dur" in e]
    copies = {
        e["args"]["stream"]
        for e in since
        if e.get("cat") == "gpu_memcpy" and "Pinned" in e["name"] and "HtoD" in e["name"]
    }
    computing = {e["args"]["stream"] for e in since if e.get("cat") == "kernel"}
    assert len(copies) == 1
    assert (copies <= computing) is not prefetch
    main = steps[0]["tid"]
    pinning = [e for e in since if "pin_memory" in e["name"] and e.get("cat") == "cpu_op"]
    assert pinning
    assert all(event["tid"] != main for event in pinning)


def test_arrows_of_both_parts_have_numbers_of_their_own(tmp_path: Path) -> None:
    events = traced(trainer(Samples()), tmp_path)
    (middle,) = (e["ts"] for e in events if e.get("name") == f"{FULL} 1")
    numbers: dict[bool, set[int]] = {False: set(), True: set()}
    for event in events:
        if "id" in event:
            numbers[event["ts"] >= middle].add(event["id"])
    assert all(numbers.values())
    assert not numbers[False] & numbers[True]


def test_a_step_is_as_it_was_once_it_was_traced(tmp_path: Path) -> None:
    made = trainer(Samples())
    plain, forward = made.step, made._forward
    traced(made, tmp_path)
    assert (made.step, made._forward) == (plain, forward)


def test_torchs_own_collate_and_a_process_that_opens_its_data_set_work_as_before(
    tmp_path: Path,
) -> None:
    assert steps_of(traced(trainer(Plain()), tmp_path), FULL)

    def opens(_: int) -> None:
        info = get_worker_info()
        assert info is not None
        info.dataset.open()

    class Opened(Samples):
        def __getitem__(self, index: int) -> Batch:
            assert self.opened
            return super().__getitem__(index)

    options = {"worker_init_fn": opens}
    made = trainer(Opened(), workers=1, loader_options=options)
    assert steps_of(traced(made, tmp_path, "opened.json"), FULL)


def run(made: Trainer, trace: Path | None) -> Profile:
    from builders.measured import a_pass

    from benchmarks.contracts import Protocol

    timed = (a_pass(0.1), a_pass(0.1))
    ring = [(torch.randn(B, WIDTH),) for _ in range(4)]
    with Reporter(None, "test") as reporter:
        also = extra_passes.run(made, ring, timed, Protocol(profile=True), reporter, trace)
    assert also.profile is not None
    return also.profile


def test_a_loader_that_fails_leaves_the_trace_of_synth_and_says_why(tmp_path: Path) -> None:
    class Broken(Samples):
        def __getitem__(self, index: int) -> Batch:
            raise OSError("no such sample")

    keep = tmp_path / "trace.json"
    profile = run(trainer(Broken()), keep)
    assert profile.notes[-1:] == ("Steps of FULL could not be traced: OSError: no such sample",)
    events = recording.events_of(keep)
    assert any(e.get("name") == "aten::addmm" for e in events)
    assert json.loads(keep.read_text())["traceEvents"]


def test_without_a_file_no_loader_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[Path] = []
    take: Callable[..., None] = lambda _t, _s, keep, _tell: added.append(keep)  # noqa: E731
    monkeypatch.setattr(full_trace, "add", take)
    run(trainer(Samples()), None)
    assert added == []
    run(trainer(Samples()), tmp_path / "trace.json")
    assert added == [tmp_path / "trace.json"]
