"""The choices in a page's address, and links that change some of them."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from benchmarks.contracts import JobState
from service.dashboard.figures import PassName, View, XAxis

Short = Annotated[str, Field(max_length=500)]
Cursor = Annotated[str, Field(max_length=2_000)]
PageNumber = Annotated[int, Field(ge=1, le=1_000_000)]


class Address(BaseModel):
    """The choices of one page; whatever is not chosen stays out of the URL."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def link(self, path: str, **changes: object) -> str:
        """Write the URL of ``path`` with these choices, some of them changed."""
        chosen = self.model_copy(update=changes)
        said = {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in chosen
            if value != type(self).model_fields[name].default
        }
        return path + ("?" + urlencode(said) if said else "")


class CasesAddress(Address):
    """The choice of series in the table of cases, and their order."""

    metric: Short = "throughput"
    workload: Short = ""
    hardware: Short = ""
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


class CompareAddress(Address):
    """The two revisions to compare, with the suite and the metric."""

    baseline: Annotated[str, Field(max_length=100)] = ""
    contender: Annotated[str, Field(max_length=100)] = ""
    suite: Annotated[str, Field(max_length=64)] = ""
    metric: Short = "throughput"
