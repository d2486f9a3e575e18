"""Runs the trainings that `benchmarks.diagnosis.parity` compares: case, base, reference twice.

The case runs first, while its trainer still exists. The others are built one after the other once
the trainer is gone, so that the device holds one model at a time. Their trajectories are kept in
the cache folder, under a hash of all that they depend on: input, recipe, device, torch and code.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from benchmarks import contracts, workload
from benchmarks.catalog import catalog
from benchmarks.diagnosis import parity
from benchmarks.measure import batch_source, failures, flags
from benchmarks.measure.trainer import Trainer
from benchmarks.measure.trajectory import Shelf, TooSlow, follow

LIMIT_S = 240.0
"""Longest time for the steps of one reference; a slower model is not compared, with this reason."""
PHASE = "parity"
FIRST, AGAIN, SHAKEN, BASE = "first", "again", "shaken", "base"
LAST_BIT = 2.0**-23
"""Relative size of a rounding in fp32."""
_FACTS = (
    *("hw.device", "hw.gpu.name", "hw.gpu.sm_count", "hw.gpu.driver", "hw.cpu.model"),
    *("sw.torch", "sw.torch_git", "sw.cuda", "sw.cudnn", "sw.benchmarks", "sw.model", "sw.data"),
    "flag.torch_threads",
)


@dataclass
class Check:
    """The parity check of one case; its errors never cost the measurement."""

    case: contracts.Case
    """Normalised, its preset resolved."""
    context: workload.Context
    facts: Mapping[str, str]
    build: Callable[[contracts.Case, workload.Context], workload.Recipe]
    tell: Callable[[int], None] = lambda step: None  # noqa: ARG005
    _inputs: list[workload.Batch] = field(default_factory=list)
    _trajectory: parity.Trajectory | None = None
    _parity: contracts.Parity | None = None
    _skipped: str = ""
    _cached: bool = False
    _spent_s: float = 0.0

    def follow(self, trainer: Trainer) -> None:
        """Follow the case as it was timed; the trainer may be freed afterwards."""
        self._attempt(lambda: self._follow(trainer), trainer.recipe.batch, "The case")

    def verdict(self) -> contracts.Parity:
        """The verdict; the trainer of the case should be gone by now."""
        if not self._skipped:
            free(self.context.device)
            batch = len(self._inputs[0][0])
            self._attempt(self._judge, batch, "The fp32 reference or the base")
        parity = self._parity or contracts.Parity(
            status=contracts.ParityStatus.SKIPPED, reason=self._skipped
        )
        return parity.model_copy(update={"s": self._spent_s, "reference_cached": self._cached})

    def _attempt(self, work: Callable[[], None], batch: int, what: str) -> None:
        from_s = time.perf_counter()
        try:
            work()
        except TooSlow as error:
            self._skipped = f"{what} was not compared: {error}, and {LIMIT_S:g} s are allowed."
        except Exception as error:  # the speed was measured: it is told, and why this is missing
            status, sentence = failures.classify(error, batch)
            if status is contracts.Status.OOM:
                sentence = f"A batch of {batch} does not fit in this device's memory."
            self._skipped = f"{what} could not be followed: {sentence}"[:500]
        finally:
            self._spent_s += time.perf_counter() - from_s

    def _follow(self, trainer: Trainer) -> None:
        seed, reference = self.context.seed, self._recipe(reference_of(self.case))
        # The batch that was timed need not be the one that the recipe proposed, nor its padding.
        timed = trainer.recipe
        self._inputs = inputs(replace(reference, batch=timed.batch, dynamic=timed.dynamic), seed)
        del reference
        without_dropout(trainer.model)
        trainer.changed()
        self._trajectory = follow(trainer, self._inputs, seed, limit_s=LIMIT_S, tell=self.tell)

    def _judge(self) -> None:
        assert self._trajectory is not None
        precision = catalog.settings(self.case)["precision"]
        exact = reference_of(self.case)
        reference = parity.Reference(*(self._kept(role, exact) for role in (FIRST, AGAIN, SHAKEN)))
        base = self._kept(BASE, base_of(self.case))
        self._parity = parity.compare(self._trajectory, base, reference, parity.rule(precision))

    def _kept(self, role: str, case: contracts.Case) -> parity.Trajectory:
        """A trajectory, computed unless another process has done so."""
        shelf = Shelf(self.context.cache / "parity")
        key = self._key(role, case)
        if (known := shelf.load(key)) is not None:
            self._cached = self._cached or role == FIRST
            return known
        trajectory = self._fitted(role, case)
        shelf.keep(key, trajectory)
        free(self.context.device)
        return trajectory

    def _fitted(self, role: str, case: contracts.Case) -> parity.Trajectory:
        """Compute a trajectory; if fp32 does not fit in memory, recompute the blocks'
        activations."""
        recipe = self._recipe(case)
        try:
            return self._computed(role, recipe)
        except Exception as error:
            if not (recipe.blocks and failures.is_out_of_memory(error)):
                raise
        # Outside of the except clause nothing holds the failed step's tensors any more.
        del recipe
        free(self.context.device)
        return self._computed(role, replace(self._recipe(case), checkpointing=True))

    def _computed(self, role: str, recipe: workload.Recipe) -> parity.Trajectory:
        flags.put_in_force(recipe)
        without_dropout(recipe.model)
        if role == SHAKEN:
            shake(recipe.model, self.context.seed)
        trainer = Trainer(recipe, self.context.device)
        with nullcontext() if role == BASE else deterministic():
            return follow(trainer, self._inputs, self.context.seed, limit_s=LIMIT_S, tell=self.tell)

    def _recipe(self, case: contracts.Case) -> workload.Recipe:
        return self.build(case, self.context)

    def _key(self, role: str, case: contracts.Case) -> str:
        return key_of([role, parity.STEPS], case, self.context.seed, self.facts, self._inputs)


def key_of(
    parts: list[str | int],
    case: contracts.Case,
    seed: int,
    facts: Mapping[str, str],
    inputs: list[workload.Batch],
) -> str:
    """The key of a trajectory, by all that it depends on."""
    whole = [*parts, case.model_dump(mode="json"), seed, depends(facts)]
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode())
    for tensor in itertools.chain.from_iterable(inputs):
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:32]


def depends(facts: Mapping[str, str]) -> dict[str, str]:
    """Facts of the environment that a trajectory depends on, beside input and case."""
    return {name: facts.get(name, "") for name in _FACTS}


def reference_of(case: contracts.Case) -> contracts.Case:
    """Fp32, eager, with the batch of ``case``."""
    return _with_batch(case, {})


def base_of(case: contracts.Case) -> contracts.Case:
    """Eager, in the precision of ``case``."""
    precision = case.axes.get("precision")
    return _with_batch(case, {} if precision is None else {"precision": precision})


def _with_batch(case: contracts.Case, axes: Mapping[str, str]) -> contracts.Case:
    kept = {
        name: value
        for name, value in catalog.baseline(case).axes.items()
        if name not in parity.FEED
    }
    return case.model_copy(update={"axes": dict(sorted({**kept, **axes}.items()))})


def inputs(recipe: workload.Recipe, seed: int) -> list[workload.Batch]:
    """Batches on the host, with the loss's own random numbers already drawn."""
    size = batch_source.ring_size(recipe)
    batches = list(itertools.islice(batch_source.batches(recipe, seed), size))
    if recipe.draw is None:
        return batches
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [recipe.draw(batch) for batch in batches]


def without_dropout(model: nn.Module) -> None:
    """Switch dropout off: compilers and layouts would each drop other entries."""
    for layer in model.modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.p = 0.0
        elif isinstance(layer, nn.MultiheadAttention | nn.RNNBase):
            layer.dropout = 0.0


def shake(model: nn.Module, seed: int) -> None:
    """Change every weight by up to one rounding, each by a random share of it."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            part = torch.rand(weight.shape, generator=random).to(weight.device)
            weight.mul_(1.0 + LAST_BIT * (2.0 * part - 1.0).round())


@contextmanager
def deterministic() -> Iterator[None]:
    """Use deterministic algorithms where torch has them; ignore its warnings about the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
        torch.use_deterministic_algorithms(mode=True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(mode=False)
            torch.backends.cudnn.deterministic = False


def free(device: torch.device) -> None:
    """Give back what no longer has an owner."""
    if device.type == "cuda":
        if "torch._dynamo" in sys.modules:  # keeps compiled code, graphs, and what they hold
            torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
