"""The data of a run's page: headline numbers, phases, telemetry in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from benchmarks import contracts
from benchmarks.catalog.metrics import metric, reading_order
from benchmarks.diagnosis import conclude, module_times, paired, roofline
from benchmarks.diagnosis import disturbances as benchmark_flags
from service.analysis.summary import summarise
from service.analysis.variance import Spread
from service.dashboard import figures, labels, sparkline
from service.dashboard.cases import LevelDifference, from_level
from service.dashboard.environments import FingerprintDifference
from service.models import Point
from service.wording import formats, intervals

STARTUP = [
    "started_ahead",
    "interpreter",
    "import",
    "device",
    "model",
    "settings",
    "trainer",
    "first_batch",
    "first_step",
    "warmup",
    "reset",
]
MODULES_SHOWN = 20
"""Rows of a run's table of modules; its chart has them all."""
PHASES = {"stall": "waiting for input", "copy": "copy to the device", "work": "time on the device"}


@dataclass(frozen=True, slots=True)
class ShownMetric:
    """One metric of a run, with its raw values and, if it counts, its series."""

    name: str
    title: str
    explained: str
    unit: str
    value: float
    low: float | None
    high: float | None
    interval: str
    raw: tuple[float, ...]
    series_id: str | None
    repeat: float | None = None
    """Half-width, as a share, for the same on another night; None where nobody knows."""
    repeat_on: str = ""
    """What another night is for that, or why nobody knows."""
    doubt: str = ""
    """Why a headline must not show the value; empty if it may."""
    difference: LevelDifference | None = None
    """From the level of its series; None where that is not known."""
    dots: Markup = field(default_factory=Markup)
    """Its processes, where there are several."""


@dataclass(frozen=True, slots=True)
class RunBefore:
    """The run that its worker made before in the same history."""

    result_id: str
    revision: str
    differences: tuple[FingerprintDifference, ...]
    """Facts of the environment that are not the same, without what only names a moment."""


@dataclass(frozen=True, slots=True)
class ShownEvidence:
    """One thing that a verdict rests on."""

    title: str
    value: str
    meaning: str
    """What the value is a share of; empty for a name that this version does not know."""


@dataclass(frozen=True, slots=True)
class ShownCategory:
    """One category of device memory at the peak of a step."""

    title: str
    colour: str
    size_b: int
    part: float
    """Share of the peak."""


@dataclass(frozen=True, slots=True)
class PhaseBar:
    """The parts of one pass's step by the time they take, as means over the processes."""

    title: str
    step_s: float
    parts: tuple[tuple[str, float], ...]
    bar: Markup


@dataclass(frozen=True, slots=True)
class Readings:
    """Telemetry of one pass in words."""

    reasons: tuple[tuple[str, float], ...]
    """Clock event reasons with the share of readings that had them, most first."""
    energy_j: float | None
    other_processes: int
    hz: float
    count: int


@dataclass(frozen=True, slots=True)
class ShownOperation:
    """One operation with its share of the device's work and its place on the roofline."""

    operation: contracts.Operation
    share: float | None
    placement: roofline.RooflinePlace | None


@dataclass(frozen=True, slots=True)
class ShownModules:
    """The modules of a step in numbers."""

    layers: contracts.Layers
    longest: tuple[contracts.Layer, ...]
    """Those whose own work takes longest."""
    odd: module_times.OddModule | None
    step_s: float


def metrics(
    result: contracts.Result, points: Mapping[str, Point], spreads: Mapping[str, Spread]
) -> list[ShownMetric]:
    """List a run's metrics, the headlines first; a run that does not count has no series.

    ``spreads`` are those of series that are known, by their ids.
    """
    samples = sorted(result.samples, key=lambda one: reading_order(one.metric))
    notes = {"peak_memory": formats.peak_memory_of(result.environment.comparability())}
    shown = [_metric(sample, points.get(sample.metric), notes) for sample in samples]
    return [_with_repeat(one, spreads.get(one.series_id or "")) for one in shown]


def _with_repeat(shown: ShownMetric, spread: Spread | None) -> ShownMetric:
    if spread is None:
        return replace(shown, repeat_on="Its history does not say how nights and nodes differ.")
    half = spread.repeat(len(shown.raw))
    known = replace(shown, repeat=half, repeat_on=intervals.another_night(spread))
    if spread.level <= 0:
        return known
    direction = metric(shown.name).direction
    return replace(known, difference=from_level(shown.value, len(shown.raw), direction, spread))


