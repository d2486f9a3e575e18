"""Declares every metric that a measurement may have. A new one needs a line here and its value."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.contracts import Direction, Sample

ITEM_RATE = "item/s"
"""The unit of a rate: a workload puts the name of its item in place of ``item``."""


@dataclass(frozen=True, slots=True)
class Metric:
    """Name, title, unit and direction of a metric, and how it relates to the others."""

    name: str
    title: str
    unit: str
    direction: Direction
    note: str = ""
    """Added to the title where there is room."""
    same_as: str = ""
    """The metric that says the same in another unit."""
    is_speed: bool = False
    """Better means faster, and the device's clock moves it."""
    with_loader: bool = False
    """The input pipeline can move it."""
    is_headline: bool = False
    """Shown first of a run."""
    is_watched: bool = True
    """Changes of it become findings. The others say again what a watched metric says."""
    of_several: bool = False
    """Processes have it together, and none by itself: it cannot be compared process by process."""
    follows: str = ""
    """The watched metric that moves it: where both change, the change is one of that metric."""

    @property
    def subject(self) -> str:
        """The metric that a change of this one is a change of."""
        return self.follows or self.name

    @property
    def in_sentence(self) -> str:
        """The title as it stands inside a sentence."""
        is_acronym = self.title[:2].isupper()
        return self.title if is_acronym else self.title[:1].lower() + self.title[1:]


_HIGHER, _LOWER = Direction.HIGHER, Direction.LOWER
_DECLARED = (
    Metric(
        "throughput",
        "Throughput",
        ITEM_RATE,
        _HIGHER,
        note="with the real input pipeline",
        same_as="step_time",
        is_speed=True,
        with_loader=True,
        is_headline=True,
    ),
    Metric(
        "throughput_synth",
        "Throughput without input",
        ITEM_RATE,
        _HIGHER,
        note="batches already on the device",
        same_as="step_time_synth",
        is_speed=True,
        is_headline=True,
        follows="throughput",
    ),
    Metric(
        "step_time",
        "Step time",
        "s",
        _LOWER,
        same_as="throughput",
        is_speed=True,
        with_loader=True,
        is_watched=False,
    ),
    Metric(
        "step_time_synth",
        "Step time without input",
        "s",
        _LOWER,
        same_as="throughput_synth",
        is_speed=True,
        is_watched=False,
    ),
    Metric(
        "input_stall",
        "Input stall",
        "1",
        _LOWER,
        note="share of time lost to input",
        with_loader=True,
        is_headline=True,
        is_watched=False,
    ),
    Metric(
        "first_step_time",
        "First step",
        "s",
        _LOWER,
        note="compilation, autotuning, allocation",
        is_speed=True,
        is_headline=True,
    ),
    Metric(
        "first_step_time_warm",
        "First step, warm caches",
        "s",
        _LOWER,
        is_speed=True,
        of_several=True,
        follows="first_step_time",
    ),
    Metric(
        "scaling_efficiency",
        "Scaling efficiency",
        "1",
        _HIGHER,
        note="throughput over that of as many GPUs by themselves",
        with_loader=True,
        is_headline=True,
    ),
    Metric("peak_memory", "Peak memory", "B", _LOWER, is_headline=True),
    Metric("energy_per_item", "Energy per item", "J", _LOWER, follows="throughput"),
    Metric("power", "Power", "W", _LOWER, is_watched=False),
    Metric("sm_clock", "SM clock", "Hz", _HIGHER, is_watched=False),
    Metric("cycles_per_step", "Cycles per step without input", "1", _LOWER, is_watched=False),
    Metric("cycles", "Cycles per step", "1", _LOWER, is_watched=False),
)
METRICS = {metric.name: metric for metric in _DECLARED}
"""In the order in which people read them, and in which a finding names one as its headline."""
RATES = frozenset(metric.name for metric in _DECLARED if metric.unit == ITEM_RATE)


def metric(name: str) -> Metric:
    """Describe a metric. One that is not declared has its name as title."""
    words = name.replace("_", " ").replace(".", " ")
    return METRICS.get(name) or Metric(name, words.capitalize(), "", Direction.HIGHER)


def reading_order(name: str) -> tuple[int, str]:
    """Sort key of a metric; those that are not declared follow by name."""
    return list(METRICS).index(name) if name in METRICS else len(METRICS), name


def sample(
    name: str, value: float, half_width: float | None = None, *, item: str = "item"
) -> Sample:
    """Make the sample of a declared metric out of one process's value, in the metric's unit.

    ``half_width`` is of the value's 95 % interval. ``item`` is what a rate counts, such as
    ``image``.
    """
    declared = METRICS[name]
    return Sample(
        metric=name,
        unit=declared.unit.replace("item", item),
        direction=declared.direction,
        values=(value,),
        half_widths=None if half_width is None else (half_width,),
    )
