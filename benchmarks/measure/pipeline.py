"""A step of a pipeline: each rank has a stage of the model, and a batch goes through in parts.

torch's own stages and 1F1B schedule. A weight that several stages hold, as a tied embedding, gets
the sum of their gradients.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from benchmarks.catalog.catalog import Refused
from benchmarks.measure import check_recipe
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe


class PipelineTrainer(Trainer):
    """Trains one stage of a pipeline."""

    def __init__(self, recipe: Recipe, device: torch.device) -> None:
        if recipe.microbatches < recipe.gpus or recipe.batch % recipe.microbatches:
            raise Refused(
                f"parallel=pp needs microbatches= of {recipe.gpus} or more that divide the batch, "
                f"and this case has {recipe.microbatches} of a batch of {recipe.batch}."
            )
        tied = _tied(recipe)
        super().__init__(recipe, device)
        rank = dist.get_rank()
        self._is_first, self.knows_loss = rank == 0, rank == recipe.gpus - 1
        self._tied = [(weight, group) for weight, ranks, group in tied if rank in ranks]
        stage = PipelineStage(_Autocast(self.model, self), rank, recipe.gpus, device)
        self._schedule = Schedule1F1B(stage, recipe.microbatches, self._loss_of)

    def step(self, batch: Batch) -> Tensor:
        """As `Trainer.step`; only the last stage knows the loss, the others return NaN."""
        self.passed()
        if len(batch) != 2:
            raise Refused(f"parallel=pp needs batches of two tensors, and this has {len(batch)}.")
        inputs, target = batch
        losses: list[Tensor] = []
        self._schedule.step(
            *((inputs,) if self._is_first else ()),
            target=target if self.knows_loss else None,
            losses=losses,
            return_outputs=False,
        )
        for weight, group in self._tied:
            assert weight.grad is not None
            dist.all_reduce(weight.grad, group=group)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self._drop_gradients)
        if not losses:
            return torch.full((), torch.nan, device=self.device)
        return torch.stack(losses).mean().detach()

    def _loss_of(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of a part, by the workload's function: the pipeline has called the model."""
        with self._autocast():
            made = self.recipe.loss(_Given(output), (target, target))
            return check_recipe.loss(made)


class _Autocast(nn.Module):
    """A stage in the step's precision."""

    def __init__(self, stage: nn.Module, trainer: Trainer) -> None:
        super().__init__()
        self.stage = stage
        self._precision = trainer._autocast

    def forward(self, *given: Tensor) -> Any:
        with self._precision():
            return self.stage(*given)


class _Given(nn.Module):
    """A model whose output is known."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self._output = output

    def forward(self, _: Tensor) -> Tensor:
        return self._output


def _tied(recipe: Recipe) -> list[tuple[nn.Parameter, list[int], Any]]:
    """Weights that several stages hold, the stages, and their process group."""
    assert recipe.stage is not None
    holders: dict[nn.Parameter, list[int]] = {}
    for rank in range(recipe.gpus):
        for weight in recipe.stage(recipe.model, rank, recipe.gpus).parameters():
            holders.setdefault(weight, []).append(rank)
    shared = [(weight, ranks) for weight, ranks in holders.items() if len(ranks) > 1]
    return [(weight, ranks, dist.new_group(ranks)) for weight, ranks in shared]
