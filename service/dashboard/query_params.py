"""What a page's address says: its choices as values, and links that change some of them."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from benchmarks.contracts import JobState
from service.dashboard.figures import PassName, View, XAxis

Short = Annotated[str, Field(max_length=200)]
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


class OverviewAddress(Address):
    """Which series the overview shows."""

    metric: Short = "throughput"
    workload: Short = ""
    hardware: Short = ""
    text: Short = ""


class HistoryAddress(Address):
    """What a history's chart and table show."""

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
    """Which pass a run's telemetry is shown for."""

    during: PassName = "full"


class JobsAddress(Address):
    """Which jobs are listed."""

    state: JobState | Literal[""] = ""
    before: Annotated[str, Field(max_length=64)] = ""


class InboxAddress(Address):
    """Where the list of closed findings goes on."""

    cursor: Annotated[str, Field(max_length=2_000)] = ""


class CompareAddress(Address):
    """Which two revisions are compared."""

    baseline: Annotated[str, Field(max_length=100)] = ""
    contender: Annotated[str, Field(max_length=100)] = ""
    suite: Annotated[str, Field(max_length=64)] = ""
    metric: Short = "throughput"
