"""The service's answers as the command line reads them; what it does not need it ignores."""

from __future__ import annotations

from datetime import date

from pydantic import AwareDatetime, BaseModel, ConfigDict

from benchmarks.contracts import Case, Id, JobState, Progress, Protocol, leading


class Answer(BaseModel):
    """A frozen value out of JSON; a newer service may say more than is read here."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Problem(Answer):
    """The refusal of a request (RFC 9457)."""

    detail: str
    status: int


class AttemptView(Answer):
    """One worker's try at a job."""

    number: int
    worker: str
    state: str
    reason: str = ""
    progress: Progress | None = None


class JobView(Answer):
    """One process that measures a case, and where it stands."""

    id: Id
    group_id: Id
    replicate: int
    replicates: int
    case: Case
    project: str = ""
    revision: str
    state: JobState
    reason: str = ""
    created_at: AwareDatetime
    result_id: Id | None = None
    attempts: tuple[AttemptView, ...] = ()

    @property
    def progress(self) -> Progress | None:
        """The progress of the last attempt, if there was one."""
        return self.attempts[-1].progress if self.attempts else None


class JobPage(Answer):
    """Some jobs, and where to go on."""

    items: tuple[JobView, ...]
    next_cursor: str | None = None


class SubmissionSummary(Answer):
    """A submission, as a list shows it."""

    id: Id
    suite: str | None = None
    project: str = ""
    revision: str
    source: str = ""
    created_at: AwareDatetime
    finished: bool
    counts: dict[str, int]


class SubmissionView(SubmissionSummary):
    """Jobs that were submitted together."""

    jobs: tuple[JobView, ...]
    left_out: int = 0
    """Cases of the suite that were not queued; told by the answer to the submission."""

    @property
    def cases(self) -> tuple[JobView, ...]:
        """The job of each case that says how the case stands: the first that failed, or runs ..."""
        groups: dict[Id, list[JobView]] = {}
        for job in self.jobs:
            groups.setdefault(job.group_id, []).append(job)
        states = {name: leading(job.state for job in jobs) for name, jobs in groups.items()}
        return tuple(
            next(job for job in jobs if job.state is states[name]) for name, jobs in groups.items()
        )


class SubmissionPage(Answer):
    """Some submissions, and where to go on."""

    items: tuple[SubmissionSummary, ...]
    next_cursor: str | None = None


class Estimate(Answer):
    """A mean with its 95 % interval; a `value` of a summary, or a point of a series."""

    value: float
    low: float | None
    high: float | None
    interval: str


class Ratio(Answer):
    """Contender over baseline."""

    value: float
    low: float | None
    high: float | None


class StartView(Answer):
    """The cost of beginning a case that compiles, in s and in steps until it pays."""

    compile_s: float
    break_even_steps: int | None


class CompileCostView(Answer):
    """The cost of compiling a case, beside the same case without."""

    saved_s: float
    cold: StartView
    warm: StartView | None
    sentence: str


class RowView(Answer):
    """One case of a report."""

    job_id: Id
    result_id: Id | None
    case: Case
    state: JobState
    status: str | None
    reason: str
    throughput: Estimate | None
    unit: str
    speedup: Ratio | None
    """Over the fp32 eager case of the same workload; None for that case itself."""
    bottleneck: str | None
    verdict: str
    peak_memory_b: float | None
    parity: str | None = None
    parity_reason: str = ""
    mfu: float | None = None
    compile_cost: CompileCostView | None = None
    flags: tuple[str, ...] = ()
    disturbed: str = ""
    """The flags for which it decides nothing."""


class ChangeView(Answer):
    """The change of one case from one revision to another."""

    case: Case
    unit: str
    baseline: Estimate | None
    contender: Estimate | None
    change: float | None
    change_low: float | None
    change_high: float | None
    verdict: str
    """``faster``, ``slower``, ``unclear`` or ``missing``."""
    note: str
    project: str = ""
    undecided: bool = False
    """Whether a slowdown is possible that nobody has looked for well enough."""


