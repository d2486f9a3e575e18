"""The choices in a page's address, and links that change some of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, Self
from urllib.parse import urlencode

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat

from benchmarks.contracts import JobState
from service.dashboard.figures import Baseline, PassName, View, XAxis
from service.history.contrasts import By

Short = Annotated[str, Field(max_length=500)]
Cursor = Annotated[str, Field(max_length=2_000)]
PageNumber = Annotated[int, Field(ge=1, le=1_000_000)]


def _instant(said: datetime | None) -> datetime | None:
    """Take a time without a zone as UTC; the databases know the years of four digits."""
    if said is None:
        return None
    if not 1970 <= said.year < 9_999:
        raise ValueError("a year from 1970 to 9998")
    return said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)


Instant = Annotated[
    datetime | None, BeforeValidator(lambda said: said or None), AfterValidator(_instant)
]
"""A field of a form that was left empty says nothing."""
Choices = Annotated[
    tuple[Short, ...],
    BeforeValidator(lambda said: tuple(dict.fromkeys(filter(None, said)))),
    Field(max_length=30),
]
"""Values of one facet, any of which will do."""
PointId = Annotated[str, Field(pattern=r"^([0-9a-f]{1,32}\.[0-9a-f]{1,32})?$")]
"""A point: its series, a dot and its result. Empty: none."""


class Address(BaseModel):
    """The choices of one page; whatever is not chosen stays out of the URL."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def link(self, path: str, **changes: object) -> str:
        """Write the URL of ``path`` with these choices, some of them changed."""
        chosen = self.model_copy(update=changes)
        said = [
            (name, str(one).lower() if isinstance(one, bool) else str(one))
            for name, value in chosen
            if value != type(self).model_fields[name].default
            for one in (value if isinstance(value, tuple) else (value,))
        ]
        return path + ("?" + urlencode(said) if said else "")


class CasesAddress(Address):
    """The choice of series in the table of cases, and their order."""

    metric: Short = "throughput"
    workload: Short = ""
    hardware: Short = ""
    project: Short = ""
    text: Short = ""
    show: Literal["", "changed", "failing"] = ""
    """Only cases that a finding is about, or that fail now."""
    sort: Literal["", "change", "value"] = ""
    """Of the rows of a group: plain cases, the largest changes or the best values first."""


class HistoryAddress(Address):
    """The choices for a history's chart and table."""

    x: XAxis = "order"
    last: Literal["50", "200", "1000", "all"] = "200"
    """How many of the newest points."""
    start: Short = ""
    end: Short = ""
    low: FiniteFloat | None = None
    high: FiniteFloat | None = None
    zero: bool = False
    page: PageNumber = 1

    @property
    def view(self) -> View:
        """The chart's part of the choices."""
        return View(self.x, self.start, self.end, self.low, self.high, self.zero)

    @property
    def revisions_only(self) -> Self:
        """The choices that hold for another metric's chart as well."""
        return self.model_copy(update={"low": None, "high": None, "page": 1})


Facet = Literal["workload", "setting", "metric", "hardware", "worker", "source", "series"]


class ExploreAddress(Address):
    """The series that are looked at together, the part of their history, and how it is drawn."""

    workload: Choices = ()
    setting: Choices = ()
    """Settings of cases, such as ``precision=bf16``."""
    metric: Choices = ()
    hardware: Choices = ()
    worker: Choices = ()
    source: Choices = ()
    series: Annotated[tuple[Annotated[str, Field(max_length=32)], ...], Field(max_length=50)] = ()
    """Ids of series that are shown whatever the facets say."""
    first: Short = ""
    """Revision from which on points are shown."""
    last: Short = ""
    since: Instant = None
    """The same by date; a brush over the chart writes it."""
    until: Instant = None
    x: Annotated[XAxis, BeforeValidator(lambda said: said or "time")] = "time"
    panels: Annotated[bool, BeforeValidator(lambda said: said or False)] = False
    """Whether each series has a chart of its own."""
    against: Baseline = ""
    base: Short = ""
    """The revision that values are shown against."""
    point: PointId = ""
    """The point whose panel is open."""
    other: PointId = ""
    """The point that it is compared with."""

    def without(self, facet: Facet, value: str) -> Self:
        """Take one value out of a facet."""
        kept = tuple(one for one in getattr(self, facet) if one != value)
        return self.model_copy(update={facet: kept})


class MatrixAddress(Address):
    """Choice of a value for each case, of hardware, and of the workload looked at closely."""

    show: Literal["throughput", "speedup", "memory", "verdict", "change"] = "speedup"
    hardware: Short = ""
    workload: Short = ""
    since: Annotated[str, Field(max_length=100)] = ""
    """The revision that changes are shown since; empty: against the level."""
    cost: Literal["memory", "energy"] = "memory"


class RunAddress(Address):
    """The pass whose telemetry a run's page shows."""

    during: PassName = "full"


class JobsAddress(Address):
    """The choice of jobs in the list."""

    state: JobState | Literal[""] = ""
    hours: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Only jobs that ended in so many hours; 0: all."""
    cursor: Cursor = ""


class InboxAddress(Address):
    """The place from which the list of closed findings continues."""

    cursor: Cursor = ""


class ComparisonsAddress(Address):
    """The choice of comparisons in the list: gates, or what the service measured again."""

    kind: Literal["gates", "again"] = "gates"
    cursor: Cursor = ""


Compared = Literal["revision", By]


class CompareAddress(Address):
    """The two sides to compare, what they differ by, and in which series."""

    by: Compared = "revision"
    baseline: Short = ""
    contender: Short = ""
    suite: Annotated[str, Field(max_length=64)] = ""
    """Suite whose cases each get a row, where revisions are compared."""
    workload: Short = ""
    metric: Short = "throughput"
    since: Instant = None
    """From when on measurements count, where the sides are not times themselves."""
    until: Instant = None


class RevisionAddress(Address):
    """The metric in which a revision's changes are shown; empty: the usual one.

    And the project in whose history it stands; None: the one that measured it last.
    """

    metric: Short = ""
    project: Short | None = None
