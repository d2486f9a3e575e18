"""A planted disk, a planted hold of the interpreter's lock, and loaders that more processes help
or not: each is found, with its seconds."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks.contracts import Input, Protocol
from benchmarks.diagnosis import loader_processes
from benchmarks.measure.profile import extra_passes, sample_cost
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

FILES, FILE_B = 64, 20_480
DISK_S = 0.02
"""Seconds that the planted disk takes for a file: 1 MB/s."""
SAMPLE_S, STEP_S = 0.05, 0.02
BRIEF = Protocol(
    warmup_min_s=0.2,
    warmup_max_s=3.0,
    settle_max_s=0.0,
    window_min_s=0.5,
    window_max_s=2.0,
    block_min_s=0.05,
    phases=True,
)


class Made(Dataset[Batch]):
    """Samples for each of which a function is called."""

    def __init__(self, make: Callable[[int], object], size: int = FILES) -> None:
        self.make, self.size = make, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Batch:
        self.make(index)
        return (torch.full((4,), float(index)),)


def loss(model: nn.Module, batch: Batch) -> Tensor:
    time.sleep(STEP_S)
    out: Tensor = model(batch[0]).pow(2).mean()
    return out


def recipe(make: Callable[[int], object], workers: int = 0) -> Recipe:
    return Recipe(
        model=nn.Linear(4, 1),
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=Made(make),
        batch=2,
        optimizer_options={"lr": 1e-6},
        loader_options={"num_workers": workers, "persistent_workers": workers > 0},
    )


def cost_of(make: Callable[[int], object], device: str = "cpu") -> Input:
    made = recipe(make)
    made.model.to(device)
    ring = [(torch.zeros(2, 4, device=device),)] * 2
    trainer = Trainer(made, torch.device(device))
    trainer.step(ring[0])  # as after the timed passes: a GPU's code has come from the disk
    return sample_cost.measure(trainer, ring)


def tries(make: Callable[[int], object], count: int = 3, device: str = "cpu") -> Iterator[Input]:
    """Several costs of the same: whoever else uses the machine only makes one of them worse."""
    return (cost_of(make, device) for _ in range(count))


def from_disk_b() -> int:
    """Bytes that a disk has given this process."""
    counters = Path("/proc/self/io").read_text(encoding="ascii")
    return int(counters.partition("\nread_bytes: ")[2].partition("\n")[0])


def files_in(folder: Path, count: int = FILES) -> list[Path]:
    paths = [folder / f"{number}.bin" for number in range(count)]
    for path in paths:
        path.write_bytes(os.urandom(FILE_B))
    return paths


def drop(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def on_disk(tmp_path: Path) -> list[Path]:
    paths = files_in(tmp_path)
    drop(paths)
    before_b = from_disk_b()
    for path in paths:
        path.read_bytes()
    if from_disk_b() - before_b < FILES * FILE_B:
        pytest.skip("the temporary folder has no disk behind it")
    return paths


def slow_disk(paths: list[Path]) -> Callable[[int], object]:
    """Read a file, and wait `DISK_S` for its bytes where a disk gives them."""

    def read(index: int) -> object:
        before_b = from_disk_b()
        content = paths[index].read_bytes()
        time.sleep(DISK_S * (from_disk_b() - before_b) / FILE_B)
        return content

    return read


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_slow_disk_is_found_with_its_seconds_though_the_run_was_warm(
    on_disk: list[Path], device: str
) -> None:
    def found(cost: Input) -> bool:
        assert cost.absent == ""
        # A GPU's libraries come from the disk page by page, as their code is first used.
        assert cost.missed_b <= (FILE_B / 20 if device == "cuda" else 0.0)
        assert cost.read_b == pytest.approx(FILE_B, rel=0.2)
        assert cost.disk_b == pytest.approx(FILE_B, rel=0.2)
        assert cost.disk_s is not None
        assert cost.disk_b_per_s
        # The real disk is read as well, and has other readers.
        return DISK_S <= cost.disk_s <= 1.5 * DISK_S and cost.fetch_s < DISK_S / 2

    assert any(map(found, tries(slow_disk(on_disk), device=device)))


@pytest.mark.slow
def test_files_that_were_not_in_memory_are_told(on_disk: list[Path]) -> None:
    waited_s = []
    for _ in range(3):
        drop(on_disk)
        cost = cost_of(slow_disk(on_disk))
        assert cost.missed_b == pytest.approx(FILE_B, rel=0.2)
        waited_s.append(loader_processes.waits_for_disk_s(cost))
    assert max(waited_s) >= 0.95 * DISK_S


def test_a_file_that_several_samples_share_is_counted_once(on_disk: list[Path]) -> None:
    """Else the second one finds its pages in memory, and the disk seems fast."""
    few = on_disk[: FILES // 4]
    read = slow_disk(few)

    def found(cost: Input) -> bool:
        assert cost.disk_b == pytest.approx(FILE_B, rel=0.2)
        assert cost.samples <= len(few)
        return cost.disk_s is not None and cost.disk_s >= 0.9 * DISK_S

    assert any(map(found, tries(lambda index: read(index % len(few)))))


def test_files_without_a_disk_are_not_called_fast() -> None:
    folder = Path("/dev/shm") / f"throughline-{os.getpid()}"
    folder.mkdir()
    try:
        paths = files_in(folder)
        cost = cost_of(lambda index: paths[index].read_bytes())
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    assert cost.disk_s is None
    assert "could not be dropped" in cost.absent
    assert cost.read_b == pytest.approx(FILE_B, rel=0.2)


def test_samples_without_files_have_no_disk() -> None:
    cost = cost_of(lambda index: index)
    assert (cost.disk_s, cost.disk_b) == (None, None)
    assert "opens no file" in cost.absent
    assert cost.fetch_s > 0


def count_up(index: int) -> int:
    number = 0
    for one in range(60_000):
        number += one
    return number


def shares(make: Callable[[int], object]) -> Iterator[float]:
    return (loader_processes.lock_share(cost) or 0.0 for cost in tries(make))


def test_python_that_holds_the_lock_is_told_from_waiting_that_does_not() -> None:
    assert any(share > 0.6 for share in shares(count_up))
    assert any(share < 0.3 for share in shares(lambda _: time.sleep(0.005)))


def test_files_that_samples_share_and_large_ones_keep_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared.bin"
    shared.write_bytes(os.urandom(2**20))
    dropped: list[str] = []
    monkeypatch.setattr(sample_cost, "_drop", dropped.extend)

    def read(index: int) -> bytes:
        with shared.open("rb") as file:
            file.seek(index * 64)
            return file.read(64)

    fetch = lambda piece: [read(index) for index in piece]  # noqa: E731
    pieces = [[index] for index in range(20)]
    assert sample_cost._with_files(fetch, pieces) == (pieces, ())
    monkeypatch.setattr(sample_cost, "MOST_FILE_B", 2**10)
    assert not sample_cost._may_be_dropped(str(shared))


def test_a_process_that_cannot_be_started_costs_no_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(sample_cost, "measure", refused)
    cost = extra_passes._sample_cost(None, [])  # type: ignore[arg-type]
    assert "temporarily unavailable" in cost.absent
