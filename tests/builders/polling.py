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
    """Go to ``path``; returns when all that it loads is there and its charts are drawn."""
    page.goto(path)
    expect(page.locator("[data-chart]:not([data-drawn])")).to_have_count(0)
