"""Criterion.rs's folder ``target/criterion``: the newest run of each benchmark, in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import Metric, Run
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint


def recognises(source: Source) -> bool:
    """True for a folder with a ``new/estimates.json`` below it."""
    return source.is_folder and next(source.path.rglob("new/estimates.json"), None) is not None


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each benchmark: the time of one iteration, sample by sample."""
    run = Run(source)
    for path in sorted(source.path.rglob("new/estimates.json")):
        yield _point(run, path.parent)


def _point(run: Run, folder: Path) -> ForeignPoint:
    names, samples, estimates = (
        run.source.other(folder / f"{name}.json") for name in ("benchmark", "sample", "estimates")
    )
    told = estimates.get("slope") or estimates["mean"]
    interval = told["confidence_interval"]
    parts = [part for key in ("group_id", "function_id") if (part := names.text_of(key))]
    value = names.text_of("value_str")
    return run.point(
        samples,
        "/".join(parts),
        Metric("time", "ns", Direction.LOWER),
        _times(samples),
        {"value": value} if value else {},
        (interval["lower_bound"].number(), interval["upper_bound"].number()),
    )


def _times(samples: Node) -> list[float]:
    """Nanoseconds of one iteration: each sample says the time of many."""
    times, iterations = samples["times"].numbers(), samples["iters"].numbers()
    if len(times) != len(iterations) or 0 in iterations:
        raise samples.refuse("must have as many times as iterations, and none of 0.")
    return [time / count for time, count in zip(times, iterations, strict=True)]
