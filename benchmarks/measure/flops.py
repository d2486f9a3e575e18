"""Counts the work of one optimizer step: FLOP, and bytes between the device and its memory.

An eager step of a few samples is counted and scaled to the batch. Two small batches separate each
operation's constant part (weights) from its part per sample. Recomputed activations and padding are
not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from benchmarks import contracts, workload, workload_module
from benchmarks.catalog import catalog
from benchmarks.data import cache
from benchmarks.diagnosis import peaks
from benchmarks.diagnosis.efficiency import counted
from benchmarks.measure import batch_source, flags, parity_check
from benchmarks.measure.trainer import Trainer

KEPT = 2
"""Counts the changes of what is kept of a step's work."""
FEW, MORE = 2, 4
"""Samples: batch norm needs two, and two numbers make a line."""
_COPIES = frozenset(
    {"_to_copy", "copy_", "clone", "fill_", "zero_", "cat", "ones_like", "zeros_like", "empty_like"}
)
"""Copies and fills, which a compiler fuses away like elementwise operations."""


@dataclass(frozen=True, slots=True)
class CountedOperation:
    """One operation of a step."""

    name: str
    flops: float
    bytes_: float
    elementwise: bool

    def scaled(self, other: CountedOperation, batch: int) -> CountedOperation:
        """From `FEW` and ``other``'s `MORE` samples to ``batch``."""

        def line(few: float, more: float) -> float:
            return max(0.0, few + (more - few) * (batch - FEW) / (MORE - FEW))

        flops, moved = line(self.flops, other.flops), line(self.bytes_, other.bytes_)
        return CountedOperation(self.name, flops, moved, self.elementwise)


def efficiency(
    case: contracts.Case,
    batch: int,
    context: workload.Context,
    facts: Mapping[str, str],
    build: Callable[[contracts.Case, workload.Context], workload.Recipe],
) -> contracts.Efficiency:
    """Return the efficiency of ``case`` without timings; its work is counted once and kept.

    An error here does not fail the measurement: the efficiency holds the reason instead.
    """
    if context.device.type != "cuda":
        return counted(None, case, facts)
    try:
        return counted(_kept(case, batch, context, facts, build), case, facts)
    except Exception as error:  # the speed was measured; only its share of the peak is missing
        return counted(None, case, facts, f"The work of a step was not counted: {error}"[:500])


def _kept(
    case: contracts.Case,
    batch: int,
    context: workload.Context,
    facts: Mapping[str, str],
    build: Callable[[contracts.Case, workload.Context], workload.Recipe],
) -> contracts.Work:
    eager, row = parity_check.base_of(case), peaks.match(facts)
    own = {name: value for name, value in case.axes.items() if name == "kernel"}
    eagerly = eager.model_dump(mode="json")
    key = [KEPT, eagerly, batch, parity_check.depends(facts), repr(row), *own.values()]
    path = cache.kept_file(context.cache / "work", key)
    with suppress(OSError, ValueError):
        return contracts.Work.model_validate_json(path.read_bytes())
    peak = None if row is None else (row, peaks.dtype(facts))
    work = _counted(eager, batch, context, build, peak)
    if own:
        fused = eager.model_copy(update={"axes": {**eager.axes, **own}})
        work = _with_kernel(work, _counted(fused, batch, context, build, peak))
    cache.keep(path, work.model_dump_json().encode())
    return work


def _counted(
    eager: contracts.Case,
    batch: int,
    context: workload.Context,
    build: Callable[[contracts.Case, workload.Context], workload.Recipe],
    peak: tuple[peaks.Peak, str] | None,
) -> contracts.Work:
    parity_check.free(context.device)
    # Few samples of two sizes: nothing for cuDNN to try its algorithms on.
    recipe = replace(build(eager, context), batch=batch, cudnn_benchmark=False)
    if recipe.cycle > 1:
        raise catalog.Refused(
            "samples of different lengths have different work, and padding is none."
        )
    flags.put_in_force(recipe)
    module = workload_module.load(eager.workload)
    size = catalog.sizes(eager, module.entry)
    return count(
        Trainer(recipe, context.device),
        batch_source.first(recipe, min(recipe.batch, MORE)),
        module.flops(size) if module.flops is not None else None,
        peak,
    )


def _with_kernel(eager: contracts.Work, own: contracts.Work) -> contracts.Work:
    """The work of a case with a kernel of its own: the FLOPs of eager, which are all counted, and
    the traffic of the kernel. Without all of its FLOPs there is no roofline."""
    complete = own.flops_per_item >= eager.flops_per_item
    roof_s = own.roof_s if complete else None
    return eager.model_copy(update={"moved_b": own.moved_b, "roof_s": roof_s})


