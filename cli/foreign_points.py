"""Sends points of other tools to the service: whole series together, a part at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cli.client import ServiceClient, read
from cli.exits import Stop
from cli.output.lines import remark
from cli.revision import Version, checked_out
from cli.staging import Staging
from service.schemas.imports import MOST_POINTS, Imported
from service.schemas.measured_elsewhere import ForeignPoint
from service.wording.formats import counted

LARGEST_B = 4 * 2**20
"""Of one request's points as JSON: a quarter of what the service takes."""
QUIET_S = 2.0
"""Between two lines about how far an import is."""


@contextmanager
def readable() -> Iterator[None]:
    """Turn the error of a file that cannot be read into the command's last sentence."""
    from cli import formats  # noqa: PLC0415 - its readers are many, and other commands need none

    try:
        yield
    except formats.FormatError as error:
        raise Stop(error.sentence) from error


def send(client: ServiceClient, source: str, project: str | None, points: Staging) -> int:
    """Import points, saying now and then how far it is; the number of new ones.

    All series are asked for first, so that one which refuses its points leaves nothing stored.
    """
    if revision := points.dated_twice():
        raise Stop(f"Two points give the commit {revision} different dates.")
    said = {"source": source, "project": project}
    if points.count > MOST_POINTS:
        for chunk in _chunks(points.firsts()):
            _import(client, chunk, said | {"check_only": True})
    new, done, said_at_s = 0, 0, time.monotonic()
    for chunk in _chunks(points.in_order()):
        new, done = new + _import(client, chunk, said).new, done + len(chunk)
        if time.monotonic() - said_at_s > QUIET_S and done < points.count:
            remark(f"{done:,} of {counted(points.count, 'point')}")
            said_at_s = time.monotonic()
    return new


def _chunks(points: Iterable[str]) -> Iterator[list[str]]:
    """Put points into requests."""
    chunk: list[str] = []
    size_b = 0
    for point in points:
        if chunk and (len(chunk) == MOST_POINTS or size_b + len(point) > LARGEST_B):
            yield chunk
            chunk, size_b = [], 0
        chunk.append(point)
        size_b += len(point)
    if chunk:
        yield chunk


def _import(client: ServiceClient, points: Iterable[str], said: Mapping[str, object]) -> Imported:
    items = [json.loads(point) for point in points]
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
