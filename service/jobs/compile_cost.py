"""Works out what compiling a case costs, and after how many steps it has paid off. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, Result
from service.schemas.reports import CompileCost, Start
from service.wording import formats

_AXIS = "compile"


def eager_of(case: Case) -> Case | None:
    """The same case without compiling; None for a case that does not compile."""
    if _AXIS not in case.axes:
        return None
    axes = {axis: value for axis, value in case.axes.items() if axis != _AXIS}
    return catalog.normalise(case.model_copy(update={"axes": axes}))


def cost(compiled: Result, eager: Result) -> CompileCost | None:
    """Return the cost and the gain of compiling; None where a figure is missing.

    The eager case also has a first step that is slow, for it allocates and tunes; what compiling
    costs is the rest.

    Args:
        compiled: of the case that compiles.
        eager: of `eager_of` that case, on comparable hardware.
    """
    figures, plain = _figures(compiled), _figures(eager)
    if figures is None or plain is None:
        return None
    saved_s = plain.step_s - figures.step_s
    again_s = _mean(compiled, "first_step_time_warm")
    cold = _start(figures.start_s, plain.start_s, saved_s)
    warm = None if again_s is None else _start(again_s - figures.step_s, plain.start_s, saved_s)
    return CompileCost(saved_s, cold, warm, _sentence(cold, warm))


@dataclass(frozen=True, slots=True)
class _Figures:
    step_s: float
    start_s: float
    """Of the first step beyond a steady one."""


def _figures(result: Result) -> _Figures | None:
    step_s, first_s = _mean(result, "step_time"), _mean(result, "first_step_time")
    if step_s is None or first_s is None:
        return None
    return _Figures(step_s, max(0.0, first_s - step_s))


def _start(first_s: float, plain_start_s: float, saved_s: float) -> Start:
    first_s = max(0.0, first_s)
    if saved_s <= 0:
        return Start(first_s, None)
    return Start(first_s, round(max(0.0, first_s - plain_start_s) / saved_s))


def _mean(result: Result, metric: str) -> float | None:
    values = [v for sample in result.samples if sample.metric == metric for v in sample.values]
    return fmean(values) if values else None


def _sentence(cold: Start, warm: Start | None) -> str:
    again = f", {formats.duration(warm.compile_s)} with warm caches" if warm else ""
    start = f"Compiling takes {formats.duration(cold.compile_s)}{again}"
    if cold.break_even_steps is None:
        return f"{start}, and its steps are no faster: it never pays."
    sooner = f", or {warm.break_even_steps:,} with warm caches" if warm else ""
    return f"{start}, and pays after {cold.break_even_steps:,} steps{sooner}."
