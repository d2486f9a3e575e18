"""Pages work under their policy, and what does not stand in our files does not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.history_plans import PLANS
from builders.polling import wait_until
from builders.seeded import Seeded
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
PAGES = ["/", "/findings", "/jobs", "/explore?workload=unet", "/compare", "/workers", "/nowhere"]
WATCH = """
  window.violations = [];
  document.addEventListener("securitypolicyviolation",
    (event) => violations.push(event.effectiveDirective + " " + event.blockedURI));
"""


@pytest.fixture
def watched(new_page: NewPage) -> Page:
    page = new_page()
    page.add_init_script(WATCH)
    return page


def violations(page: Page) -> Any:
    return page.evaluate("violations")


@pytest.fixture(scope="session")
def run(seeded: Seeded) -> str:
    return f"/runs/{seeded.ids['latest:' + PLANS[5].case.key]}"


def test_charts_are_drawn_styled_and_saved_as_a_picture_within_the_policy(
    watched: Page, run: str, tmp_path: Path
) -> None:
    watched.goto(f"{run}#memory")
    memory = watched.locator("section", has=watched.locator("#memory"))
    expect(memory.locator(".main-svg").first).to_be_visible()
    memory.locator(".plot").hover()
    bar = memory.locator(".modebar")
    # One of the rules that plotly.js adds: without them its toolbar stands in the chart's way.
    assert bar.evaluate("(one) => getComputedStyle(one).position") == "absolute"
    with watched.expect_download() as saved:
        bar.locator("[data-title*='ownload plot']").click()
    saved.value.save_as(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert violations(watched) == []


@pytest.mark.parametrize("path", PAGES)
def test_a_page_stays_within_its_policy(new_page: NewPage, path: str) -> None:
    page = new_page(may_fail=path == "/nowhere")  # Chromium calls every 404 an error
    page.add_init_script(WATCH)
    page.goto(path)
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Theme").click()
    assert violations(page) == []


ADD = """
  const add = (tag, change) => {
    const one = document.createElement(tag);
    change(one);
    document.body.append(one);
    return one;
  };
"""
INTRUDERS = {
    "script-src-elem": "add('script', (one) => one.textContent = 'ran = true')",
    "script-src-attr": "add('div', (one) => one.setAttribute('onclick', 'ran = true')).click()",
    "style-src-elem": "add('style', (one) => one.textContent = 'body { display: none }')",
    "style-src-attr": "add('div', (one) => one.setAttribute('style', 'position: fixed'))",
    "img-src": "add('img', (one) => one.src = 'https://evil.example/x.png')",
    "connect-src": "fetch('https://evil.example/').catch(() => {})",
    "frame-src": "add('iframe', (one) => one.src = 'https://evil.example/')",
    "base-uri": "add('base', (one) => one.href = 'https://evil.example/')",
    "form-action": "add('form', (one) => one.action = 'https://evil.example/').submit()",
}


@pytest.mark.parametrize("directive", INTRUDERS)
def test_what_is_none_of_ours_is_kept_from_running_loading_and_leaving(
    new_page: NewPage, directive: str
) -> None:
    page = new_page(may_fail=True)
    page.add_init_script(WATCH)
    page.goto("/workers")
    page.evaluate(f"() => {{ {ADD} {INTRUDERS[directive]}; }}")
    wait_until(page, "violations.length > 0")
    assert violations(page)[0].startswith(directive)
    assert page.evaluate("typeof ran") == "undefined"
