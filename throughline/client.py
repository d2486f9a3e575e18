"""A client for notebooks and scripts; the command line's own client, with what these ask for.

>>> with Client(url) as client:
...     [series] = client.series(metric="throughput")
...     table = client.points(series.id).to_pandas()
>>> table[["revision", "value"]]
  revision  value
0       r1  100.0
1       r2  104.0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import TypeAdapter

from cli import parse_case, watch
from cli.client import ServiceClient, read
from cli.exits import Stop as ThroughlineError
from service.schemas.comparisons import ComparisonView
from service.schemas.findings import FindingSummary, FindingView
from service.schemas.jobs import Listing, SubmissionView
from service.schemas.series import SeriesName, SeriesPoint

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Client", "Rows", "ThroughlineError"]

T = TypeVar("T")
Filter = str | int | bool | None


class Rows(tuple[T, ...]):
    """The answer of a call, in the service's order; a tuple that pandas can be had of."""

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with a row for each item, values in base units, times in UTC.

        A field within a field has both names, such as ``case.workload``.

        Raises:
            ThroughlineError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - optional
        except ImportError:
            raise ThroughlineError(
                "to_pandas needs pandas: pip install 'throughline[pandas]'."
            ) from None
        documents = [TypeAdapter(type(item)).dump_python(item) for item in self]
        return pd.json_normalize(documents)


class Client(ServiceClient):
    """A connection to one service; a context manager. All that the command line calls is here too.

    Args:
        url: where the service is, such as ``http://127.0.0.1:8765``.
        token: without it the one that the command line would use (``THROUGHLINE_TOKEN``).

    Every call may raise `ThroughlineError`, whose text is one sentence for a person.
    """

    def series(self, *, metric: str | None = None, workload: str | None = None) -> Rows[SeriesName]:
        """Every series, by case and metric; their points are read one by one with `points`."""
        filters = {"metric": metric, "workload": workload}
        return self._every(SeriesName, ("series",), filters)

    def points(self, series_id: str) -> Rows[SeriesPoint]:
        """All points of a series, by revision and then by time of measurement."""
        return self._every(SeriesPoint, ("series", series_id, "points"), {}, limit=10_000)

    def findings(
        self,
        *,
        active: bool | None = None,
        state: str | None = None,
        kind: str | None = None,
        series: str | None = None,
    ) -> Rows[FindingSummary]:
        """Findings, the newest first; ``active`` keeps those that ask for attention."""
        filters = {"active": active, "state": state, "kind": kind, "series": series}
        return self._every(FindingSummary, ("findings",), filters)

    def finding(self, finding_id: str) -> FindingView:
        """A finding with its series, its evidence and what was done with it."""
        return read(FindingView, self.text("findings", finding_id))

    def measure(
        self, what: str, *settings: str, revision: str, timeout_s: float | None = None, **more: Any
    ) -> SubmissionView:
        """Have a suite or a case measured, and wait until all of it has ended.

        Args:
            what: a suite, or a workload, as `throughline submit` takes it.
            settings: for a workload, such as ``precision=bf16``.
            revision: what the result is of.
            timeout_s: after it the submission goes on, and this raises; None: there is no end.
            more: further fields of the request, such as ``tier="quick"``.
        """
        chosen = parse_case.read(what, settings, None)
        case = chosen.case and chosen.case.model_dump(mode="json")
        asked = {"suite": chosen.suite} if case is None else {"case": case}
        submitted = self.submit({**asked, "revision": revision, **more})
        return watch.follow(self, submitted, _Silent(), timeout_s=timeout_s)

    def gate(self, comparison_id: str) -> ComparisonView:
        """A gate as it stands: its ``decision`` has the outcome once ``state`` is ``decided``."""
        return read(ComparisonView, self.text("comparisons", comparison_id))

    def _every(
        self, model: type[T], path: Iterable[str], filters: Mapping[str, Filter], limit: int = 500
    ) -> Rows[T]:
        """All pages of a list."""
        # The API's flags are true and false.
        given = {
            name: str(one).lower() if isinstance(one, bool) else one
            for name, one in filters.items()
        }
        items: list[T] = []
        cursor: str | None = None
        while True:
            text = self.text(*path, **given, limit=limit, cursor=cursor)
            page = read(Listing[model], text)  # type: ignore[valid-type]
            items += page.items
            if (cursor := page.next_cursor) is None:
                return Rows(items)


class _Silent:
    """Follows a submission and shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    def show(self, submission: SubmissionView) -> None:
        """Show nothing."""

    def say(self, sentence: str) -> None:
        """Say nothing."""
