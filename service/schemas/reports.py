"""The report of a submission."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.contracts import Case, JobState, Suggestion
from service.schemas.series import Ratio, RevisionChange

Basis = Literal["replicates", "within_run", "none"]


@dataclass(frozen=True, slots=True)
class Summary:
    """A mean with its 95 % interval, in the unit of the sample."""

    value: float
    low: float | None
    high: float | None
    interval: Basis
    """What the interval rests on: ``replicates`` says where another process of this night and node
    will fall."""
    replicates: int


@dataclass(frozen=True, slots=True)
class Term:
    """A main effect or an interaction of two factors."""

    name: str
    """``precision``, or ``layout x precision``."""
    meaning: str
    """What the ratio compares."""
    ratio: float
    """Main effect: high over low. Interaction: the one's ratio with the other high over its ratio
    with the other low; 1 where they do not depend on each other."""
    low: float
    high: float
    """95 % margin about the ratio."""
    clear: bool
    """Whether the margin leaves out 1."""


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects that the runs of one workload's design show."""

    workload: str
    runs: int
    missing: tuple[str, ...]
    """Runs without a number; then no effect is estimated, because none would be balanced."""
    terms: tuple[Term, ...]
    """Main effects, then interactions, each in the order of their size."""
    limits: tuple[str, ...]
    """How large a fraction was run, its resolution, and what it mixes up."""


@dataclass(frozen=True, slots=True)
class Start:
    """One way to begin: with compiler caches that are empty, or as an earlier process left them."""

    compile_s: float
    """Seconds of the first step beyond a steady one."""
    break_even_steps: int | None
    """Steps from which on the compiled case is ahead of the eager one; None: never."""


@dataclass(frozen=True, slots=True)
class CompileCost:
    """A compiled case beside the same case without compiling."""

    saved_s: float
    """Of each step; negative where the compiled step is slower."""
    cold: Start
    warm: Start | None
    """None where one process alone was measured."""
    sentence: str
    """For a person: when it pays."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The suggestions for one case: three at most, those that were measured first."""

    case: Case
    suggestions: tuple[Suggestion, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One case of the submission."""

    job_id: str
    """Of its first replicate."""
    result_id: str | None
    case: Case
    """As measured, or as asked for while there is no result."""
    state: JobState
    status: str | None
    reason: str
    throughput: Summary | None
    unit: str
    speedup: Ratio | None
    """Over the fp32 eager case of the same workload and preset in this submission."""
    bottleneck: str | None
    verdict: str
    peak_memory_b: float | None
    parity: str | None = None
    """Whether it computes what fp32 eager computes; None: nobody asked."""
    parity_reason: str = ""
    mfu: float | None = None
    """Share of the device's nominal peak; None where it is not known."""
    compile_cost: CompileCost | None = None
    """Of a compiled case whose eager neighbour was measured beside it."""
    flags: tuple[str, ...] = ()
    """All flags of the result and its processes."""
    disturbed: str = ""
    """Those for which it decides nothing: it has no speed-up and is compared with nothing."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results table of a submission, and what changed against another revision."""

    submission_id: str
    suite: str | None
    revision: str
    finished: bool
    rows: tuple[Row, ...]
    against: str | None
    changes: tuple[RevisionChange, ...]
    effects: tuple[Effects, ...] = ()
    """Of a suite whose cases are the runs of factorial designs: what each factor does."""
    advice: tuple[Advice, ...] = ()
    """What may be tried next, at the fastest case of each workload, preset and hardware."""
