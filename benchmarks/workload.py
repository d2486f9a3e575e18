"""The recipe that a workload file builds and an axis transforms.

A workload's `build` proposes a `Recipe`; each axis returns a changed copy; `benchmarks.measure`
turns the final recipe into a step and times it. Every field is declarative, so the order in which
axes are applied does not matter.

A workload file holds:

* a docstring whose first line says what it is and which cites the architecture's source;
* literals that `benchmarks.catalog.catalog` reads without importing: ``ITEM`` (what is counted),
  ``FACTS`` (what axes may ask for) and ``PRESETS`` (name to sizes, ``batch`` among them);
* ``build(size, context) -> Recipe``.

An axis file holds a docstring, the literals ``DEFAULT``, ``VALUES`` and, where they apply,
``PATTERN`` and ``NEEDS``, and ``apply(value, recipe) -> Recipe``. In place of ``apply``, ``SIZE``
names a size of the presets that the value replaces before the workload is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

Batch = tuple[Tensor, ...]
"""Tensors that share their first dimension, as a loader yields and a step takes them."""
Loss = Callable[[nn.Module, Batch], Tensor]
"""Forward pass and loss of one batch: a scalar tensor."""


@dataclass(frozen=True)
class Context:
    """The surroundings in which a workload is built: device, folders and seed."""

    device: torch.device
    cache: Path
    """Folder for input files that are made once."""
    data_root: Path | None = None
    """The user's own ImageFolder or token file instead of the built-in data."""
    seed: int = 0


@dataclass(frozen=True)
class Filling:
    """Fills one of a sample's tensors up to the length of its batch."""

    value: float | Tensor
    """A tensor is broadcast over the sample's: a value for each channel, say."""
    dims: tuple[int, ...] = (0,)
    """Dimensions of the sample that are filled up at their end: two of an image, none of a
    label."""


class RealLengths(Protocol):
    """A data set for `lengths=real`, beside its length and samples by number.

    The tensors of a sample, of the same length each, are filled up at their end into a batch.
    """

    lengths: Sequence[int]
    """Length of each sample; of an image, the pixels on its side."""
    most: int
    """Length of every batch with `dynamic=off`, and of no sample more."""
    fill: Sequence[float | Filling]
    """Padding of each of a sample's tensors; a number fills up the first dimension. Where lengths
    are counted the loss ignores padding, as `ignore_index` does, and is a mean over the rest;
    nothing else may depend on padding."""
    counted: str = "lengths"
    """Counted by throughput: ``lengths``, an item for each token, or ``samples``, the recipe's
    ``items_per_sample`` for each image. Of a data set that does not say, lengths."""


@dataclass(frozen=True)
class Recipe:
    """The parts of one optimizer step, and of its input."""

    model: nn.Module
    """On the device, in train mode."""
    loss: Loss
    optimizer: Callable[..., torch.optim.Optimizer]
    """Called with parameters (or groups) and ``optimizer_options``."""
    parameters: Callable[[nn.Module], Any]
    """Parameters or parameter groups for the optimizer."""
    dataset: Dataset[Batch]
    batch: int
    """Samples per step."""
    items_per_sample: int = 1
    """Items (images, tokens) that throughput counts per sample."""
    data_name: str = "builtin"
    """Which data were read, stable from day to day; becomes the fact ``sw.data``."""
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    loader_options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `torch.utils.data.DataLoader` beside dataset, batch size and sampler."""
    autocast: torch.dtype | None = None
    scale_gradients: bool = False
    tf32: bool = False
    memory_format: torch.memory_format = torch.contiguous_format
    """For the model and for four-dimensional inputs."""
    non_blocking: bool = False
    compile_options: Mapping[str, Any] | None = None
    """Arguments of `torch.compile`; None leaves the model eager."""
    cudnn_benchmark: bool = False
    """Let cuDNN try its convolution algorithms on first use; right where shapes never change."""
    float8: bool = False
    """Linear layers in 8-bit floats, inside autocast."""
    largest_batch: bool = False
    """Search for the largest batch that fits, from ``batch`` on, before anything is measured."""
    fastest_batch: bool = False
    """Search for the batch with the highest throughput, near ``batch``, likewise."""
    graphs: bool = False
    """Capture the whole step as one CUDA graph and replay it."""
    blocks: tuple[type[nn.Module], ...] = ()
    """The model's repeated blocks, whose activations may be recomputed; the outermost count."""
    checkpointing: bool = False
    """Keep only what enters each block and recompute the rest in the backward pass."""
    accumulation: int = 1
    """Equal parts that a batch goes through the model in, one update for all of them."""
    attention: str = "auto"
    """The one kernel that `scaled_dot_product_attention` may use; ``auto``: torch chooses;
    ``flex``: FlexAttention in its place."""
    keep_gradients: bool = False
    """Write zeros into the gradients instead of dropping them."""
    collect_garbage: bool = False
    """Leave Python's garbage collector on inside the timed passes."""
    allocator: str = ""
    """Settings of torch's CUDA allocator, as PYTORCH_CUDA_ALLOC_CONF has them."""
    prepare: Callable[[Batch], Batch] | None = None
    """Finishes a batch on the device. SYNTH's batches have been finished already, so it must leave
    a finished batch unchanged."""
    receive: Callable[[Batch, torch.device], Batch] | None = None
    """Brings to the device what the loader made, where a plain copy will not do; batches that are
    on the device never come to it."""
    prefetch: bool = False
    """Copy the next batch on a stream of its own, beside the computation."""
    kernels: Mapping[str, Callable[[Recipe], Recipe]] = field(default_factory=dict)
    """Kernels of the workload's own by name: each function returns the recipe with that kernel in
    the model or the loss. The weights stay as they are."""
    draw: Callable[[Batch], Batch] | None = None
    """Adds to a batch what the loss would else draw at random by itself, on the batch's device.
    Parity draws once, as compilers and memory layouts each have random numbers of their own."""
    real_lengths: Callable[[Recipe], Recipe] | None = None
    """Returns the recipe with a data set of samples of different lengths, a `RealLengths`."""
    cycle: int = 1
    """Batches in a row after which lengths repeat; more than one only with a `RealLengths`."""
    gpus: int = 1
    """Ranks, each with a GPU of its own, that train this model together."""
    parallel: str = "none"
    """The way of sharing: a value of the axis of that name."""
    strong_scaling: bool = False
    """The ranks share the batch that one GPU would have; else each has as many samples."""
    reshard: bool = True
    """Give a block's weights back between forward and backward pass, with fsdp2."""
    bucket_mb: int | None = None
    """Size of the buckets that ddp exchanges, in MiB; None: torch's own."""
    overlap: bool = True
    """Let ddp exchange gradients beside the backward pass."""
    microbatches: int = 4
    """Equal parts of a batch that go through a pipeline, with pp."""
    tensor_parallel: Callable[[nn.Module, DeviceMesh], None] | None = None
    """Shares the model's layers among the ranks of a mesh, in place, for tp. All weights become
    DTensors; logits may stay shared on their last dimension."""
    stage: Callable[[nn.Module, int, int], nn.Module] | None = None
    """Returns the stage of a rank among so many, for pp: the model's own weights, those of several
    stages in each of them. The loss then calls the model once, on the batch's first tensor."""
    dynamic: str = "off"
    """Length that samples are padded to: one for all (``off``), that of the batch's longest sample
    (``on``), or one of a few (``bucketed``)."""

    @property
    def replicas(self) -> int:
        """Count the ranks that have batches of their own; with tp and pp all have the same."""
        return 1 if self.parallel in ("tp", "pp") else self.gpus
