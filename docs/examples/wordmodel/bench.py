"""The word model, with PyTorch's cross entropy or with a kernel of its own.

``throughline bench wordmodel.bench:build kernel=triton`` in the folder above this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.workload import Batch, Context, Recipe
from wordmodel.cross_entropy import cross_entropy
from wordmodel.model import WordModel

ITEM = "word"
FACTS = {"input": "tokens"}
PRESETS = {
    "full": {"batch": 8192, "width": 512, "vocabulary": 50_304, "samples": 65_536},
    "tiny": {"batch": 64, "width": 32, "vocabulary": 1_000, "samples": 1_024},
}
CONTEXT = 4


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross entropy of (words [B, T], next words [B]) by PyTorch's operators."""
    words, following = batch
    return F.cross_entropy(model(words), following)


def fused_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The same by one operator."""
    words, following = batch
    return cross_entropy(model(words), following)


class Windows(TensorDataset):
    """Words and the next word, indexed by the batch: one by one takes longer than a step."""

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, ...]:
        """Return the batch of these samples."""
        return tuple(tensor[list(indices)] for tensor in self.tensors)

    def collate(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the batch as it is."""
        return batch


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Say what to train; `kernels` names what ``kernel=`` may be, and what each changes."""
    torch.manual_seed(context.seed)
    words = torch.randint(size["vocabulary"], (size["samples"], CONTEXT))
    return Recipe(
        model=WordModel(size["vocabulary"], size["width"], CONTEXT),
        loss=loss,
        optimizer=torch.optim.AdamW,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 1e-3},
        dataset=Windows(words, words[:, -1]),
        batch=size["batch"],
        data_name="wordmodel-random-v1",
        kernels={"triton": lambda recipe: replace(recipe, loss=fused_loss)},
    )
