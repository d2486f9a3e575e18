"""The word model, with PyTorch's cross entropy or with a kernel of its own.

``throughline bench wordmodel.bench:build kernel=triton`` in the folder above this package, or with
``kernel=cuda``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.workload import Batch, Context, Recipe
from wordmodel import cuda_kernels
from wordmodel.cross_entropy import cross_entropy
from wordmodel.model import WordModel

ITEM = "word"
FACTS = {"input": "tokens"}
PRESETS = {
    "full": {"batch": 64, "passage": 128, "width": 512, "vocabulary": 50_304},
    "tiny": {"batch": 8, "passage": 8, "width": 32, "vocabulary": 1_000},
}
PASSAGES = 512
CONTEXT = 4


def windows(passages: Tensor) -> tuple[Tensor, Tensor]:
    """Return the words before each word [N, CONTEXT], and that word [N], of passages [B, words]."""
    before = passages[:, :-1].unfold(1, CONTEXT, 1)
    return before.reshape(-1, CONTEXT), passages[:, CONTEXT:].reshape(-1)


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross entropy of each word of the passages by PyTorch's operators."""
    words, following = windows(*batch)
    return F.cross_entropy(model(words), following)


def fused_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The same by one operator."""
    words, following = windows(*batch)
    return cross_entropy(model(words), following)


def cuda_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The same by that operator in CUDA C++."""
    words, following = windows(*batch)
    return cross_entropy(model(words), following, cuda_kernels.LIBRARY)


def with_cuda(recipe: Recipe, context: Context) -> Recipe:
    """``recipe`` with that loss, whose library is built here, before anything is timed."""
    cuda_kernels.load(context)
    return replace(recipe, loss=cuda_loss)


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Say what to train; `kernels` names what ``kernel=`` may be, and what each changes."""
    torch.manual_seed(context.seed)
    passages = torch.randint(size["vocabulary"], (PASSAGES, CONTEXT + size["passage"]))
    return Recipe(
        model=WordModel(size["vocabulary"], size["width"], CONTEXT),
        loss=loss,
        optimizer=torch.optim.AdamW,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 1e-3},
        dataset=TensorDataset(passages),
        batch=size["batch"],
        items_per_sample=size["passage"],
        data_name="wordmodel-passages-v1",
        kernels={
            "triton": lambda recipe: replace(recipe, loss=fused_loss),
            "cuda": partial(with_cuda, context=context),
        },
    )
