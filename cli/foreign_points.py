"""Points of other tools on their way to the service: whole series together, a part at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cli.client import ServiceClient, read
from cli.exits import Stop
from cli.output.lines import remark
from cli.revision import Version, checked_out
from service.schemas.imports import MOST_POINTS, Imported
from service.schemas.measured_elsewhere import ForeignPoint
from service.wording.formats import counted

if TYPE_CHECKING:
    from cli.formats import FormatRead

LARGEST_B = 4 * 2**20
"""Of one request's points as JSON: a quarter of what the service takes."""
QUIET_S = 2.0
"""Between two lines about how far an import is."""
_BEFORE = datetime.min.replace(tzinfo=UTC)
SeriesKey = tuple[object, ...]


def series_key(point: ForeignPoint) -> SeriesKey:
    """The key that tells series of one source apart, before the service looks at the machine."""
    parameters, machine = (tuple(sorted(one.items())) for one in (point.parameters, point.machine))
    return point.benchmark, parameters, point.metric, machine


def of_file(path: Path, format_name: str | None) -> FormatRead:
    """Read the points of a file.

    Raises:
        Stop: it cannot be read; the sentence says where it is wrong.
    """
    from cli import formats  # noqa: PLC0415 - its readers are many, and other commands need none

    try:
        return formats.read(path, format_name)
    except formats.FormatError as error:
        raise Stop(error.sentence) from error


def chunks(points: Iterable[ForeignPoint]) -> Iterator[list[ForeignPoint]]:
    """Put points into requests, each series together and its newest points first.

    So a history is judged whole: a change that is old already is shown, and announced to nobody.
    """
    newest_first = sorted(points, key=_time, reverse=True)
    chunk: list[ForeignPoint] = []
    size_b = 0
    for point in sorted(newest_first, key=lambda one: repr(series_key(one))):
        more_b = len(point.model_dump_json())
        if chunk and (len(chunk) == MOST_POINTS or size_b + more_b > LARGEST_B):
            yield chunk
            chunk, size_b = [], 0
        chunk.append(point)
        size_b += more_b
    if chunk:
        yield chunk


def _time(point: ForeignPoint) -> datetime:
    return point.committed_at or point.at or _BEFORE


def send(
    client: ServiceClient, source: str, project: str | None, points: Sequence[ForeignPoint]
) -> Imported:
    """Import points, saying now and then how far it is.

    All series are asked for first, so that one which refuses its points leaves nothing stored.
    """
    _check_dates(points)
    said = {"source": source, "project": project}
    if len(points) > MOST_POINTS:
        firsts = {(series_key(one), one.unit, one.direction): one for one in points}
        for chunk in chunks(firsts.values()):
            _import(client, chunk, said | {"check_only": True})
    new, done, series = 0, 0, set[str]()
    said_at_s = time.monotonic()
    for chunk in chunks(points):
        answer = _import(client, chunk, said)
        new, done, series = new + answer.new, done + len(chunk), series | set(answer.series)
        if time.monotonic() - said_at_s > QUIET_S and done < len(points):
            remark(f"{done:,} of {counted(len(points), 'point')}")
            said_at_s = time.monotonic()
    return Imported(new=new, known=len(points) - new, series=sorted(series))


def _check_dates(points: Iterable[ForeignPoint]) -> None:
    dates: dict[str | None, datetime] = {}
    for point in points:
        at = point.committed_at
        if at is not None and dates.setdefault(point.revision, at) != at:
            raise Stop(f"Two points give the commit {point.revision} different dates.")


def _import(
    client: ServiceClient, points: Iterable[ForeignPoint], said: Mapping[str, object]
) -> Imported:
    items = [one.model_dump(mode="json", exclude_defaults=True) for one in points]
    text = client.send_text("POST", "imports", body={**said, "points": items})
    return read(Imported, text)


def at_head(folder: Path) -> Version:
    """The commit that ``folder`` has checked out, for numbers that are to be kept.

    Raises:
        Stop: it is no checkout, or its files differ from the commit.
    """
    version = checked_out(folder)
    if version is None:
        raise Stop(f"{folder} is no git checkout with a commit: name it with --revision.")
    if version.revision.endswith("+dirty"):
        raise Stop(
            "Tracked files differ from the commit that is checked out: commit them, or name what "
            "is measured with --revision."
        )
    return version


def named(revision: str, folder: Path) -> Version:
    """The revision that ``--revision`` names; HEAD is the commit checked out in ``folder``."""
    return at_head(folder) if revision == "HEAD" else Version(revision)


def at_revision(point: ForeignPoint, version: Version) -> ForeignPoint:
    """The point as one of a revision that its tool did not name."""
    said = {"revision": version.revision, "committed_at": version.revision_at}
    return point.model_copy(update={name: value for name, value in said.items() if value})
