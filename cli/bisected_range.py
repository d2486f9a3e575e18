"""Finds what to bisect: a range of this checkout, of versions, or the one of a finding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.contracts import MOST_COMMITS
from benchmarks.contracts.pins import pins_of
from cli import parse_case
from cli.client import ServiceClient, read
from cli.commit_range import with_good_end
from cli.exits import Stop
from cli.revision import Version, commit_named
from service.schemas.findings import FindingView

_RANGE = re.compile(r"[^.\s](?:(?!\.\.)\S)*\.\.(?:[^.\s](?:(?!\.\.)\S)*)?")


def subject_of(
    client: ServiceClient, what: str, words: Sequence[str], preset: str | None
) -> dict[str, Any]:
    """Read ``GOOD..BAD WORKLOAD [AXIS=VALUE]...``, or the id of a finding, as parts of a request.

    Raises:
        Stop: it is neither, or the checkout here does not have the commits.
    """
    if ".." not in what:
        if words or preset:
            raise Stop("A finding tells its case: leave workload and axes out, or name GOOD..BAD.")
        return {"finding": what} | _of_finding(client, what)
    if not _RANGE.fullmatch(what):
        raise Stop(f"{what} is no range: write GOOD..BAD, for the commits after GOOD up to BAD.")
    if not words:
        raise Stop(f"Name the case in which {what} is bisected, such as: bisect {what} unet.")
    chosen = parse_case.read(words[0], words[1:], preset)
    if chosen.case is None:
        raise Stop(f"{words[0]} is a suite, and one case is bisected: name a workload.")
    case = {"case": chosen.case.model_dump(mode="json")}
    good, _, bad = what.partition("..")
    if pins_of(good):
        return case | {"ends": {"good": good, "bad": bad}}
    versions = with_good_end(what, Path.cwd())
    return case | {"commits": _listed(versions)}


def _of_finding(client: ServiceClient, finding: str) -> dict[str, Any]:
    """The commits of a finding; nothing where its ends are not here, for a worker may list them."""
    summary = read(FindingView, client.text("findings", finding)).summary
    good, bad = summary.last_good, summary.first_bad
    if good is None:
        raise Stop("The finding has no last good revision, so it has no range to bisect.")
    if not (commit_named(good, Path.cwd()) and commit_named(bad, Path.cwd())):
        return {}
    versions = with_good_end(f"{good}..{bad}", Path.cwd())
    ends = replace(versions[0], revision=good), replace(versions[-1], revision=bad)
    return {"commits": _listed([ends[0], *versions[1:-1], ends[1]])}


def _listed(versions: Sequence[Version]) -> list[dict[str, str]]:
    """The commits as the service takes them, the good end first."""
    if len(versions) > MOST_COMMITS + 1:
        raise Stop(
            f"The range has {len(versions) - 1} commits, and {MOST_COMMITS} can be bisected: name "
            "a shorter one."
        )
    return [
        {"revision": one.revision, "author": one.author, "title": one.title} for one in versions
    ]
