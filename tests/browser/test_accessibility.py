"""axe-core finds nothing on any page: empty, of a service in which everything has happened, in use.

The pages come from the application's own routes. One whose address has a part that `THINGS` does
not know fails here, until it is said where such a part is found.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from builders import lived_in
from builders.history_plans import PLANS
from builders.polling import opened
from builders.seeded import Seeded
from builders.serving import serving
from playwright.sync_api import Page
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service import models
from service.app import create_app
from service.database.session import Database
from service.settings import Settings

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
BROKEN = {"resultTypes": ["violations"]}
"""Describes only elements that break a rule: to describe the others takes longer than to look."""
CONTRAST = BROKEN | {"runOnly": ["color-contrast"]}
"""The one rule whose answer the colours decide."""
THINGS: dict[str, tuple[Any, Any]] = {
    "result_id": (models.ResultRow.id, models.ResultRow.status),
    "job_id": (models.Job.id, models.Job.state),
    "series_id": (models.SeriesRow.id, models.SeriesRow.metric),
    "finding_id": (models.FindingRow.id, models.FindingRow.state),
    "comparison_id": (models.ComparisonRow.id, models.ComparisonRow.state),
    "bisection_id": (models.BisectionRow.id, models.BisectionRow.state),
    "worker": (models.WorkerRow.name, models.WorkerRow.name),
    "revision:path": (models.Revision.name, models.Revision.title != ""),
    "night": (func.substr(models.Submission.created_at, 1, 10), models.Submission.source),
}
"""Where a part of an address is found, and what its pages differ by: there is one page for each."""
KINDS_SHOWN = 4


class Served(NamedTuple):
    """A service, and the pages that it has."""

    address: str
    paths: list[str]
    one_of_each: list[str]
    """One page of each route alone."""


def routes(database_url: str) -> list[str]:
    """Every address of the application outside the API, with its parts in braces."""
    app = create_app(Settings(database_url=database_url, background=False))
    calls = [call.removeprefix("GET ") for call in app.state.permissions if call.startswith("GET ")]
    return [path for path in calls if not path.startswith(("/api/", "/assets/", "/live"))]


def pages_of(database_url: str, kinds: int = KINDS_SHOWN) -> list[str]:
    """The addresses of pages that a database has something for."""
    database = Database(database_url)
    with database.reading() as session:
        paths = [one for route in routes(database_url) for one in _filled(session, route, kinds)]
    database.close()
    return paths


def _filled(session: Session, route: str, kinds: int) -> list[str]:
    names = re.findall(r"\{(\w+(?::path)?)\}", route)
    assert len(names) <= 1, f"say here how {route} is filled in"
    if not names:
        return [route]
    found, kind = THINGS[names[0]]
    rows = session.scalars(select(func.max(found)).group_by(kind).order_by(kind).limit(kinds))
    return [route.replace(f"{{{names[0]}}}", one) for one in rows.all()]


@pytest.fixture(scope="module", params=["empty", "lived_in", "seeded"])
def served(
    request: pytest.FixtureRequest, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A service on each kind of database."""
    folder, further = tmp_path_factory.mktemp(request.param), ["/nowhere"]
    file = folder / "throughline.sqlite3"
    if request.param == "seeded":
        seeded: Seeded = request.getfixturevalue("seeded")
        shutil.copyfile(seeded.path, file)
        further += in_use(seeded)
    else:
        shutil.copyfile(sqlite_template, file)
    url = f"sqlite:///{file}"
    if request.param == "lived_in":
        lived_in.live(url, folder)
    pages = ["/"] if request.param == "seeded" else pages_of(url)
    for address in serving(url):
        yield Served(address, [*pages, *further], [*pages_of(url, 1), "/nowhere"])


def in_use(seeded: Seeded) -> list[str]:
    """Pages with something chosen, and those of results with all that a result can have."""
    slower = PLANS[9].case.key
    sides = f"baseline={seeded.ids['before:' + slower]}&contender={seeded.ids['latest:' + slower]}"
    return [
        "/cases?text=nothing-is-called-so",
        "/explore?workload=nanogpt",
        f"/compare/modules?{sides}",
        f"/compare/kernels?{sides}",
        *(f"/runs/{seeded.ids[name]}" for name in ("noisy", "oom", "hostile", f"latest:{slower}")),
    ]


@pytest.fixture
def address(served: Served) -> str:
    """The address of the service that is looked at."""
    return served.address


@pytest.mark.slow
def test_axe_finds_nothing_on_any_page(new_page: NewPage, served: Served) -> None:
    assert broken(new_page, served.paths, in_the_dark=True) == {}


@pytest.mark.parametrize("served", ["lived_in"], indirect=True)
def test_axe_finds_nothing_on_one_page_of_each_kind(new_page: NewPage, served: Served) -> None:
    assert len(served.one_of_each) > 20
    assert broken(new_page, served.one_of_each, in_the_dark=False) == {}


def broken(new_page: NewPage, paths: list[str], *, in_the_dark: bool) -> dict[str, list[str]]:
    """The rules that some page breaks, with what breaks them."""
    page = new_page(may_fail=True)  # Chromium calls every 404 an error
    looked, found = set(), {}
    for path in paths:
        answer = page.request.get(path)
        assert answer.status < 500, path
        if not answer.text().startswith("<!doctype html>"):
            continue
        looked.add(path)
        page.emulate_media(color_scheme="light")
        opened(page, path)
        page.evaluate(Axe().axe_script)
        found |= {f"{path} light {rule}": nodes for rule, nodes in violations(page, BROKEN)}
        if in_the_dark:
            page.emulate_media(color_scheme="dark")
            found |= {f"{path} dark {rule}": nodes for rule, nodes in violations(page, CONTRAST)}
    assert looked >= {"/", "/nowhere"}
    return found


def violations(page: Page, options: dict[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Each broken rule, with some of what breaks it; axe is in the page."""
    for one in page.evaluate("options => axe.run(options)", options)["violations"]:
        yield one["id"], sorted({str(node["html"])[:200] for node in one["nodes"]})[:5]
