"""One replicate from case to Result; whatever goes wrong becomes a status with one sentence."""

from __future__ import annotations

import importlib
import shlex
import time
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import torch

from benchmarks import contracts, workload_module
from benchmarks.catalog import catalog
from benchmarks.catalog.metrics import sample
from benchmarks.data.cache import cache_folder, kept_file
from benchmarks.diagnosis import loss_curves, parity, sanity
from benchmarks.diagnosis.conclude import concluded
from benchmarks.diagnosis.merge import samples
from benchmarks.diagnosis.paired import samples as samples_of_turns
from benchmarks.environment import capture
from benchmarks.measure import (
    batch_search,
    check_recipe,
    cycles,
    device,
    fastest_batch,
    flags,
    flops,
    graphs,
    long_run,
    ranks,
)
from benchmarks.measure.failures import classify
from benchmarks.measure.in_turn import Baton, OtherSideGone
from benchmarks.measure.pair_side import SidePasses
from benchmarks.measure.parity_check import PHASE, Check, depends
from benchmarks.measure.passes import Passes
from benchmarks.measure.progress import Reporter
from benchmarks.measure.startup import Startup
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Context, Recipe
from benchmarks.workload_module import Sizes

P = TypeVar("P", bound=Passes)


def measure(
    spec: contracts.ProcessSpec,
    device: torch.device,
    reporter: Reporter,
    import_s: float = 0.0,
    waited_s: float | None = None,
) -> contracts.Result:
    """Measure one replicate; ``import_s`` is how long torch took to load, ``waited_s`` how long the
    job waited for a process that was started ahead of it."""
    session = _Session(spec, device, reporter, Startup(import_s, waited_s))
    try:
        return session.measured()
    except (Exception, SystemExit) as error:  # every failure is information, with its reason
        if spec.gang is not None and ranks.is_of_a_peer(error):
            gone = session.failed(contracts.Status.RUNTIME_ERROR, ranks.GONE, "")
            return gone.model_copy(update={"flags": (contracts.PEER_GONE,)})
        status, reason = classify(error, session.batch)
        refused = status is contracts.Status.UNSUPPORTED  # says it all in one sentence
        tail = "" if refused else traceback.format_exc()[-16_000:].replace("\x00", "")
        return session.failed(status, reason, tail)


def protocol_after(
    spec: contracts.ProcessSpec, full: contracts.Pass, synth: contracts.Pass
) -> contracts.Protocol:
    """The protocol for later passes: timing only, if neither rate beats ``spec.beat``."""
    beaten = spec.beat is None or full.rate > spec.beat[0] or synth.rate > spec.beat[1]
    return spec.protocol if beaten else spec.protocol.timing_only()


