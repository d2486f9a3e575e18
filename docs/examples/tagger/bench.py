"""The tagger on sentences of twenty words.

``throughline bench tagger.bench:build precision=bf16`` in the folder above this package.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.workload import Batch, Context, Recipe
from tagger.model import Tagger

ITEM = "word"
FACTS = {"input": "tokens"}
PRESETS = {
    "full": {"batch": 512, "width": 1024, "sentences": 16_384},
    "tiny": {"batch": 16, "width": 32, "sentences": 256},
}
WORDS, TAGS, LENGTH = 5_000, 17, 20


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross entropy of (sentences [B, T], tags [B, T])."""
    sentences, tags = batch
    return F.cross_entropy(model(sentences).flatten(0, 1), tags.flatten())


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Say what to train, on what, and how; what is not said here is PyTorch's default."""
    torch.manual_seed(context.seed)
    sentences = torch.randint(WORDS, (size["sentences"], LENGTH))
    return Recipe(
        model=Tagger(WORDS, TAGS, size["width"]),
        loss=loss,
        optimizer=torch.optim.AdamW,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 1e-3},
        dataset=TensorDataset(sentences, sentences % TAGS),
        batch=size["batch"],
        items_per_sample=LENGTH,
        data_name="tagger-random-v1",
    )