def _metric(sample: contracts.Sample, point: Point | None, notes: Mapping[str, str]) -> ShownMetric:
    summary = point or summarise(sample)
    declared = metric(sample.metric)
    note = notes.get(sample.metric) or declared.note or f"{sample.direction.value} is better"
    return ShownMetric(
        name=sample.metric,
        title=declared.title,
        explained=note,
        unit=sample.unit,
        value=summary.value,
        low=summary.low,
        high=summary.high,
        interval=summary.interval,
        raw=sample.values,
        series_id=point.series_id if point else None,
        dots=_dots(sample, (summary.low, summary.high)),
    )


def _dots(sample: contracts.Sample, reach: tuple[float | None, float | None]) -> Markup:
    """Draw the values of several processes over their interval."""
    if len(sample.values) < 2:
        return Markup("")
    said = formats.quantities(sample.values, sample.unit)
    return sparkline.strip(sample.values, reach, f"{len(sample.values)} processes: {said}")


def headlines(
    listed: Iterable[ShownMetric], verdict: contracts.Verdict | None
) -> list[ShownMetric]:
    """Keep the numbers that a reader wants first, and doubt what was not measurable."""
    kept = [shown for shown in listed if metric(shown.name).is_headline]
    return [replace(shown, doubt=_doubt(shown, verdict)) for shown in kept]


def _doubt(metric: ShownMetric, verdict: contracts.Verdict | None) -> str:
    """Explain why a metric says nothing in this run; empty if it says something.

    Only the input stall can say nothing: it is a small difference of two rates.
    """
    if metric.name != "input_stall":
        return ""
    if verdict and verdict.bottleneck is contracts.Bottleneck.UNKNOWN:
        noise = verdict.evidence.get("noise")
        return f"noise: ±{formats.NBSP}{formats.share(noise)}" if noise else "the run is too short"
    if metric.value < 0:
        return "noise: without input it was no faster"
    return ""


@dataclass(frozen=True, slots=True)
class ShownSides:
    """One metric of both sides of a pair."""

    title: str
    unit: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """Change from baseline to contender, as a share of the baseline."""
        return self.after / self.before - 1.0


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """One turn of both sides; changes as shares of the baseline's."""

    before_s: float
    after_s: float
    change: float
    clock: float | None
    counts: bool
    """False for the largest and the smallest differences."""


def sides(result: contracts.Result) -> list[ShownSides]:
    """List what both sides of a pair have above zero; empty for a run of one revision."""
    baseline = {one.metric: one for one in result.baseline.samples} if result.baseline else {}
    both = [
        ShownSides(
            metric(one.metric).title,
            one.unit,
            summarise(baseline[one.metric]).value,
            summarise(one).value,
        )
        for one in sorted(result.samples, key=lambda sample: reading_order(sample.metric))
        if one.metric in baseline
    ]
    return [one for one in both if one.before > 0]


def turns(result: contracts.Result) -> list[ShownTurn]:
    """List the turns of a pair; empty where its sides had none, or not as many."""
    before, after = result.baseline.turns if result.baseline else (), result.turns
    if not before or len(before) != len(after):
        return []
    counted = set(paired.counted(before, after))
    return [
        ShownTurn(
            old.step_s,
            new.step_s,
            new.step_s / old.step_s - 1.0,
            new.sm_clock_hz / old.sm_clock_hz - 1.0
            if old.sm_clock_hz and new.sm_clock_hz
            else None,
            place in counted,
        )
        for place, (old, new) in enumerate(zip(before, after, strict=True))
    ]


def startup(result: contracts.Result) -> dict[str, float]:
    """The parts of a process's start, in s, in their order; unknown ones last."""
    order = {name: place for place, name in enumerate(STARTUP)}
    return dict(sorted(result.startup.items(), key=lambda part: order.get(part[0], len(order))))


def phases(result: contracts.Result) -> list[PhaseBar]:
    """Draw the parts of a step for the passes with and without input, on one scale."""
    if not result.replicates:
        return []
    passes = {
        "With input": [replicate.full for replicate in result.replicates],
        "Without input": [replicate.synth for replicate in result.replicates],
    }
    parts = {title: _parts(timed) for title, timed in passes.items()}
    whole = max(sum(length for _, length in lengths) for lengths in parts.values())
    return [_phase_bar(title, lengths, whole) for title, lengths in parts.items()]


