"""Named ranges of a traced step, one for each phase: data, copy, forward, backward, optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor
from torch.profiler import record_function

from benchmarks.measure.profile.phases import Laps, marked
from benchmarks.measure.timestamps import maker
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch

GRAPH = "CUDA graph"
"""The range of a step that is one graph: it has no phases inside."""
_FOLLOWING = {"data": "copy", "forward": "backward", "backward": "optimizer"}


class Ranges(Laps):
    """One open range at a time: where a phase ends, the range of the next one begins."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(maker(trainer.device))
        self._open: tuple[str, record_function] | None = None

    def begin(self, phase: str) -> None:
        """Close the open range, and open that of ``phase``."""
        self.close()
        self._open = phase, record_function(phase)
        self._open[1].__enter__()  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Close the open range."""
        if self._open is not None:
            self._open[1].__exit__(None, None, None)
            self._open = None

    def end(self, phase: str) -> None:
        """Go on with the phase after ``phase``."""
        if phase in _FOLLOWING:
            self.begin(_FOLLOWING[phase])

    def forward_begins(self) -> None:
        """Open the forward's range; the first one is open since the step began."""
        if self._open is None or self._open[0] != "forward":
            self.begin("forward")

    def feed(self, batches: Iterator[Sequence[Tensor]]) -> Iterator[Sequence[Tensor]]:
        """Yield ``batches``: waiting for one is ``data``, and ``copy`` lasts until its step."""
        while True:
            self.begin("data")
            batch = next(batches)
            self.end("data")
            yield batch


@contextmanager
def named(trainer: Trainer) -> Iterator[Ranges]:
    """Have each step of ``trainer`` open and close its ranges while this context lasts."""
    ranges, plain = Ranges(trainer), trainer.step

    def step(batch: Batch) -> Tensor:
        ranges.begin(GRAPH if trainer.recipe.graphs else "forward")
        try:
            return plain(batch)
        finally:
            ranges.close()

    trainer.step = step  # type: ignore[method-assign]
    try:
        with marked(trainer) as current:
            current[0] = ranges
            yield ranges
    finally:
        ranges.close()
        trainer.step = plain  # type: ignore[method-assign]
