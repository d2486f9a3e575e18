"""Writes every stored result of a service as one JSON document a line, oldest first.

``python trials/stored_results.py http://127.0.0.1:8765 > results.jsonl``
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any


def get(url: str) -> dict[str, Any]:
    """The JSON object that ``url`` answers with."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        document: dict[str, Any] = json.load(answer)
        return document


def summaries(service: str) -> Iterator[dict[str, Any]]:
    """Every result's summary, page by page."""
    return listed(f"{service}/api/v1/results")


def listed(url: str) -> Iterator[dict[str, Any]]:
    """Everything that ``url`` lists, page by page."""
    cursor = ""
    while True:
        page = get(f"{url}?limit=100" + (f"&cursor={cursor}" if cursor else ""))
        yield from page["items"]
        cursor = page.get("next_cursor") or ""
        if not cursor:
            return


UNFINISHED = ("queued", "leased", "running")


def unfinished(service: str) -> int:
    """Count the jobs that are queued or at work."""
    urls = (f"{service}/api/v1/jobs?state={one}&limit=100" for one in UNFINISHED)
    return sum(len(get(url)["items"]) for url in urls)


def main(service: str) -> None:
    """Print them in the order in which they were measured."""
    ordered = sorted(summaries(service), key=lambda summary: str(summary["measured_at"]))
    for summary in ordered:
        print(json.dumps(get(f"{service}/api/v1/results/{summary['id']}")))


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"))
