"""Events as a letter, in plain text and in HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from service.models import EventKind, OutboxEvent
from service.outbox.events import page_of
from service.schemas.nights import NightReport
from service.wording import night as words


def text_of(event: OutboxEvent, address: str) -> str:
    """Plain text; links begin with ``address``."""
    details = event.details or {}
    if event.kind == EventKind.NIGHT_REPORTED:
        return words.text(_night(details), address)
    if event.kind != EventKind.DIGEST:
        return f"{event.headline}\n\n{event.sentence}\n\n{address}{page_of(event)}\n"
    night = [words.text(_night(details["night"]), address)] if details["night"] else []
    listed = [
        f"{one['title']}: {one['headline']}\n{address}{one['path']}\n" for one in details["listed"]
    ]
    return "\n".join([*night, *listed, *_more(details)]) or f"{event.headline}.\n"


def html_of(event: OutboxEvent, address: str) -> str:
    """A whole HTML page without styles, scripts or pictures of others."""
    details = event.details or {}
    if event.kind == EventKind.NIGHT_REPORTED:
        return words.as_html(_night(details), address)
    if event.kind != EventKind.DIGEST:
        link = _link(f"{address}{page_of(event)}", "See it")
        sentence = escape(event.sentence).replace("\n", "<br>")
        return words.page(event.headline, f"<p>{sentence}</p>\n<p>{link}</p>\n")
    items = "".join(
        f"<li>{escape(one['title'])}: {_link(address + one['path'], one['headline'])}</li>"
        for one in details["listed"]
    )
    parts = [f"<ul>{items}</ul>\n", *(f"<p>{escape(line)}</p>\n" for line in _more(details))]
    if details["night"]:
        night = _night(details["night"])
        told = f"<h2>{escape(night.title)}</h2>\n{words.html_body(night, address)}"
        parts = [told, "<h2>Events</h2>\n", *parts]
    return words.page(event.headline, "".join(parts))


def _night(details: Mapping[str, Any]) -> words.Account:
    return words.account(NightReport.model_validate(details))


def _more(details: Mapping[str, Any]) -> list[str]:
    return [f"And {details['more']} earlier."] if details["more"] else []


def _link(address: str, said: str) -> str:
    return f'<a href="{escape(address)}">{escape(said)}</a>'
