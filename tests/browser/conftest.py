"""A real server in a thread, and a real Chromium that looks at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.seeded import Seeded, seed
from builders.serving import serving
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from service.database.session import Database

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
NewPage = Callable[..., Page]


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; its absence fails the test, for a skipped browser hides bugs."""
    wanted = os.environ.get("THROUGHLINE_CHROMIUM")
    found = [path for name in ((wanted,) if wanted else NAMES) if (path := shutil.which(name))]
    if not found:
        pytest.fail(
            "No Chromium was found: install it (apt-get install --no-install-recommends "
            "chromium-headless-shell) or set THROUGHLINE_CHROMIUM to its path.",
            pytrace=False,
        )
    return found[0]


@pytest.fixture(scope="session")
def seeded(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    """The whole history of forty revisions."""
    path = tmp_path_factory.mktemp("browser") / "history.sqlite3"
    shutil.copyfile(sqlite_template, path)
    return seed(path, revisions=40)


@pytest.fixture(scope="module")
def database(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database of a module's own, to be filled before it is served."""
    path = tmp_path_factory.mktemp("served") / "throughline.sqlite3"
    shutil.copyfile(sqlite_template, path)
    found = Database(f"sqlite:///{path}")
    yield found
    found.close()


@pytest.fixture(scope="session")
def address(seeded: Seeded) -> Iterator[str]:
    """The address of a running service on the seeded database."""
    yield from serving(f"sqlite:///{seeded.path}")


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for a file of tests; while it runs, this thread has an event loop that runs, and
    tests elsewhere that want one of their own could not have it.
    """
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield running
        running.close()


@pytest.fixture
def new_page(browser: Browser, address: str) -> Iterator[NewPage]:
    """Make pages with a window of their own; afterwards nothing may have gone wrong in them.

    No error on the console, no exception, and no request to any other host; a page that
    ``may_fail`` is not watched.
    """
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def make(
        width: int = 1280, height: int = 800, *, may_fail: bool = False, **options: object
    ) -> Page:
        viewport = {"width": width, "height": height}
        context = browser.new_context(base_url=address, viewport=viewport, **options)  # type: ignore[arg-type]
        contexts.append(context)
        context.set_default_timeout(15_000)
        page = context.new_page()
        if may_fail:
            return page
        page.on("pageerror", lambda error: faults.append(f"exception: {error}"))
        page.on("console", lambda told: _analyse(told.type, told.text, faults))
        page.on("request", lambda request: _leaving(request.url, address, faults))
        return page

    yield make
    for context in contexts:
        context.close()
    assert faults == []


def _analyse(kind: str, text: str, faults: list[str]) -> None:
    if kind in {"error", "warning"}:
        faults.append(f"console {kind}: {text}")


def _leaving(url: str, address: str, faults: list[str]) -> None:
    if not url.startswith((address + "/", "data:", "blob:")):
        faults.append(f"a request left the server: {url}")


@pytest.fixture
def page(new_page: NewPage) -> Page:
    """A page as on a desk, in the light."""
    return new_page(color_scheme="light")
