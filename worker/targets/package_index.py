"""The versions of a package that an index, or a folder of wheels, has for a Python here.

An index answers with a page of files for each package: JSON (PEP 691), or HTML (PEP 503).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx2
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ValidationError

from worker.http_exchange import Bounds, Exchange
from worker.targets.commands import BuildFailed, BuildLimits, Unbuildable, run

LARGEST_PAGE_B = 32 * 2**20
"""The pages of the packages that may be named have a tenth of it."""
WHOLE_S, STEP_S = 30.0, 10.0
"""Longest time until the page is there, and for each step of asking."""
REDIRECTS = 3
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_ASK_S = 60.0
_ASK = "import sys; print(*sys.version_info[:2])"


class _File(BaseModel):
    """One file of a package, as far as it is read."""

    filename: str
    yanked: bool | str = False
    """True, or why."""


class _Page(BaseModel):
    files: tuple[_File, ...]


class _Links(HTMLParser):
    """The files that a page links to."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[_File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the file of a link."""
        said = dict(attrs)
        if tag == "a" and (href := said.get("href")):
            name = unquote(urlsplit(href).path).rpartition("/")[2]
            self.files.append(_File(filename=name, yanked="data-yanked" in said))


def versions_of(package: str, index: str, tags: frozenset[Tag]) -> dict[Version, bool]:
    """The versions with a wheel for any of ``tags``, each with whether it was yanked.

    Raises:
        BuildFailed: the index cannot be reached, or has no such page.
    """
    found: dict[Version, bool] = {}
    for file in _files(package, index):
        with suppress(InvalidWheelFilename, InvalidVersion):
            name, version, _, fits = parse_wheel_filename(file.filename)
            if name == package and not tags.isdisjoint(fits):
                found[version] = found.get(version, True) and file.yanked is not False
    return found


def between(known: Mapping[Version, bool], good: str, bad: str) -> list[str]:
    """The versions after ``good`` up to ``bad`` in their order, without yanked ones.

    Early versions (2.13.0rc1) count if an end is one. Builds of one version (+cu126, +cpu) are one,
    unless both ends name the same.

    Raises:
        Unbuildable: there is no such way.
    """
    names = {name for one in known for name in (str(one), one.public)}
    if absent := [end for end in (good, bad) if end not in names]:
        raise Unbuildable(f"The index has no {absent[0]} for this Python and platform.")
    first, last = Version(good), Version(bad)
    if first >= last:
        raise Unbuildable(f"{good} is no earlier version than {bad}.")
    build = last.local if first.local == last.local else None
    early = first.is_prerelease or last.is_prerelease
    inside = {
        one if build else Version(one.public)
        for one, yanked in known.items()
        if build in (None, one.local)
        and not yanked
        and (early or not one.is_prerelease)
        and Version(first.public) < Version(one.public) < Version(last.public)
    }
    return [*map(str, sorted(inside)), bad]


@cache
def tags_of(python: str, log: Path) -> frozenset[Tag]:
    """The tags of wheels that ``python`` takes on this platform.

    Raises:
        BuildFailed: it does not run.
    """
    major, minor = run((python, "-c", _ASK), BuildLimits(_ASK_S), log).split()
    version, interpreter = (int(major), int(minor)), f"cp{major}{minor}"
    return frozenset((*cpython_tags(version), *compatible_tags(version, interpreter)))


def _files(package: str, index: str) -> Iterable[_File]:
    try:
        if index.startswith("/"):
            return [_File(filename=path.name) for path in Path(index).glob("*.whl")]
        if index.startswith("file://"):
            page = Path(unquote(urlsplit(index).path)) / package / "index.html"
            return _linked(page.read_text(encoding="utf-8"))
        return _read(_asked(httpx2.URL(f"{index.rstrip('/')}/{package}/")))
    except (OSError, UnicodeDecodeError, httpx2.HTTPError, httpx2.InvalidURL) as failed:
        raise BuildFailed(f"The index has no page of {package} to read: {failed}.") from failed
    except ValidationError as failed:
        raise BuildFailed(f"The index's page of {package} is none (PEP 691).") from failed


def _asked(address: httpx2.URL) -> httpx2.Response:
    """The page at ``address``; a redirect is followed on the same host alone."""
    bounds = Bounds(LARGEST_PAGE_B, WHOLE_S)
    with Exchange("", STEP_S, {"Accept": _ACCEPT}) as exchange:
        for _ in range(REDIRECTS):
            answer = exchange.ask("GET", str(address), bounds)
            if not answer.has_redirect_location:
                return answer
            there = address.join(answer.headers["Location"])
            if _host(there) != _host(address):
                raise BuildFailed("The index leads to another host: let the file name that one.")
            address = there
    raise BuildFailed("The index leads from one address to the next.")


def _host(address: httpx2.URL) -> tuple[str, str, int | None]:
    return address.scheme, address.host, address.port


def _read(answer: httpx2.Response) -> Iterable[_File]:
    if answer.status_code != 200:
        raise BuildFailed(f"The index answers with {answer.status_code}.")
    if "json" in answer.headers.get("Content-Type", ""):
        return _Page.model_validate_json(answer.content).files
    return _linked(answer.text)


def _linked(page: str) -> list[_File]:
    links = _Links()
    links.feed(page)
    return links.files