class TermView(Answer):
    """The effect of a factor of a design, or of a pair of them."""

    name: str
    meaning: str
    ratio: float
    low: float
    high: float
    clear: bool


class EffectsView(Answer):
    """The effects that the runs of one workload's design show."""

    workload: str
    runs: int
    missing: tuple[str, ...]
    terms: tuple[TermView, ...]
    limits: tuple[str, ...]


class SuggestionView(Answer):
    """A value on an axis that may be faster."""

    sentence: str


class AdviceView(Answer):
    """The suggestions of what to try next at one case."""

    case: Case
    suggestions: tuple[SuggestionView, ...]


class ReportView(Answer):
    """The results of a submission, and what changed against another revision."""

    submission_id: Id
    revision: str
    finished: bool
    rows: tuple[RowView, ...]
    against: str | None
    changes: tuple[ChangeView, ...]
    effects: tuple[EffectsView, ...] = ()
    advice: tuple[AdviceView, ...] = ()


class CaseExpectation(Answer):
    """The time that one worker needs for a case of a suite, in the suite's protocol."""

    case: str
    expected_s: float
    measured_before: bool


class SuiteView(Answer):
    """A suite, and how long one worker needs for its cases."""

    name: str
    protocol: Protocol
    cases_expected: tuple[CaseExpectation, ...] = ()


class CatalogView(Answer):
    """The catalog of what can be asked for, as far as the command line reads it."""

    suites: tuple[SuiteView, ...]


class ComparisonView(Answer):
    """Two revisions, case by case."""

    baseline: str
    contender: str
    changes: tuple[ChangeView, ...]


class WorkerView(Answer):
    """A worker and when it was last seen."""

    name: str
    labels: dict[str, str]
    last_seen_at: AwareDatetime


class WorkerPage(Answer):
    """Workers, the last seen first."""

    items: tuple[WorkerView, ...]


class ScheduleView(Answer):
    """A cron expression that submits a suite."""

    name: str
    cron: str
    timezone: str
    suite: str
    project: str = ""
    revision_rule: str
    requires: dict[str, str] = {}
    enabled: bool = True
    next_due_at: AwareDatetime | None = None


class ScheduleList(Answer):
    """Every schedule."""

    items: tuple[ScheduleView, ...]


class FindingSummary(Answer):
    """A finding, as a list shows it."""

    id: str
    kind: str
    state: str
    cause: str
    certainty: str
    sentence: str
    last_good: str | None
    first_bad: str
    worker: str | None
    owner: str
    note: str
    due_on: date | None
    opened_at: AwareDatetime
    closed_at: AwareDatetime | None
    version: int
    worst_effect: float | None
    """As a share of the level before, signed as measured; None for a bad node."""
    share: float | None
    """Slowdown of a bad node, as a share; None for any other finding."""
    project: str = ""


class FindingPage(Answer):
    """Some findings, and where to go on."""

    items: tuple[FindingSummary, ...]
    next_cursor: str | None = None


class FindingReport(Answer):
    """The findings of a recent period."""

    opened: tuple[FindingSummary, ...]
    active: int
    expected_false: float


class SeriesName(Answer):
    """The case, the metric and the unit that name a series."""

    case: Case
    metric: str
    unit: str


class MovedSeries(Answer):
    """A series that a finding is about, and how far it moved."""

    series: SeriesName
    effect: float
    effect_low: float
    effect_high: float
    before: float
    after: float
    ended: str = ""


class FindingEvent(Answer):
    """Something that was done with a finding."""

    at: AwareDatetime
    actor: str
    action: str
    detail: str = ""


class FindingView(Answer):
    """A finding with its series and its history."""

    summary: FindingSummary
    series: tuple[MovedSeries, ...]
    events: tuple[FindingEvent, ...]


class TokenView(Answer):
    """A token that was just made."""

    id: str
    token: str
