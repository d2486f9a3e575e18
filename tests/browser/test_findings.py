"""Findings in a real browser: people act on them, and are told when somebody was faster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from builders import analysed as builder
from builders import long_series as long
from builders.analysed import Analysed
from builders.bisected import end_at
from builders.polling import opened
from builders.serving import serving
from playwright.sync_api import Locator, Page, expect

from service import findings
from service.database.session import Database, now_of
from service.models import WorkerRow

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]


@pytest.fixture(scope="module")
def analysed(database: Database) -> Analysed:
    return builder.analyse(database)


@pytest.fixture(scope="module")
def address(database: Database, analysed: Analysed) -> Iterator[str]:
    """A service on the analysed history, in place of the one that other tests look at."""
    yield from serving(database.url.render_as_string())


@pytest.fixture
def finding(database: Database, analysed: Analysed) -> str:
    """The address of a finding that is open."""
    builder.reopen(database, analysed.regression)
    return f"/findings/{analysed.regression}"


def middle(part: Locator) -> tuple[float, float]:
    box = part.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_finding_is_acknowledged_by_keyboard_and_the_name_is_remembered(
    page: Page, finding: str
) -> None:
    page.goto(finding)
    page.get_by_role("textbox", name="Why").focus()
    page.keyboard.type("I look at it")
    page.keyboard.press("Tab")
    page.keyboard.type("ada lovelace")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Acknowledge")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator(".figures .state")).to_have_text(re.compile("acknowledged"))
    expect(page.locator(".events li").first).to_contain_text("ada lovelace acknowledged it")
    expect(page.locator(".events li").first).to_contain_text("I look at it")
    expect(page.get_by_label("Your name").first).to_have_value("ada lovelace")
    expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)
    page.get_by_role("button", name="Reopen").click()
    expect(page.locator(".figures .state")).to_have_text(re.compile("open"))


def test_an_expected_change_leaves_the_inbox(page: Page, finding: str) -> None:
    page.goto("/findings")
    row = page.locator(f"#{finding.strip('/').replace('findings/', 'finding-')}")
    expect(page.locator("section:has(#attention)").locator(row)).to_have_count(1)
    row.get_by_role("link").first.click()
    page.get_by_role("textbox", name="Why").fill("a bigger model")
    page.get_by_label("Your name").first.fill("ada")
    page.get_by_role("button", name="Expected: new baseline").click()
    expect(page.locator(".figures .state")).to_have_text(re.compile("expected"))
    expect(page.locator("button[name=action]")).to_have_text(["Reopen"])
    page.goto("/findings")
    expect(page.locator("section:has(#attention)").locator(row)).to_have_count(0)
    expect(page.locator("section:has(#closed)").locator(row)).to_have_count(1)


def test_who_was_slower_is_told_and_changes_nothing(new_page: NewPage, finding: str) -> None:
    slow = new_page(may_fail=True)  # the browser itself writes a 409 to the console
    slow.goto(finding)
    fast = new_page()
    fast.goto(finding)
    fast.get_by_label("Your name").first.fill("bob")
    fast.get_by_role("button", name="Acknowledge").click()
    expect(fast.locator(".figures .state")).to_have_text(re.compile("acknowledged"))
    slow.get_by_role("textbox", name="Why").fill("a cable")
    slow.get_by_label("Your name").first.fill("ada")
    slow.get_by_role("button", name="Withdraw").click()
    alert = slow.get_by_role("alert").first
    expect(alert).to_contain_text("Somebody has changed this finding since")
    expect(slow.get_by_role("textbox", name="Why")).to_have_value("a cable")
    alert.get_by_role("link").click()
    expect(slow.locator(".events li").first).to_contain_text("bob acknowledged it")
    expect(slow.locator(".figures .state")).to_have_text(re.compile("acknowledged"))


def test_what_people_write_is_kept_as_they_wrote_it(new_page: NewPage, finding: str) -> None:
    page = new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto(finding)
    words = 'two\nlines </textarea><script>alert("x")</script><img src=x onerror=alert(1)>'
    page.get_by_label("Owner").fill("bob")
    page.get_by_label("Due").fill("2026-01-02")
    page.get_by_role("textbox", name="Note").fill(words)
    page.get_by_label("Your name").nth(1).fill("ada")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".events li").first).to_contain_text("owner: bob; note: two")
    expect(page.get_by_role("textbox", name="Note")).to_have_value(words)
    expect(page.locator(".figures")).to_contain_text("overdue")
    page.get_by_label("Due").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".figures")).to_contain_text("no due date")
    expect(page.locator(".figures")).to_contain_text("bob")


def test_a_finding_is_bisected_by_a_click(
    page: Page, database: Database, analysed: Analysed, finding: str
) -> None:
    ends = ("1" * 40, "2" * 40)
    end_at(database, *ends)
    with database.writing() as session:
        row = session.get_one(WorkerRow, "w")
        row.targets, row.revisions, row.last_seen_at = {"ours": ""}, list(ends), now_of(session)
    page.goto(finding)
    page.get_by_role("button", name="Bisect").click()
    waits = "Bisection: It begins once a worker has listed the commits between the ends."
    expect(page.get_by_label("Bisection")).to_contain_text(waits)
    expect(page.get_by_role("button", name="Bisect")).to_have_count(0)
    page.get_by_role("link", name="Bisection").click()
    expect(page.locator("#outcome")).to_have_text("Listing commits")


def test_a_result_is_excluded_with_a_reason_and_put_back(page: Page) -> None:
    run = f"/runs/{long.result_of(33)}"
    page.goto(f"{run}#exclusion")
    page.get_by_label("Reason").fill("the rack was open")
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Exclude from its histories").click()
    expect(page.get_by_role("region", name="Exclusion")).to_contain_text("the rack was open")
    page.get_by_role("button", name="Put back").click()
    expect(page.get_by_role("button", name="Exclude from its histories")).to_be_visible()
    expect(page.locator(".events li").first).to_contain_text("ada put it back")


def test_charts_show_levels_and_lead_from_a_change_to_its_finding(page: Page, finding: str) -> None:
    page.goto(finding)
    expect(page.locator("[data-chart][data-drawn]")).to_have_count(1)
    expect(page.locator(".plot .annotation")).to_have_count(1)
    page.goto(f"/series/{long.SERIES}")
    expect(page.locator("[data-chart][data-drawn]")).to_have_count(1)
    expect(page.locator(".plot .shapelayer path")).to_have_count(3)
    page.mouse.move(*middle(page.locator(".plot .scatterlayer .trace").last.locator(".point")))
    expect(page.locator(".plot .hoverlayer")).to_contain_text("excluded: fan broken <script>")
    page.mouse.click(*middle(page.locator(".plot .annotation-text")))
    page.wait_for_url(f"**{finding}")


def test_nothing_scrolls_sideways_on_a_phone_and_nothing_runs(
    new_page: NewPage, analysed: Analysed, finding: str
) -> None:
    page = new_page(width=360, height=740, has_touch=True, is_mobile=True, color_scheme="dark")
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    pages = ("/findings", finding, f"/findings/{analysed.node}", f"/runs/{builder.EXCLUDED}")
    for path in (*pages, f"/series/{long.SERIES}", "/"):
        opened(page, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path


def test_findings_are_chosen_by_keyboard_and_closed_together(page: Page, finding: str) -> None:
    page.goto("/findings")
    boxes = page.locator("section:has(#attention) .pick input")
    before = boxes.count()
    assert before >= 2
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.get_by_text("2 chosen")).to_be_visible()
    page.keyboard.press("k")
    expect(boxes.first).to_be_focused()
    page.get_by_label("Action").select_option("resolve")
    page.get_by_label("Why").fill("rolled back")
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Record").click()
    expect(boxes).to_have_count(before - 2)
    page.goto(finding)
    expect(page.locator(".events li").first).to_contain_text("rolled back")


@pytest.fixture
def two(database: Database, analysed: Analysed, finding: str) -> Analysed:
    """Two findings that ask for attention."""
    builder.reopen(database, analysed.node)
    return analysed


def test_enter_opens_the_finding_that_the_keyboard_is_at(page: Page, two: Analysed) -> None:
    page.goto("/findings")
    page.keyboard.press("j")
    page.keyboard.press("j")
    links = page.locator("section:has(#attention) tbody th a")
    second = links.nth(1).get_attribute("href")
    assert second in (f"/findings/{two.node}", f"/findings/{two.regression}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{second}")


def test_what_is_chosen_follows_the_list(page: Page, database: Database, two: Analysed) -> None:
    page.goto("/findings")
    for each in (two.node, two.regression):
        page.locator(f"#pick-{each}").check()
    expect(page.get_by_text("2 chosen")).to_be_visible()
    page.evaluate(
        """id => {
          document.querySelector(`tr:has(#pick-${id})`).hidden = true;
          document.body.insertAdjacentHTML("beforeend", "<label class=narrow><input></label>");
          const typed = new Event("input", { bubbles: true });
          document.querySelector("body > .narrow input").dispatchEvent(typed);
        }""",
        two.node,
    )
    expect(page.get_by_text("2 chosen, 1 of them hidden by the filter")).to_be_visible()
    with database.writing() as session:
        now = now_of(session)
        findings.act(session, two.node, "resolve", "bob", now)
        findings.plan(session, two.regression, findings.Plan(owner="bob"), "bob", now)
    live = "{source: '#live', target: '#live', swap: 'outerMorph'}"
    page.evaluate(f"htmx.ajax('GET', location.href, {live}).then(() => {{}})")
    expect(page.get_by_text("1 chosen")).to_be_visible()
    page.get_by_label("Action").select_option("resolve")
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Record").click()
    expect(page.locator(f"#pick-{two.regression}")).to_have_count(0)


def test_what_was_refused_can_be_repeated(
    new_page: NewPage, database: Database, two: Analysed
) -> None:
    page = new_page(may_fail=True)  # the browser itself writes a 409 to the console
    page.goto("/findings")
    page.locator(f"#pick-{two.regression}").check()
    with database.writing() as session:
        plan = findings.Plan(owner="carol")
        findings.plan(session, two.regression, plan, "bob", now_of(session))
    page.get_by_label("Action").select_option("resolve")
    page.get_by_label("Your name").fill("ada")
    page.get_by_role("button", name="Record").click()
    expect(page.get_by_text("1 refused")).to_be_visible()
    expect(page.locator(f"#finding-{two.regression}")).to_contain_text("carol")
    page.get_by_role("button", name="Record").click()
    expect(page.locator(f"#pick-{two.regression}")).to_have_count(0)
