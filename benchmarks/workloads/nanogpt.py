"""GPT-2 small as nanoGPT builds it, on a token file: matrix products, attention, AdamW.

Radford et al. 2019, and https://github.com/karpathy/nanoGPT (model.py), whose state-dict names,
initialisation and settings these are: 12 layers, 12 heads, 768 wide, 1,024 tokens, a vocabulary of
50,304 (50,257 padded to a multiple of 64), no biases, no dropout, input and output embedding tied.
124,373,760 parameters, each counted once; less the 786,432 of the position embedding these are
the 123.59 M that nanoGPT reports. One training step costs 854.8 MFLOP a token (6 N + 12 L H Q T,
as PaLM and nanoGPT count it).

nanoGPT clips gradients and varies the learning rate; both are left out, as the harness times a
step that is the same for every workload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's own custom
from torch import Tensor, nn

from benchmarks.catalog.catalog import Refused
from benchmarks.data.documents import Documents, open_documents
from benchmarks.data.tokens import Windows, open_tokens
from benchmarks.workload import Batch, Context, Recipe

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# Config

ITEM = "token"
FACTS = {
    "input": "tokens",
    "attends": "causally",
    "real_lengths": "yes",
    "tensor_parallel": "yes",
    "pipeline": "yes",
}
PRESETS = {
    "full": {
        "batch": 32,
        "layers": 12,
        "head": 64,
        "width": 768,
        "length": 1024,
        "vocabulary": 50304,
        "text": 32_000_000,
    },
    "tiny": {
        "batch": 8,
        "layers": 4,
        "head": 32,
        "width": 128,
        "length": 128,
        "vocabulary": 1024,
        "text": 2_000_000,
    },
}
WEIGHT_DECAY = 0.1


@dataclass(frozen=True)
class Config:
    """The model's sizes; as they stand, GPT-2 small."""

    layers: int = 12
    head: int = 64
    """Channels of a head: as in GPT-2's larger forms, a wider model has more heads of this size."""
    width: int = 768
    length: int = 1024
    """Tokens in a window."""
    vocabulary: int = 50304

    @property
    def heads(self) -> int:
        """Return the number of heads that share the width."""
        return self.width // self.head


# Layers


class CausalSelfAttention(nn.Module):
    """Each token looks at itself and at what came before."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.head = config.head
        self.c_attn = nn.Linear(config.width, 3 * config.width, bias=False)
        self.c_proj = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, T, C]
        """Return [B, T, C]."""
        parts = self.c_attn(x).chunk(3, dim=2)  # of a rank's own heads, where ranks share them
        q, k, v = (part.unflatten(2, (-1, self.head)).transpose(1, 2) for part in parts)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # [B, heads, T, C / heads]
        mixed: Tensor = self.c_proj(x.transpose(1, 2).flatten(2))
        return mixed


class MLP(nn.Module):
    """Fourfold wider and back."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.width, 4 * config.width, bias=False)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * config.width, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, T, C]
        """Return [B, T, C]."""
        mixed: Tensor = self.c_proj(self.gelu(self.c_fc(x)))  # [B, T, 4 C] in between
        return mixed


class Block(nn.Module):
    """Attention, then MLP, each after its own norm and around a shortcut."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width, bias=False)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.width, bias=False)
        self.mlp = MLP(config)

    def forward(self, x: Tensor) -> Tensor:  # [B, T, C]
        """Return [B, T, C]."""
        x = x + self.attn(self.ln_1(x))
        total: Tensor = x + self.mlp(self.ln_2(x))
        return total


# Model


class Transformer(nn.Module):
    """Embeddings, blocks, a last norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocabulary, config.width)
        self.wpe = nn.Embedding(config.length, config.width)
        self.h = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:  # int64 [B, T]
        """Return [B, T, C]."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)  # [T]
        x: Tensor = self.wte(tokens) + self.wpe(positions)  # [B, T, C] + [T, C]
        for block in self.h:
            x = block(x)
        normed: Tensor = self.ln_f(x)
        return normed


class GPT(nn.Module):
    """The transformer and its head, which shares the token embedding's weight."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.transformer = Transformer(config)
        self.lm_head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue  # a norm's weight starts at 1 by itself
            # Each block adds twice to the residual stream: GPT-2 keeps its variance at the start.
            shrink = math.sqrt(2 * config.layers) if name.endswith("c_proj.weight") else 1.0
            nn.init.normal_(weight, std=0.02 / shrink)

    def forward(self, tokens: Tensor) -> Tensor:  # int64 [B, T]
        """Return the logits of each next token, [B, T, vocabulary]."""
        logits: Tensor = self.lm_head(self.transformer(tokens))
        return logits


# Ranks