def _parts(timed: Sequence[contracts.Pass]) -> tuple[tuple[str, float], ...]:
    count = len(timed)
    return (
        ("stall", sum(one.stall_s for one in timed) / count),
        ("copy", sum(one.copy_s for one in timed) / count),
        ("work", sum(one.work_s for one in timed) / count),
    )


def _phase_bar(title: str, parts: tuple[tuple[str, float], ...], whole: float) -> PhaseBar:
    said = ", ".join(f"{PHASES[name]} {formats.quantity(s, 's')}" for name, s in parts)
    step_s = sum(s for _, s in parts)
    return PhaseBar(title, step_s, parts, sparkline.stacked_bar(parts, whole, f"{title}: {said}"))


def readings(result: contracts.Result, name: figures.PassName) -> Readings | None:
    """Sum up the telemetry of all processes over one pass; None if there is none."""
    taken = [one.telemetry[name] for one in result.replicates if name in one.telemetry]
    if not taken:
        return None
    reasons: dict[str, float] = {}
    for one in taken:
        for reason, part in one.reasons.items():
            reasons[reason] = reasons.get(reason, 0.0) + part / len(taken)
    known = [one.energy_j for one in taken if one.energy_j is not None]
    return Readings(
        reasons=tuple(sorted(reasons.items(), key=lambda pair: -pair[1])),
        energy_j=sum(known) if known else None,
        other_processes=max(one.other_processes for one in taken),
        hz=taken[0].hz,
        count=sum(one.t_s.n for one in taken),
    )


def flags(result: contracts.Result) -> dict[str, str]:
    """Explain each flag of the result and its processes once."""
    return {flag: labels.flag(flag) for flag in benchmark_flags.every(result)}


def operations(result: contracts.Result) -> list[ShownOperation]:
    """List the most expensive operations of the first process's step."""
    profiled = result.profile
    ceilings = conclude.ceilings_of(result)
    busy_s = sum(profiled.seconds.values())
    return [
        ShownOperation(one, one.self_s / busy_s if busy_s else None, roofline.placed(one, ceilings))
        for one in profiled.operations
    ]


def modules(result: contracts.Result) -> ShownModules | None:
    """The modules of the first process's step; None where none were told apart."""
    layers = result.profile.layers
    if layers is None or not layers.modules:
        return None
    longest = sorted(layers.modules, key=lambda layer: -module_times.own_s(layer))
    return ShownModules(
        layers=layers,
        longest=tuple(longest[:MODULES_SHOWN]),
        odd=module_times.odd_one(layers),
        step_s=module_times.step_s(layers),
    )


def peak(result: contracts.Result) -> float | None:
    """The device's nominal peak in FLOP/s, where it is known."""
    return result.efficiency.peak_flop_per_s if result.efficiency else None


def at_the_peak(result: contracts.Result) -> list[ShownCategory]:
    """List the categories of memory at the peak of the first process's step, largest first."""
    held = result.profile.memory
    if held is None:
        return []
    return [
        ShownCategory(
            formats.MEMORY.get(name, name),
            figures.COLOURS.get(name, figures.OTHER),
            size_b,
            size_b / (held.peak_b or 1),
        )
        for name, size_b in sorted(held.categories.items(), key=lambda pair: -pair[1])
    ]


def memory(result: contracts.Result) -> figures.Figure | None:
    """Draw the device memory of a step of the first process; None where none was recorded."""
    return figures.memory(result.profile.memory, formats.MEMORY)


def evidence(values: Mapping[str, float]) -> list[ShownEvidence]:
    """Explain a verdict's evidence: shares as per cent, unknown names and values as they are."""
    order = {name: place for place, name in enumerate(labels.EVIDENCE)}
    known_first = sorted(values, key=lambda name: (order.get(name, len(order)), name))
    return [_evidence(name, values[name]) for name in known_first]


def _evidence(name: str, value: float) -> ShownEvidence:
    if name not in labels.EVIDENCE:
        return ShownEvidence(name, formats.number(value), "")
    title, meaning = labels.EVIDENCE[name]
    return ShownEvidence(title, formats.share(value), meaning)
