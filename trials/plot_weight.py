"""How heavy a page with a plot is: a real Chromium with an empty cache opens it.

``PYTHONPATH=. python -m trials.plot_weight FOLDER PATH... --label before --rows FILE`` serves the
history that ``trials.dashboard_pages make FOLDER`` has made, and opens each page some times. A page
is ready once its first chart is drawn; the page's thread is blocked by tasks of 50 ms and more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright

from trials.chaos.__main__ import machine
from trials.chaos.replica import Replica

TIMES = 7
WATCH = """(() => {
  window.blocked = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) window.blocked += one.duration;
  }).observe({ type: "longtask", buffered: true });
})()"""
READY = "() => document.querySelector('.plot .main-svg')"


def opened(browser: Browser, address: str) -> dict[str, float]:
    """Open a page in a window of its own; seconds and bytes."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    line = context.new_cdp_session(page)
    line.send("Network.enable")
    sizes: list[float] = []
    line.on("Network.loadingFinished", lambda told: sizes.append(told["encodedDataLength"]))
    page.add_init_script(WATCH)
    began_s = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_function(READY)
    ready_s = time.perf_counter() - began_s
    page.wait_for_load_state("networkidle")
    blocked_s = page.evaluate("() => window.blocked") / 1e3
    context.close()
    return {"ready_s": ready_s, "blocked_s": blocked_s, "transferred_b": sum(sizes)}


def main() -> None:
    """Open each page, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", nargs="+")
    parser.add_argument("--label", default="", help="what the rows are of")
    parser.add_argument("--rows", type=Path, help="append them to this file as well")
    asked = parser.parse_args()
    program = os.environ.get("THROUGHLINE_CHROMIUM") or shutil.which("chromium")
    url = f"sqlite:///{asked.folder}/nights.sqlite3"
    replica = Replica(url, asked.folder, STATE_DIR=str(asked.folder), BACKGROUND="false")
    rows = []
    try:
        replica.start()
        replica.wait()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            for path in asked.pages:
                address = f"http://127.0.0.1:{replica.port}{path}"
                times = [opened(browser, address) for _ in range(TIMES + 1)][1:]
                rows.append(
                    {"page": path, "of": asked.label}
                    | {name: round(median(one[name] for one in times), 3) for name in times[0]}
                    | {f"least_{name}": round(min(one[name] for one in times), 3)
                       for name in ("ready_s", "blocked_s")}
                    | {"times": TIMES}
                    | {"at": datetime.now(UTC).isoformat(timespec="seconds"), **machine()}
                )  # fmt: skip
            browser.close()
    finally:
        replica.kill()
    text = "".join(f"{json.dumps(row)}\n" for row in rows)
    print(text, end="")
    if asked.rows:
        with asked.rows.open("a", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
