"""Shows findings and acts on them."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich import box
from rich.table import Table

from cli import jobs
from cli.client import ServiceClient, read
from cli.exits import Stop
from cli.output import output_format
from cli.output.console import Console
from cli.output.lines import say
from cli.service_answers import FindingPage, FindingReport, FindingSummary, FindingView, MovedSeries
from service import formats


@dataclass(frozen=True)
class By:
    """The actor, and the version of the finding to act on, as they were typed."""

    actor: str | None
    version: int | None

    @property
    def told(self) -> dict[str, object]:
        """The same in a request."""
        said = {} if self.version is None else {"version": self.version}
        return {"actor": self.actor or _account(), **said}


def show_list(
    url: str, state: str | None, kind: str | None, active: str | None, limit: int, *, as_json: bool
) -> None:
    """Print one page of findings."""
    with ServiceClient(url) as client:
        text = client.findings(state=state, kind=kind, active=active, limit=limit)
    page = read(FindingPage, text)
    if as_json:
        say(text)
    else:
        _print_list(page.items, "There are no such findings.")


def show_report(url: str, hours: int, *, as_json: bool) -> None:
    """Print what was opened in the last ``hours``, and what of it may be false."""
    with ServiceClient(url) as client:
        text = client.finding_report(hours)
    report = read(FindingReport, text)
    if as_json:
        say(text)
        return
    _print_list(report.opened, f"Nothing was found in the last {hours} h.")
    say(
        f"{formats.counted(report.active, 'finding')} of any age "
        f"{'asks' if report.active == 1 else 'ask'} for attention; "
        f"{formats.number(report.expected_false)} of those opened may be false."
    )


def show_one(url: str, finding_id: str, *, as_json: bool) -> None:
    """Print one finding."""
    with ServiceClient(url) as client:
        _show(client.finding(finding_id), as_json=as_json)


def act(url: str, finding_id: str, action: str, why: str, by: By, *, as_json: bool) -> None:
    """Do one of the actions and print what the finding is now."""
    body = {"action": action, "detail": why, **by.told}
    with ServiceClient(url) as client:
        _show(client.act_on_finding(finding_id, body), as_json=as_json)


def assign(
    url: str, finding_id: str, plan: Mapping[str, str | None], by: By, *, as_json: bool
) -> None:
    """Say who looks after a finding, until when, and what there is to say; print what it is now.

    Raises:
        Stop: nothing was to be said.
    """
    body: dict[str, object] = {name: told for name, told in plan.items() if told is not None}
    if not body:
        raise Stop("Say what is to change: --owner, --due or --note.")
    if body.get("due_on") == "":
        body["due_on"] = None
    with ServiceClient(url) as client:
        _show(client.plan_finding(finding_id, body | by.told), as_json=as_json)


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:  # no such user, as in some containers
        raise Stop("Say who you are: --as NAME.") from error


def _print_list(items: Sequence[FindingSummary], none: str) -> None:
    paper = output_format.paper()
    wide = paper.width >= jobs.ROOMY
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    more = ("kind", "effect", "owner", "opened") if wide else ()
    for heading in ("finding", "state", *more, "what"):
        table.add_column(heading, no_wrap=heading in {"finding", "state", "effect"})
    now = datetime.now(UTC)
    for one in items:
        beside = (_plain(one.kind), _effect(one), one.owner, formats.ago(one.opened_at, now))
        table.add_row(one.id, _plain(one.state), *(beside if wide else ()), one.sentence)
    paper.print(table if items else none)


def _show(text: str, *, as_json: bool) -> None:
    found = read(FindingView, text)
    if as_json:
        say(text)
        return
    console = Console(highlight=False)
    for name, told in _facts(found.summary):
        if told:
            console.print(f"{name:<10} {told}", soft_wrap=True)
    for one in found.series:
        console.print(f"{'series':<10} {_moved(one)}", soft_wrap=True)
    for event in found.events:
        detail = f": {event.detail}" if event.detail else ""
        line = f"{formats.moment(event.at)}  {event.actor}  {_plain(event.action)}{detail}"
        console.print(line, soft_wrap=True)


def _facts(one: FindingSummary) -> tuple[tuple[str, str], ...]:
    return (
        ("finding", one.id),
        ("what", one.sentence),
        ("kind", _plain(one.kind)),
        ("state", _plain(one.state)),
        ("cause", _plain(one.cause)),
        ("certainty", _plain(one.certainty)),
        ("project", one.project),
        ("last good", one.last_good or ""),
        ("first bad", one.first_bad),
        ("worker", one.worker or ""),
        ("owner", one.owner),
        ("due", "" if one.due_on is None else one.due_on.isoformat()),
        ("note", one.note),
        ("opened", formats.moment(one.opened_at)),
        ("closed", "" if one.closed_at is None else formats.moment(one.closed_at)),
        ("version", str(one.version)),
    )


def _effect(one: FindingSummary) -> str:
    if one.worst_effect is not None:
        return formats.change(one.worst_effect)
    return "" if one.share is None else f"{formats.size(one.share)} slower"


def _moved(one: MovedSeries) -> str:
    named = one.series
    between = f"{formats.change(one.effect_low)} to {formats.change(one.effect_high)}"
    ended = f", {_plain(one.ended)}" if one.ended else ""
    return (
        f"{named.case.key} {named.metric}: {formats.change(one.effect)} ({between}), "
        f"{formats.quantity(one.before, named.unit)} before, "
        f"{formats.quantity(one.after, named.unit)} after{ended}"
    )


def _plain(word: str) -> str:
    return word.replace("_", " ")