def count(
    trainer: Trainer,
    batch: workload.Batch,
    flops: float | None = None,
    peak: tuple[peaks.Peak, str] | None = None,
) -> contracts.Work:
    """Count the step of a ``trainer`` that is eager, without checkpointing; its weights become
    useless.

    ``batch`` has `MORE` samples on the host, fewer only if the case itself has fewer. ``flops`` is
    the formula's value for one sample; ``peak`` has the device's row and the dtype.
    """
    recipe = trainer.recipe
    few = trainer.place(tuple(part[:FEW] for part in batch))
    total = _flops(trainer, few) / len(few[0])
    items = recipe.items_per_sample
    whole = _of_a_step(trainer, batch) if len(batch[0]) >= MORE else None
    update = update_b(trainer) if whole is not None else 0.0
    return contracts.Work(
        flops_per_item=total / items,
        flops_by_formula=None if flops is None else flops / items,
        roof_s=None if whole is None or peak is None else _roof_s(whole, update, *peak),
        moved_b=None if whole is None else moved_b(whole) + update,
    )


def _flops(trainer: Trainer, batch: workload.Batch) -> float:
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        _forward_and_backward(trainer, batch)
    return float(counter.get_total_flops())


def _forward_and_backward(trainer: Trainer, batch: workload.Batch) -> None:
    recipe = trainer.recipe
    with torch.autocast(
        trainer.device.type, dtype=recipe.autocast, enabled=recipe.autocast is not None
    ):
        loss = recipe.loss(trainer.model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    trainer.model.zero_grad(set_to_none=True)


def _of_a_step(trainer: Trainer, batch: workload.Batch) -> list[CountedOperation] | None:
    """Count the operations of a step at the recipe's batch; None if samples change which there are.

    The update is not among them.
    """
    few, more = (
        list(_operations(trainer, trainer.place(tuple(part[:count] for part in batch))))
        for count in (FEW, MORE)
    )
    if [o.name for o in few] != [o.name for o in more]:
        return None
    size = trainer.recipe.batch
    return [one.scaled(other, size) for one, other in zip(few, more, strict=True)]


def _roof_s(
    whole: Sequence[CountedOperation], update: float, row: peaks.Peak, dtype: str
) -> float | None:
    """Least seconds of a step: each operation's larger one of arithmetic and traffic."""
    if dtype not in row.flop_per_s:
        return None
    return least_s(whole, row.flop_per_s[dtype], row.bandwidth) + update / row.bandwidth


def moved_b(operations: Sequence[CountedOperation]) -> float:
    """Bytes that operations read and write, elementwise ones taken to be fused away."""
    return sum(operation.bytes_ for operation in operations if not operation.elementwise)


def least_s(operations: Sequence[CountedOperation], flop_per_s: float, bandwidth: float) -> float:
    """Sum over operations, elementwise ones taken to be fused into their neighbours."""
    return sum(
        max(operation.flops / flop_per_s, operation.bytes_ / bandwidth)
        for operation in operations
        if not operation.elementwise
    )


def update_b(trainer: Trainer) -> float:
    """Bytes that one fused update moves: weights, gradients and state read, two of them written."""
    for weight in trainer.model.parameters():
        weight.grad = torch.zeros_like(weight)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad(set_to_none=True)
    moved = 0.0
    for weight in trainer.model.parameters():
        state = trainer.optimizer.state.get(weight, {}).values()
        held = sum(isinstance(value, Tensor) and value.shape == weight.shape for value in state)
        moved += weight.numel() * weight.element_size() * (3 + 2 * held)
    return moved


def _operations(trainer: Trainer, batch: workload.Batch) -> Iterator[CountedOperation]:
    with _Notebook() as notes:
        _forward_and_backward(trainer, batch)
    yield from notes.operations


class _Notebook(TorchDispatchMode):
    """Notes every operation that reaches a kernel."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[CountedOperation] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        out = func(*args, **given)
        tensors = [t for t in tree_leaves((args, given)) if isinstance(t, Tensor)]
        made = [t for t in tree_leaves(out) if isinstance(t, Tensor)]
        if tensors and not _is_view(func):
            self.operations.append(_operation(func, args, given, out, [*tensors, *made]))
        return out


def _operation(
    func: Any, args: tuple[Any, ...], given: dict[str, Any], out: Any, touched: Sequence[Tensor]
) -> CountedOperation:
    packet = func.overloadpacket
    rule: Callable[..., Any] | None = flop_registry.get(packet)
    flops = float(rule(*args, **given, out_val=out)) if rule is not None else 0.0
    moved = sum(t.numel() * t.element_size() for t in touched)
    name = packet.__name__
    light = torch.Tag.pointwise in func.tags or name in _COPIES
    return CountedOperation(name, flops, float(moved), elementwise=light)


def _is_view(func: Any) -> bool:
    """Return True if the operation is a view: it moves no memory."""
    if func.overloadpacket.__name__ == "_unsafe_view":  # its schema does not say so
        return True
    returns = func._schema.returns
    return bool(returns) and all(
        returned.alias_info is not None and not returned.alias_info.is_write for returned in returns
    )