class _Session:
    """The state of a measurement, kept so that a failure is stored with all that is known."""

    def __init__(
        self,
        spec: contracts.ProcessSpec,
        device: torch.device,
        reporter: Reporter,
        startup: Startup,
    ) -> None:
        self._spec = spec
        self._context = Context(device, cache_folder(), spec.data_root, spec.seed)
        self._reporter = reporter
        self._startup = startup
        self._started_at = datetime.now(UTC)
        self._case = spec.case
        self._environment = contracts.Environment(facts={"hw.device": device.type})
        self._tried: tuple[contracts.TriedBatch, ...] = ()
        self._ranks = ranks.Solo()
        self.batch = 0

    def failed(self, status: contracts.Status, reason: str, log_tail: str) -> contracts.Result:
        """The Result of a measurement that came to nothing."""
        return contracts.Result(
            case=self._case,
            status=status,
            reason=reason,
            log_tail=log_tail,
            measured_at=self._started_at,
            protocol=self._spec.protocol,
            environment=self._environment,
            repro=_repro(self._case, self._spec),
        )

    def measured(self) -> contracts.Result:
        """Build, run every pass, and tell what they gave."""
        if self._spec.duet is not None:
            return self._side(self._spec.duet)
        result, check = self._timed()
        # The trainer is gone by now: the next steps need its memory.
        if result.status is not contracts.Status.OK:
            return result
        if check is not None:
            result = parity.with_parity(result, check.verdict())
        first = result.replicates[0]
        asked = protocol_after(self._spec, first.full, first.synth)
        if asked.long_parity and result.status is contracts.Status.OK:
            result = loss_curves.with_long_parity(result, self._long_run().compared())
        if not asked.efficiency:
            return result
        return result.model_copy(update={"efficiency": self._efficiency()})

    def _side(self, side: contracts.DuetSide) -> contracts.Result:
        """Measure one side of a duet.

        Parity, where it is asked for, follows one side after the other, when both have given the
        memory of their trainers back.
        """
        rank = self._spec.gang.rank if self._spec.gang is not None else 0
        with Baton(side, rank, self._any_of) as baton:
            trainer = self._trainer()
            passes = self._passes(SidePasses, trainer, "")
            measured = passes.measured(self._spec.seed, baton)
            self._ranks.leave()
            item = workload_module.load(self._case.workload).entry.item
            items = cycles.items_per_step(trainer.recipe)
            self._startup.parts |= passes.startup
            result = self._result(
                trainer,
                item,
                samples=(
                    *samples_of_turns(measured.turns, item, items),
                    sample("peak_memory", float(measured.peak_memory_b)),
                ),
                turns=measured.turns,
                flags=measured.flags,
            )
            if broken := sanity.not_finite(measured.flags):
                return sanity.without_speed(result, broken)
            if not self._spec.protocol.parity:
                return result
            check = self._check()
            self._reporter.tell("ready", 1.0)
            with baton.alone():
                check.follow(trainer)
            del trainer, passes
            device.free_memory(self._context.device)  # the other side's reference needs it
            self._reporter.tell("ready", 1.0)
            with suppress(OtherSideGone):
                baton.meet()
            with baton.alone():
                told = parity.with_parity(result, check.verdict())
                device.free_memory(self._context.device)
                return told

    def _any_of(self, own: bool) -> bool:
        """Return True if any rank says so; there is one rank until the others are known."""
        return bool(self._ranks.most(own))

    def _timed(self) -> tuple[contracts.Result, Check | None]:
        """Run the timed passes, then follow the timed trainer for parity if that is requested."""
        from_s = time.perf_counter()
        trainer = self._trainer()
        spec = self._spec
        item = workload_module.load(self._case.workload).entry.item
        after = partial(protocol_after, spec)
        passes = self._passes(Passes, trainer, f"{item}/s", spec.trace, after)
        build_s = time.perf_counter() - from_s
        replicate = passes.replicate(spec.seed, self._startup.import_s, build_s)
        self._ranks.leave()
        self._startup.parts |= passes.startup
        result = self._result(
            trainer,
            item,
            samples=samples(replicate, item),
            replicates=(replicate,),
            flags=replicate.flags,
        )
        result = concluded(result)
        if broken := sanity.not_finite(replicate.flags):
            return sanity.without_speed(result, broken), None
        if not protocol_after(self._spec, replicate.full, replicate.synth).parity:
            return result, None
        check = self._check()
        check.follow(trainer)
        return result, check

    def _passes(self, kind: type[P], trainer: Trainer, *more: Any) -> P:
        ours = not catalog.is_user_model(self._case.workload)
        passes = kind(trainer, self._spec.protocol, self._reporter, *more, anywhere=ours)
        passes.ranks = self._ranks
        return passes

    def _result(self, trainer: Trainer, item: str, **measured: Any) -> contracts.Result:
        recipe = trainer.recipe
        return contracts.Result(
            case=self._case,
            status=contracts.Status.OK,
            measured_at=self._started_at,
            protocol=self._spec.protocol,
            item=item,
            batch_items=round(cycles.items_per_step(recipe)),
            padding=cycles.padding(recipe),
            parameters=trainer.parameters,
            environment=self._environment,
            repro=_repro(self._case, self._spec),
            startup=self._startup.parts,
            batches_tried=self._tried,
            **measured,
        )

    def _efficiency(self) -> contracts.Efficiency:
        facts = self._environment.facts
        return flops.efficiency(self._case, self.batch, self._context, facts, build)

    def _check(self) -> Check:
        def tell(step: int) -> None:
            self._reporter.tell(PHASE, 1.0, step)

        return Check(self._case, self._context, self._environment.facts, build, tell)

    def _long_run(self) -> long_run.LongRun:
        def tell(done: float, step: int) -> None:
            self._reporter.tell(long_run.PHASE, done, step)

        facts = self._environment.facts
        return long_run.LongRun(self._case, self.batch, self._context, facts, build, tell)

    def _trainer(self) -> Trainer:
        context = self._context
        module = workload_module.load(self._case.workload)
        self._case = catalog.normalise(self._case, context.device.type, module.entry)
        if context.device.type == "cuda":
            catalog.refuse_older(self._case, torch.cuda.get_device_capability(context.device))
        self._startup.open_device(context.device)
        near = device.stay_near(context.device)
        recipe = build(self._case, context)
        self.batch = recipe.batch
        recipe = batch_search.settled(recipe, context.device, context.seed)
        recipe = self._fastest(recipe, module.code)
        self.batch = recipe.batch
        self._startup.done("model")
        facts = flags.put_in_force(recipe)
        facts |= {"flag.cpu_affinity": near, "sw.model": module.code}
        facts |= catalog.recorded(module.entry)
        self._environment = capture(context.device, facts, recipe.data_name)
        self._startup.done("settings")
        if self._spec.gang is not None:
            self._ranks = ranks.Gang(self._spec.gang, context.device, self._reporter.passed)
        trainer = graphs.trainer(recipe, context.device)
        if self._spec.gang is not None:
            trainer.passed = self._reporter.passed
            trainer.exchanges = self._spec.gang.exchanges
        self._startup.done("trainer")
        return trainer

    def _fastest(self, recipe: Recipe, code: str) -> Recipe:
        """``recipe`` with its fastest batch, if it asks for that."""
        if not recipe.fastest_batch:
            return recipe
        context = self._context
        facts = capture(context.device, {"sw.model": code}, recipe.data_name).facts
        key = [self._case.model_dump(mode="json"), depends(facts)]
        kept = kept_file(context.cache / "batch", key)
        recipe, self._tried = fastest_batch.settled(recipe, context.device, context.seed, kept)
        return recipe


