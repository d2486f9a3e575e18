"""A whole optimizer step captured as one CUDA graph and replayed.

The host then launches one graph instead of each kernel. All tensors of the step must keep their
addresses: inputs are copied into buffers of the graph, gradients live in its own memory. A decision
of the host on a device value (a gradient scaler) cannot be in a graph.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.catalog.catalog import Refused
from benchmarks.measure.failures import first_line
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

WARM_UP = 3
"""Steps before the capture: libraries choose their algorithms, the optimizer makes its state."""


class GraphedTrainer(Trainer):
    """Captures the step at its first call, after a few uncaptured warm-up steps."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        super().__init__(capturable(recipe), device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss_of_replay: Tensor | None = None

    def step(self, batch: Batch) -> Tensor:
        """One optimizer step by replay; the first call, and the first with another shape, captures.

        Returns:
            The loss, a scalar on the device that the next step overwrites.

        Raises:
            Refused: the step cannot be captured.
        """
        if [held.shape for held in self.inputs] != [given.shape for given in batch]:
            self._capture(batch)
        assert self._graph is not None
        assert self._loss_of_replay is not None
        for held, given in zip(self.inputs, batch, strict=True):
            held.copy_(given, non_blocking=True)
        self._graph.replay()
        return self._loss_of_replay

    def changed(self) -> None:
        """Capture anew at the next step."""
        self.inputs = ()

    def _rewind_optimizer(self) -> None:
        for state in self.optimizer.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()

    def _capture(self, batch: Batch) -> None:
        self._graph = self._loss_of_replay = None  # an older graph gives its memory back
        self.inputs = tuple(tensor.clone() for tensor in batch)
        side, computing = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(computing)
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                super().step(self.inputs)
        computing.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            # The loader's pinning thread may call CUDA meanwhile; only this thread is captured.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._loss_of_replay = super().step(self.inputs)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise Refused(refusal(error)) from error
        self._graph = graph


def trainer(recipe: Recipe, device: torch.device) -> Trainer:
    """Return the trainer of ``recipe``: launch by launch, as one graph, or of a stage."""
    if recipe.parallel == "pp":
        from benchmarks.measure.pipeline import PipelineTrainer  # noqa: PLC0415 - seconds

        return PipelineTrainer(recipe, device)
    return GraphedTrainer(recipe, device) if recipe.graphs else Trainer(recipe, device)


def capturable(recipe: Recipe) -> Recipe:
    """``recipe`` with an optimizer that counts its steps on the device, where it counts any."""
    takes: Any = inspect.signature(recipe.optimizer).parameters
    if "capturable" not in takes:
        return recipe
    return replace(recipe, optimizer_options={**recipe.optimizer_options, "capturable": True})


def refusal(error: BaseException) -> str:
    """One sentence: graphs=on cannot capture this step, and why."""
    why = first_line(str(error) or type(error).__name__)[:300].rstrip(".")
    return f"graphs=on cannot capture this step as one CUDA graph: {why}."
