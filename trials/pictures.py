"""Take the README's picture of a finding, as ``throughline demo`` shows it.

    python -m trials.pictures docs/images/finding.png

The demo's numbers are simulated and seeded, so the finding is the same each time.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

SIZE = {"width": 1180, "height": 1060}
DRAWN_S = 20.0
"""Longest wait for a chart."""


def main() -> None:
    """Start the demo, take the picture, and end it."""
    began_s = time.monotonic()
    words = [sys.executable, "-m", "cli", "demo"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        assert demo.stdout is not None
        address = next(filter(None, (re.search(r"http://\S+", line) for line in demo.stdout)))
        print(f"The demo answers after {time.monotonic() - began_s:.1f} s.")
        try:
            _take(address.group(), Path(sys.argv[1]))
        finally:
            demo.send_signal(signal.SIGINT)


def _take(address: str, path: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("THROUGHLINE_CHROMIUM") or shutil.which("chromium"),
            args=["--no-sandbox"],
        )
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        _open_regression(page, address)
        page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=DRAWN_S * 1000)
        page.screenshot(path=path)


def _open_regression(page: Page, address: str) -> None:
    page.goto(f"{address}findings")
    page.locator("#main a", has_text="slower since").filter(has_text="bf16").first.click()


if __name__ == "__main__":
    main()
