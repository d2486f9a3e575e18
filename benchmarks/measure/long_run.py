"""Runs the trainings that `benchmarks.diagnosis.loss_curves` compares: case and fp32 eager.

The recipe's own learning rate and data, in the order that the loader has for the seed. The case has
a trainer of its own, whose batch may be smaller than the timed one: a thousand fp32 steps of a full
batch would take a quarter of an hour. Learning rate, compiler and kernels stay, and the 20 steps of
`benchmarks.measure.parity_check` hold the trainer that was timed.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks import contracts, workload
from benchmarks.catalog import catalog
from benchmarks.data.cache import keep, kept_file
from benchmarks.diagnosis import loss_curves, parity
from benchmarks.measure import batch_source, failures, flags, graphs, parity_check
from benchmarks.measure.trainer import Trainer
from benchmarks.measure.trajectory import Shelf, TooSlow, settle

PHASE = "long_parity"
SEEDS = 4
"""Seeds that a look adds."""
LOOKS = 3
"""Most looks. Training with few samples a step is chaotic, so that a pair differs as seeds do, and
four of them leave it open."""
LENGTHS = (250, 150, 100)
"""Steps of each run; the shorter ones where even the smallest batch takes too long."""
LIMIT_S = 120.0
"""Longest time for the steps of a look's references: the batch is halved until they fit. The case
takes as long at most."""
PATIENCE = 2
"""Times that limit after which runs that are slower than foretold are given up."""
LEAST_BATCH = 4
TRIED = 4
"""Steps that foretell how long the others take."""
LOADERS = 8
"""Most loader processes beside a GPU; on a CPU they would take its cores."""

MakeTrainer = Callable[[workload.Recipe, torch.device], Trainer]
Losses = tuple[float, ...]


class Size(NamedTuple):
    """The steps of each run, and the samples of each step."""

    steps: int
    batch: int


@dataclass
class LongRun:
    """The comparison of one case; its errors never cost the measurement."""

    case: contracts.Case
    """Normalised, its preset resolved."""
    batch: int
    """As it was timed."""
    context: workload.Context
    facts: Mapping[str, str]
    build: Callable[[contracts.Case, workload.Context], workload.Recipe]
    tell: Callable[[float, int], None] = lambda done, step: None  # noqa: ARG005
    trainer: MakeTrainer = graphs.trainer
    _runs: int = 0
    _until_s: float = math.inf

    def compared(self) -> contracts.LongParity:
        """The verdict; the trainer that was timed should be gone by now."""
        from_s = time.perf_counter()
        try:
            told = self._compared()
        except Exception as error:  # the speed was measured: it is told, and why this is missing
            sentence = f"It was not compared: {error}, and {LIMIT_S:g} s are allowed."
            if not isinstance(error, TooSlow):
                sentence = failures.classify(error, self.batch)[1]
            told = contracts.LongParity(
                status=contracts.LongParityStatus.SKIPPED, reason=contracts.line(sentence)
            )
        parity_check.free(self.context.device)
        return told.model_copy(update={"s": time.perf_counter() - from_s})

    def _compared(self) -> contracts.LongParity:
        parity_check.free(self.context.device)
        size = self._size()
        told = contracts.LongParity(status=contracts.LongParityStatus.SKIPPED)
        for told in self._looks(size):
            if told.status is not contracts.LongParityStatus.UNDECIDED:
                break
        return told.model_copy(update={"batch": size.batch})

    def _looks(self, size: Size) -> Iterator[contracts.LongParity]:
        """The verdict after each look, the last one where the next cannot be taken."""
        case: list[Losses] = []
        reference: list[Losses] = []
        while len(case) < LOOKS * SEEDS:
            first = self.context.seed + len(case)
            seeds = range(first, first + SEEDS)
            try:
                reference += self._references(seeds, size)
                case += self._cases(seeds, size)
            except Exception:  # too slow, or out of memory: what was compared before stays
                if not case:
                    raise
                return
            yield loss_curves.compare(np.array(case), np.array(reference), LOOKS)

    def _cases(self, seeds: range, size: Size) -> list[Losses]:
        """Losses of the case by seed."""
        axes = {name: value for name, value in self.case.axes.items() if name not in parity.FEED}
        case = self.case.model_copy(update={"axes": axes})
        trainer = self._trainer(case, size.batch, self.trainer)
        self._until_s = time.perf_counter() + PATIENCE * LIMIT_S
        return [self._losses(trainer, seed, size) for seed in seeds]

    def _references(self, seeds: range, size: Size) -> list[Losses]:
        """Losses of fp32 eager by seed, computed unless another process has done so."""
        shelf = Shelf(self.context.cache / PHASE)
        keys = [self._key(seed, size) for seed in seeds]
        known = [shelf.load(key) for key in keys]
        if all(known):
            self._runs += SEEDS
            return [one.losses for one in known if one]
        trainer = self._trainer(self._reference, size.batch, Trainer)
        self._until_s = time.perf_counter() + PATIENCE * LIMIT_S
        with parity_check.deterministic():
            losses = [self._losses(trainer, seed, size) for seed in seeds]
        for key, run in zip(keys, losses, strict=True):
            shelf.keep(key, parity.Trajectory(run))
        return losses

    def _key(self, seed: int, size: Size) -> str:
        batches = parity_check.inputs(self._source(seed, size.batch), seed)
        return parity_check.key_of([*size], self._reference, seed, self.facts, batches)

    @property
    def _reference(self) -> contracts.Case:
        return parity_check.reference_of(self.case)

    def _source(self, seed: int, batch: int) -> workload.Recipe:
        """Weights and data of a seed, the same for both sides."""
        recipe = self.build(self._reference, replace(self.context, seed=seed))
        return replace(recipe, batch=batch)

    def _feed(self, source: workload.Recipe, seed: int) -> Iterator[workload.Batch]:
        """The loader's batches with the loss's own random numbers, which only the seed decides."""
        batches = batch_source.batches(self._loading(source), seed)
        if source.draw is None:
            yield from batches
            return
        for number, batch in enumerate(batches):
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed * LENGTHS[0] + number)
                drawn = source.draw(batch)
            yield drawn

    def _loading(self, source: workload.Recipe) -> workload.Recipe:
        """``source`` with loader processes on a GPU, whatever the case has."""
        on_gpu = self.context.device.type == "cuda"
        workers = min(LOADERS, len(os.sched_getaffinity(0))) if on_gpu else 0
        options = {**source.loader_options, "num_workers": workers}
        return replace(source, loader_options=options)

    def _trainer(self, case: contracts.Case, batch: int, make: MakeTrainer) -> Trainer:
        parity_check.free(self.context.device)  # of a trainer before this one
        recipe = replace(self.build(case, self.context), batch=batch)
        flags.put_in_force(recipe)
        parity_check.without_dropout(recipe.model)
        trainer = make(recipe, self.context.device)
        seed = self.context.seed
        settle(trainer, parity_check.inputs(self._source(seed, batch), seed))
        return trainer

    def _losses(self, trainer: Trainer, seed: int, size: Size) -> Losses:
        """The loss of each step from the weights of ``seed``."""
        source = self._source(seed, size.batch)
        trainer.begin_with(source.model)
        trainer.rewind(seed)
        losses: list[float] = []
        feed = self._feed(replace(source, model=nn.Identity()), seed)
        del source  # the device then holds one model less
        for step, batch in zip(range(1, size.steps + 1), feed, strict=False):
            losses.append(float(trainer.step(trainer.place(batch))))
            if time.perf_counter() > self._until_s:
                raise TooSlow(f"{SEEDS} times {size.steps} steps take over {PATIENCE} times that")
            self.tell((self._runs + step / size.steps) / (2 * SEEDS * LOOKS), step)
        self._runs += 1
        return tuple(losses)

    def _size(self) -> Size:
        """Find how much fits into `LIMIT_S`; every case of one reference and batch gets the
        same."""
        parts = int(catalog.settings(self.case)["accumulation"])
        key = [self._reference.model_dump(mode="json"), self.batch, parts]
        kept = kept_file(self.context.cache / PHASE, [*key, parity_check.depends(self.facts)])
        with suppress(OSError, ValueError, TypeError):
            return Size(*json.loads(kept.read_bytes()))
        size = fitting(self._step_s, self.batch, parts)
        keep(kept, json.dumps(size).encode())
        return size

    def _step_s(self, batch: int) -> float:
        """Seconds of a step of fp32 eager; infinite if ``batch`` does not fit in memory."""
        try:
            trainer = self._trainer(self._reference, batch, Trainer)
            seed = self.context.seed
            source = self._loading(self._source(seed, batch))
            feed = self._feed(source, seed)
            count = max(TRIED, int(source.loader_options["num_workers"]))
            with parity_check.deterministic():
                float(trainer.step(trainer.place(next(feed))))  # starts the loader's processes
                batch_source.empty_queue(source, feed)
                from_s = time.perf_counter()
                for _ in range(count):
                    float(trainer.step(trainer.place(next(feed))))
                return (time.perf_counter() - from_s) / count
        except Exception as error:
            if not failures.is_out_of_memory(error):
                raise
        parity_check.free(self.context.device)
        return float("inf")


def fitting(step_s: Callable[[int], float], batch: int, parts: int) -> Size:
    """The largest batch whose steps fit into `LIMIT_S`, by halves, and how many steps of it do.

    Args:
        step_s: seconds of a step with a batch.
        batch: the largest.
        parts: divides each batch.

    Raises:
        TooSlow: the shortest runs of the smallest batch take longer.
    """
    most_s = LIMIT_S / SEEDS
    each_s = step_s(batch)
    while (over := LENGTHS[0] * each_s / most_s) > 1 and _may_halve(batch, parts):
        batch //= 2
        # Half a batch takes half the time or more: without a trial, these are too long as well.
        skip = 2 < over < math.inf and _may_halve(batch, parts)
        each_s = each_s / 2 if skip else step_s(batch)
    for steps in LENGTHS:
        if steps * each_s <= most_s:
            return Size(steps, batch)
    need_s = SEEDS * LENGTHS[-1] * each_s
    raise TooSlow(f"{SEEDS} times {LENGTHS[-1]} steps of fp32 eager take {need_s:,.0f} s")


def _may_halve(batch: int, parts: int) -> bool:
    return batch // 2 >= LEAST_BATCH and batch // 2 % parts == 0