def tensor_parallel(model: nn.Module, mesh: DeviceMesh) -> None:
    """Share heads, the MLP's channels and the vocabulary among ranks, and tokens between layers.

    Megatron's layers (Shoeybi et al. 2019) with sequence parallelism (Korthikanti et al. 2022).
    """
    from torch.distributed.tensor import Replicate, Shard  # noqa: PLC0415 - seconds to load
    from torch.distributed.tensor import parallel as tp  # noqa: PLC0415

    assert isinstance(model, GPT)
    attention = model.transformer.h[0].attn
    assert isinstance(attention, CausalSelfAttention)
    shared_by, heads = mesh.size(), attention.c_attn.in_features // attention.head
    if heads % shared_by:
        raise Refused(f"parallel=tp needs heads that {shared_by} GPUs can share, not {heads}.")
    tokens, channels = Shard(1), Shard(2)
    plan: dict[str, tp.ParallelStyle] = {
        "transformer.wte": tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=tokens),
        "transformer.wpe": tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0)),
        "transformer.ln_f": tp.SequenceParallel(use_local_output=True),
        "lm_head": tp.ColwiseParallel(
            input_layouts=tokens, output_layouts=channels, use_local_output=False
        ),
    }
    for number, block in enumerate(model.transformer.h):
        weight = cast(Block, block).attn.c_attn.weight
        with torch.no_grad():  # a rank's rows: queries, keys and values of its own heads
            by_rank = weight.view(3, shared_by, -1, weight.shape[1]).transpose(0, 1)
            weight.copy_(by_rank.flatten(0, 2).clone())
        for norm in ("ln_1", "ln_2"):
            plan[f"transformer.h.{number}.{norm}"] = tp.SequenceParallel(use_local_output=True)
        for name in ("attn.c_attn", "mlp.c_fc"):
            plan[f"transformer.h.{number}.{name}"] = tp.ColwiseParallel(input_layouts=tokens)
        for name in ("attn.c_proj", "mlp.c_proj"):
            plan[f"transformer.h.{number}.{name}"] = tp.RowwiseParallel(output_layouts=tokens)
    tp.parallelize_module(model, mesh, plan)
    model.transformer.wte.weight = model.lm_head.weight


class Stage(nn.Module):
    """Some of the blocks. The first stage embeds tokens, the last returns logits."""

    def __init__(self, model: GPT, rank: int, stages: int) -> None:
        super().__init__()
        whole = model.transformer
        if len(whole.h) % stages:
            raise Refused(f"parallel=pp needs blocks that {stages} GPUs can share equally.")
        share = len(whole.h) // stages
        self.h = whole.h[rank * share : (rank + 1) * share]
        self.wte = whole.wte if rank == 0 else None
        self.wpe = whole.wpe if rank == 0 else None
        last = rank == stages - 1
        self.head = nn.Sequential(whole.ln_f, model.lm_head) if last else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:  # int64 [B, T] or [B, T, C]
        """Return [B, T, C], or of the last stage [B, T, vocabulary]."""
        if self.wte is not None and self.wpe is not None:
            x = self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device))
        for block in self.h:
            x = block(x)
        result: Tensor = self.head(x)
        return result


# Loss


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross entropy of (x [B, T], y [B, T]), without targets of -100, which fill up documents.

    Compiled as one function, it fuses with the head.
    """
    x, y = batch
    logits = model(x)  # [B, T, vocabulary]
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.reshape(-1))


# Build


def decay_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Let matrices and embeddings decay, and spare the norms, as nanoGPT does."""
    weights = list(model.parameters())
    return [
        {"params": [w for w in weights if w.dim() >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]


def flops(size: Mapping[str, int]) -> float:
    """FLOP of a training step per window, by formula: T (6 N + 12 L H Q T), as PaLM counts it.

    N leaves out the position embedding, which multiplies nothing. A kernel that skips the masked
    half of attention does 6 L H Q T (798.0 MFLOP a token): utilisation is told by the model's
    arithmetic, so the mask is not subtracted.
    """
    layers, width, length = size["layers"], size["width"], size["length"]
    weights = 12 * layers * width**2 + size["vocabulary"] * width + (2 * layers + 1) * width
    return float(length * (6 * weights + 12 * layers * width * length))


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Propose the recipe: nanoGPT's settings for GPT-2 small.

    Raises:
        Refused: a width that is no whole number of heads.
    """
    config = Config(**{name: size[name] for name in Config.__dataclass_fields__})
    if config.width % config.head:
        raise Refused(
            f"Each head has {config.head} channels: the width must be a multiple of {config.head}, "
            f"and {config.width} is none."
        )
    torch.manual_seed(context.seed)
    with context.device:
        model = GPT(config)
    file = open_tokens(context, config.vocabulary, size["text"])

    def of_documents(recipe: Recipe) -> Recipe:
        documents = open_documents(context, config.vocabulary, size["text"])
        dataset = Documents(documents, config.length)
        return replace(recipe, dataset=dataset, data_name=documents.name)

    return Recipe(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW,
        parameters=decay_groups,
        optimizer_options={"lr": 6e-4, "betas": (0.9, 0.95)},
        dataset=Windows(file, config.length, context.seed),
        batch=size["batch"],
        items_per_sample=config.length,
        data_name=file.name,
        blocks=(Block,),
        real_lengths=of_documents,
        tensor_parallel=tensor_parallel,
        stage=lambda model, rank, stages: Stage(cast(GPT, model), rank, stages),
    )
