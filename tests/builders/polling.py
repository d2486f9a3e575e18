"""Waits for a page in a browser, whose policy lets playwright's own waiting run no code in it."""

from __future__ import annotations

import time

from playwright.sync_api import Page, expect

PATIENCE_S = 15.0


def wait_until(page: Page, expression: str) -> None:
    """Ask the page over and over, from outside, until ``expression`` holds; fail after 15 s."""
    deadline = time.monotonic() + PATIENCE_S
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"does not become true: {expression}"
        page.wait_for_timeout(50)


def opened(page: Page, path: str) -> None:
    """Go to ``path`` and through its tabs; returns when all charts were seen and are drawn."""
    page.goto(path)
    see_charts(page)
    for tab in page.locator("[data-tabs] > details > summary").all():
        tab.click()
        see_charts(page)
    expect(page.locator("[data-chart]:not([data-drawn])")).to_have_count(0)


def see_charts(page: Page) -> None:
    """Scroll to each chart that can be seen: it is drawn then."""
    for chart in page.locator("[data-chart]:visible").all():
        chart.scroll_into_view_if_needed()
        expect(chart).to_have_attribute("data-drawn", "yes")
