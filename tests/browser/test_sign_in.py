"""Signing in, acting and signing out in a real browser."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import long_series as long
from builders.served import Served, serving
from playwright.sync_api import Page, expect

from benchmarks.contracts import Worker
from service.auth import local_token, token_store
from service.auth.access_mode import Asked
from service.auth.token_store import TokenRequest
from service.database.session import now_of
from service.jobs import workers
from service.schemas.access import TokenKind
from service.settings import Access

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]


@pytest.fixture(scope="module")
def served(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a short history that asks for tokens."""
    folder = tmp_path_factory.mktemp("sign-in")
    shutil.copyfile(sqlite_template, folder / "db.sqlite3")
    url = f"sqlite:///{folder}/db.sqlite3"
    with serving(url, access=Access.TOKENS, state_dir=folder) as found:
        with found.app.state.database.writing() as session:
            long.prepare(session)
            long.add(session, {number: 100.0 + number % 3 for number in range(5)})
        yield found


@pytest.fixture(scope="module")
def address(served: Served) -> str:
    """That service, in place of the one that other tests look at."""
    return f"http://127.0.0.1:{served.port}"


def link(served: Served) -> str:
    """A link that signs in once, as the command line prints it."""
    settings = served.app.state.settings
    path = local_token.link(served.app.state.database, settings)
    return f"http://127.0.0.1:{served.port}{path}"


def token(served: Served, kind: TokenKind) -> str:
    with served.app.state.database.writing() as session:
        wanted = TokenRequest(kind=kind, name="ada")
        return token_store.create(
            session, served.app.state.authenticator.key, wanted, now_of(session), None
        ).token


def sign_in(page: Page, shown: str) -> None:
    page.get_by_label("Token").fill(shown)
    page.get_by_role("button", name="Sign in").click()


