"""Samples of a replicate, and one Result out of several. Pure, without torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.catalog.metrics import sample
from benchmarks.contracts import Case, Pass, Replicate, Result, Sample, Status
from benchmarks.diagnosis.conclude import concluded
from benchmarks.diagnosis.disturbances import every
from benchmarks.diagnosis.efficiency import used
from benchmarks.diagnosis.verdict import input_stall

_FIRST_STEP = "first_step_time"


def samples(replicate: Replicate, item: str) -> tuple[Sample, ...]:
    """Return one replicate's sample of each metric."""
    full, synth = replicate.full, replicate.synth
    return (
        sample("throughput", full.rate, full.half_width, item=item),
        sample("throughput_synth", synth.rate, synth.half_width, item=item),
        sample("step_time", *_step_time(full)),
        sample("step_time_synth", *_step_time(synth)),
        sample("input_stall", input_stall(full.rate, synth.rate)),
        sample(_FIRST_STEP, replicate.warmup.first_step_s),
        sample("peak_memory", float(replicate.peak_memory_b)),
    )


def _step_time(timed: Pass) -> tuple[float, float | None]:
    step_s = sum(timed.step_trace.values()) / timed.steps
    relative = None if timed.half_width is None else timed.half_width / timed.rate
    return step_s, None if relative is None else step_s * relative


def merge(results: Sequence[Result], *, cold: bool = True) -> Result:
    """One Result out of the replicates of one case, in the order in which they ran.

    The first replicate that is not ok sets status and reason; the replicates before it are kept. A
    child that left nothing behind names neither environment nor the preset of ``auto``: both come
    from the others.

    Args:
        results: of one process each.
        cold: whether the first of them found empty compiler caches.

    Raises:
        ValueError: there are no results, or they are of different cases.
    """
    if not results:
        raise ValueError("a case needs at least one replicate")
    case = case_of(results)
    failed = next((result for result in results if result.status is not Status.OK), None)
    last = _informed(failed or results[-1], results[0])
    replicates = tuple(r for result in results for r in result.replicates)
    node = next((r.canary for r in reversed(results) if r.canary is not None), None)
    update: dict[str, object] = {
        "case": case,
        "measured_at": results[0].measured_at,
        "protocol": results[0].protocol,  # the only one that names the passes beside timing
        "parity": results[0].parity,
        "long_parity": results[0].long_parity,
        "trace_absent": results[0].trace_absent,
        "replicates": replicates,
        "rejected": tuple(again for result in results for again in result.rejected),
        "canary": node,
        "flags": every(*results),
    }
    if (efficiency := results[0].efficiency) is not None:
        facts, readings = last.environment.facts, node.readings if node else {}
        update["efficiency"] = used(efficiency, replicates, last.batch_items, facts, readings)
    if failed is None:
        update["samples"] = samples_of(results, cold=cold)
    return concluded(last.model_copy(update=update))


def case_of(results: Sequence[Result]) -> Case:
    """The one case that all results are of; only failures may not know what ``auto`` stood for.

    Raises:
        ValueError: they are of different cases.
    """
    cases = [result.case for result in results]
    known = next((case for case in cases if case.preset != "auto"), cases[0])
    for case in cases:
        same = (case.workload, case.axes) == (known.workload, known.axes)
        if not same or case.preset not in ("auto", known.preset):
            raise ValueError("replicates of different cases cannot be merged")
    return known


def _informed(last: Result, first: Result) -> Result:
    if last.environment.facts:
        return last
    names = ("environment", "item", "batch_items", "padding", "batches_tried", "parameters")
    return last.model_copy(update={name: getattr(first, name) for name in names})


def samples_of(results: Sequence[Result], *, cold: bool) -> tuple[Sample, ...]:
    """Each metric that every replicate has, with one value per replicate.

    The first process finds empty compiler caches, the others warm ones. Without the first process,
    the state of the caches is unknown, and no first step is reported.
    """
    by_metric: dict[str, list[Sample]] = {}
    for result in results:
        for measured in result.samples:
            by_metric.setdefault(measured.metric, []).append(measured)
    whole = (group for group in by_metric.values() if len(group) == len(results))
    return tuple(merged for group in whole for merged in _over_replicates(group, cold=cold))


def _over_replicates(group: Sequence[Sample], *, cold: bool) -> Iterator[Sample]:
    if group[0].metric != _FIRST_STEP:
        yield _joined(group)
        return
    if not cold:
        return
    yield group[0]
    if group[1:]:
        yield _joined(group[1:]).model_copy(update={"metric": f"{_FIRST_STEP}_warm"})


def _joined(group: Sequence[Sample]) -> Sample:
    widths = [width for measured in group for width in measured.half_widths or ()]
    return group[0].model_copy(
        update={
            "values": tuple(value for measured in group for value in measured.values),
            "half_widths": tuple(widths) if len(widths) == len(group) else None,
        }
    )
