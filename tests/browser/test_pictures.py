"""The pictures of README and docs: pages of seeded histories, and of rows in benchmarks/results.

``WRITE_PICTURES=1 pytest tests/browser/test_pictures.py`` takes them into docs/images. Otherwise
their pages are opened alone, but for that of the demo, which tests/cli/test_demo.py opens.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from builders import history, pictured
from builders.long_forms import long_but
from builders.seeded import Seeded
from builders.serving import serving
from playwright.sync_api import Browser, Page, expect

from cli.demo import fill as demo
from service.database.session import Database
from trials import trace_picture

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WRITES = bool(os.environ.get("WRITE_PICTURES"))
SLOWER = history.PLANS[9].case.key
KERNELS = "/cases?workload=wordmodel.bench%3Abuild&text=bf16"
ELSEWHERE = {"comments.png"}
"""Drawn by GitHub, of comments that were posted there."""


@dataclass(frozen=True)
class Picture:
    """The page, and the part of it, that a picture shows."""

    page: str
    """Its path, or the name of a run of `builders.pictured`, or what draws it."""
    shown: str
    """The heading of its section, or ``#main``; empty: all that a window of its size shows."""
    size: tuple[int, int]
    """Width and height in pixels, at a width of 1,216 of the window."""
    theme: Literal["light", "dark"] = "light"


PICTURES = {
    "doctor": Picture("/workers/node-7", "", (1216, 560)),
    "efficiency": Picture("operations", "efficiency", (1156, 329)),
    "finding": Picture("the demo", "", (1180, 1060)),
    "input-bound": Picture(pictured.STARVED, "verdict", (566, 442)),
    "kernels": Picture("the history", "kernels", (1156, 299)),
    "long-parity": Picture("long-parity", "long-parity", (1156, 721)),
    "memory": Picture("memory", "memory", (1156, 1132)),
    "modules": Picture("modules", "modules", (1156, 657)),
    "operations": Picture("operations", "operations", (1156, 1482)),
    "own-kernel": Picture(KERNELS, "group-1", (1156, 268)),
    "sequence": Picture("the sweep", "", (900, 620)),
    "starved": Picture("the trace", "", (trace_picture.WIDTH, trace_picture.HEIGHT)),
    "waste": Picture("waste", "operations", (1156, 1638)),
}


@pytest.fixture(scope="module")
def runs(database: Database) -> dict[str, str]:
    with database.writing() as session:
        return pictured.fill(session)


@pytest.fixture(scope="module")
def measured(database: Database, runs: dict[str, str]) -> Iterator[str]:
    """The address of a service on what was measured."""
    yield from serving(database.url.render_as_string())


@pytest.fixture(scope="module")
def simulated(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the demo."""
    path = tmp_path_factory.mktemp("demo") / "demo.sqlite3"
    shutil.copyfile(sqlite_template, path)
    database = Database(f"sqlite:///{path}")
    demo.fill(database)
    database.close()
    yield from serving(f"sqlite:///{path}")


@pytest.fixture
def window(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    picture: Picture = request.getfixturevalue("picture")
    width, height = (1216, 900) if picture.shown else picture.size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=picture.theme
    )
    yield context.new_page()
    context.close()


def _open(page: Page, picture: Picture, request: pytest.FixtureRequest) -> None:
    match picture.page:
        case "the demo":
            page.goto(f"{request.getfixturevalue('simulated')}/findings")
            regressions = page.locator("#main a", has_text="slower since")
            regressions.filter(has_text="bf16").first.click()
        case "the history":
            seeded: Seeded = request.getfixturevalue("seeded")
            before, latest = (seeded.ids[f"{name}:{SLOWER}"] for name in ("before", "latest"))
            compared = f"compare/kernels?baseline={before}&contender={latest}"
            page.goto(f"{request.getfixturevalue('address')}/{compared}")
        case "the sweep":
            page.set_content(pictured.sweep())
        case "the trace":
            trace_picture.draw(page, [trace_picture.Bar(**row) for row in pictured.rows("starved")])
        case path if path.startswith("/"):
            page.goto(f"{request.getfixturevalue('measured')}{path}")
        case run:
            runs: dict[str, str] = request.getfixturevalue("runs")
            page.goto(f"{request.getfixturevalue('measured')}/runs/{runs[run]}#{picture.shown}")


SHOWN = {name: one for name, one in PICTURES.items() if WRITES or one.page != "the demo"}
FEW = (0, 4)
"""Other tests look at the same pages."""


@pytest.mark.parametrize(
    ("name", "picture"),
    long_but(SHOWN.items(), *(range(len(SHOWN)) if WRITES else FEW)),
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_picture_shows_a_page(
    window: Page, name: str, picture: Picture, request: pytest.FixtureRequest
) -> None:
    _open(window, picture, request)
    part = window.locator("body")
    if picture.shown:
        part = window.locator("section", has=window.locator(f"#{picture.shown}"))
    expect(part).to_be_visible()
    for plot in part.locator(".plot").all():
        plot.scroll_into_view_if_needed()
        expect(plot.locator(".main-svg").first).to_be_visible()
    if WRITES:
        window.evaluate("scrollTo(0, 0)")
        (part if picture.shown else window).screenshot(path=IMAGES / f"{name}.png")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_large_as_declared(name: str) -> None:
    head = (IMAGES / f"{name}.png").read_bytes()[:24]
    assert struct.unpack(">II", head[16:]) == PICTURES[name].size


def test_every_picture_is_declared_and_shown() -> None:
    there = {one.name for one in IMAGES.iterdir()}
    assert there == {f"{name}.png" for name in PICTURES} | ELSEWHERE
    own = [one for one in ROOT.iterdir() if one.is_dir() and not one.name.startswith(".")]
    texts = [one.read_text() for folder in own for one in folder.glob("**/*.md")]
    texts += [one.read_text() for one in ROOT.glob("*.md")]
    shown = {name for text in texts for name in re.findall(r"images/([\w.-]+)\)", text)}
    assert shown == there