def _repro(case: contracts.Case, spec: contracts.ProcessSpec) -> str:
    """A command that measures ``case`` again and leaves nothing to a default."""
    words = ["python", "-m", "benchmarks", case.workload]
    words += [f"{axis}={value}" for axis, value in case.axes.items()]
    words += ["--preset", case.preset, "--seed", str(spec.seed)]
    unusual = spec.protocol.model_dump_json(exclude_defaults=True, exclude={"replicates"})
    if unusual != "{}":
        words += ["--protocol", unusual]
    if spec.data_root:
        words += ["--data-root", str(spec.data_root)]
    return shlex.join(words)


def build(case: contracts.Case, context: Context) -> Recipe:
    """The workload's recipe with every axis of the normalised ``case`` applied.

    A user's own model is then put on the device, in train mode.
    """
    torch.manual_seed(context.seed)
    module = workload_module.load(case.workload)
    made = module.build(Sizes(catalog.sizes(case, module.entry)), context)
    recipe = check_recipe.recipe(made, case.workload)
    for name, value in catalog.settings(case).items():
        if catalog.axes()[name].size:  # it was built with that size
            continue
        axis = importlib.import_module(f"benchmarks.axes.{name}")
        recipe = axis.apply(value, recipe)
    recipe = ranks.with_share(recipe)
    if catalog.is_user_model(case.workload):
        recipe.model.to(context.device).train()
    return recipe