def test_who_signs_in_goes_on_where_he_was_acts_and_signs_out(
    new_page: NewPage, served: Served
) -> None:
    page = new_page(may_fail=True)  # a page that wants a token is a 401, which the console tells
    page.goto(f"/runs/{long.result_of(3)}")
    sign_in(page, "tl_read_mistyped")
    expect(page.get_by_role("alert")).to_contain_text("checksum")
    sign_in(page, token(served, TokenKind.ADMIN))
    page.get_by_text("Attempts", exact=True).click()
    page.get_by_label("Reason").fill("the rack was open")
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Exclude from its histories").click()
    expect(page.get_by_role("region", name="Exclusion")).to_contain_text("the rack was open")
    page.get_by_role("button", name="Put back").click()
    expect(page.get_by_role("button", name="Exclude from its histories")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_link_signs_in_once_and_nobody_who_only_looks_uses_it_up(
    new_page: NewPage, served: Served
) -> None:
    page = new_page(may_fail=True)
    opened = link(served)
    for _ in range(2):  # a program that shows what is behind a link opens it, too
        page.goto(opened)
        expect(page.get_by_text("nothing has happened yet")).to_be_visible()
    enter(page)
    expect(page).to_have_url(f"http://127.0.0.1:{served.port}/")
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    other = new_page(may_fail=True)
    other.goto(opened)
    other.get_by_role("button", name="Sign in").click()
    expect(other.get_by_role("alert")).to_contain_text("not good any more")
    expect(other.get_by_label("Token")).to_be_visible()


def test_on_its_own_machine_anybody_reads_and_who_signs_in_acts(
    new_page: NewPage, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.app.state.authenticator, "_asked", Asked.CHANGES)
    monkeypatch.setattr("service.auth.authenticate._LOOK_S", math.inf)
    page = new_page(may_fail=True)
    path = f"/runs/{long.result_of(4)}"
    page.goto(path)
    expect(page.get_by_role("button", name="Exclude from its histories")).to_have_count(0)
    page.get_by_role("link", name="Sign in").click()
    sign_in(page, token(served, TokenKind.ADMIN))
    expect(page).to_have_url(f"http://127.0.0.1:{served.port}{path}")
    page.get_by_text("Attempts", exact=True).click()
    page.get_by_label("Reason").fill("the rack was open")
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Exclude from its histories").click()
    expect(page.get_by_role("region", name="Exclusion")).to_contain_text("the rack was open")
    page.get_by_role("button", name="Put back").click()
    expect(page.get_by_role("button", name="Exclude from its histories")).to_be_visible()


def test_who_was_signed_out_elsewhere_is_told_so_and_led_to_the_form(
    new_page: NewPage, served: Served
) -> None:
    page = new_page(may_fail=True)
    path = f"/runs/{long.result_of(1)}"
    page.goto(path)
    sign_in(page, token(served, TokenKind.ADMIN))
    page.get_by_text("Attempts", exact=True).click()
    page.get_by_label("Reason").fill("the rack was open")
    page.get_by_label("Your name").fill("ada")
    page.context.clear_cookies()  # as signing out in another tab does
    page.get_by_role("button", name="Exclude from its histories").click()
    expect(page.get_by_text("You are signed out; nothing was changed.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("the rack was open")
    page.get_by_role("link", name="Sign in again").click()
    sign_in(page, token(served, TokenKind.ADMIN))
    expect(page).to_have_url(f"http://127.0.0.1:{served.port}{path}")


def test_a_token_is_made_on_its_page_shown_once_and_revoked(
    new_page: NewPage, served: Served
) -> None:
    page = new_page(may_fail=True)
    page.goto("/tokens")
    sign_in(page, token(served, TokenKind.ADMIN))
    page.get_by_role("textbox", name="Name").fill("laptop")
    page.get_by_role("combobox", name="Project").fill("vision")
    page.get_by_role("combobox", name="Kind").select_option("admin")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_role("alert")).to_contain_text("is for all projects")
    page.get_by_role("combobox", name="Kind").select_option("submit")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_text("never shown again")).to_be_visible()
    secret = page.locator("#secret").inner_text()
    assert secret.startswith("tl_submit_")
    page.get_by_role("link", name="Done").click()
    made = page.get_by_role("row", name="laptop")
    expect(made).to_contain_text("vision")
    assert secret not in page.content()
    page.go_back()
    expect(page.get_by_text("never shown again")).to_be_hidden()
    assert secret not in page.content()
    other = new_page(may_fail=True)
    other.goto("/")
    sign_in(other, secret)
    expect(other.get_by_role("button", name="Sign out")).to_be_visible()
    made.get_by_text("Revoke", exact=True).click()
    made.get_by_role("button", name="Revoke it").click()
    expect(made).to_contain_text("revoked")
    other.reload()
    expect(other.get_by_role("button", name="Sign in")).to_be_visible()


def test_who_may_only_read_is_offered_nothing_else(new_page: NewPage, served: Served) -> None:
    page = new_page(may_fail=True)
    page.goto(f"/runs/{long.result_of(2)}")
    sign_in(page, token(served, TokenKind.READ))
    page.get_by_text("Attempts", exact=True).click()
    expect(page.get_by_role("heading", name="Attempts of its job")).to_be_visible()
    expect(page.get_by_role("button", name="Exclude from its histories")).to_have_count(0)


def test_a_page_whose_session_ended_asks_to_sign_in_again(
    new_page: NewPage, served: Served
) -> None:
    page = new_page(may_fail=True)
    page.clock.install()
    page.goto("/jobs?state=succeeded")
    with served.app.state.database.writing() as session:
        wanted = TokenRequest(kind=TokenKind.READ, name="wall")
        created = token_store.create(
            session, served.app.state.authenticator.key, wanted, now_of(session), None
        )
    sign_in(page, created.token)
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    with served.app.state.database.writing() as session:
        token_store.revoke(session, created.id, now_of(session))
    # Nothing runs, so the page asks when somebody comes back to it.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=15_000)
    asked: list[str] = []  # a browser asks for the icon when it likes
    page.on(
        "request", lambda request: None if "/assets/" in request.url else asked.append(request.url)
    )
    page.clock.fast_forward(6_000)
    page.wait_for_timeout(500)
    assert asked == []
    sign_in(page, token(served, TokenKind.READ))
    expect(page).to_have_url(f"http://127.0.0.1:{served.port}/jobs?state=succeeded")


def enter(page: Page) -> None:
    """Press Enter on a link's page, once its button has the focus: it gets it with a frame."""
    expect(page.get_by_role("button", name="Sign in")).to_be_focused()
    page.keyboard.press("Enter")


def signed_in(new_page: NewPage, served: Served) -> Page:
    page = new_page()
    page.goto(link(served))
    enter(page)
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    return page


MIDDLES = """all => all.map((one) => one.getBoundingClientRect())
  .map((place) => (place.top + place.bottom) / 2)"""


def test_the_bar_is_one_line_for_whoever_is_signed_in(new_page: NewPage, served: Served) -> None:
    page = signed_in(new_page, served)
    apart: dict[int, float] = {}
    for width in (1280, 1152, 1024, 993):
        page.set_viewport_size({"width": width, "height": 800})
        middles = page.locator(".bar > div > *:visible").evaluate_all(MIDDLES)
        apart[width] = max(middles) - min(middles)
    assert max(apart.values()) < 5, apart
    expect(page.get_by_role("button", name="Theme: System")).to_be_visible()
    expect(page.get_by_role("link", name="Throughline", exact=True)).to_be_visible()


def test_whoever_is_signed_in_drains_a_worker_with_one_field(
    new_page: NewPage, served: Served
) -> None:
    with served.app.state.database.writing() as session:
        workers.introduce(session, Worker(name="gpu-a"), now_of(session))
    page = signed_in(new_page, served)
    page.goto("/workers")
    row = page.get_by_role("row", name="gpu-a")
    row.get_by_text("Drain", exact=True).click()
    expect(row.get_by_role("textbox")).to_have_count(1)
    row.get_by_label("Reason").fill("fan broken")
    with served.app.state.database.writing() as session:
        workers.introduce(session, Worker(name="gpu-b"), now_of(session))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # the list is renewed
    other = page.get_by_role("row", name="gpu-b")
    other.get_by_text("Drain", exact=True).click()
    expect(other.get_by_role("button")).to_be_enabled()
    row.get_by_role("button").click()
    expect(row).to_contain_text(re.compile("drained by .+, just now: fan broken"))
    row.get_by_role("button", name="Resume").click()
    expect(row.get_by_text("Drain", exact=True)).to_be_visible()


def test_whoever_is_signed_in_annotates_a_revision_with_one_field(
    new_page: NewPage, served: Served
) -> None:
    page = signed_in(new_page, served)
    page.goto(f"/series/{long.SERIES}")
    page.get_by_label("What happened").fill("new data loader")
    page.get_by_label("At revision").select_option(long.revision_of(2))
    page.get_by_role("button", name="Annotate").click()
    row = page.get_by_role("row", name="new data loader")
    expect(row).to_contain_text(long.revision_of(2))
    page.locator(".plot .annotation", has_text="✎1").hover()
    expect(page.locator(".plot .hoverlayer")).to_contain_text("new data loader")
    row.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("row", name="new data loader")).to_have_count(0)
