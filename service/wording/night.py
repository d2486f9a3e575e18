"""Words for the report of a night, and their forms: plain text, Markdown, HTML, Atom."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape as escaped
from urllib.parse import quote

from service.schemas import nights as schemas
from service.schemas.findings import FindingKind
from service.wording import device_hours, formats, markdown

_CASES = 5
"""Cases that are named for one reason."""
_KINDS = {
    FindingKind.REGRESSION: "Regression",
    FindingKind.IMPROVEMENT: "Improvement",
    FindingKind.BAD_NODE: "Bad node",
    FindingKind.OVERTAKEN: "New best case",
    FindingKind.FAILURE: "Failure",
}
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML cannot hold."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a section."""

    text: str
    path: str = ""
    """The page that shows more; empty: there is none."""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines under a title."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Account:
    """The report of a night in words, the same in each form."""

    title: str
    headline: str
    path: str
    sections: tuple[Section, ...]


def account(report: schemas.NightReport) -> Account:
    """Put the facts of a night into words."""
    sections = {
        "Changed": [*map(_finding, report.changed), *_false_alarms(report)],
        "Recovered": [*map(_finding, report.recovered)],
        "Not measured": [
            *map(Line, report.not_submitted),
            *map(_unmeasured, report.unmeasured),
        ],
        "Coverage": [*map(_coverage, report.coverage)],
        "Cost": [*map(Line, _cost(report.cost))],
    }
    return Account(
        title=f"Night of {report.night}{(report.project and f', {report.project}') or ''}",
        headline=headline(report),
        path=path_of(report),
        sections=tuple(
            Section(title, tuple(lines) or (Line("Nothing."),)) for title, lines in sections.items()
        ),
    )


def path_of(report: schemas.NightReport) -> str:
    """The page of a night."""
    page = f"/nights/{report.night}"
    return page if report.project is None else f"{page}?project={quote(report.project)}"


def headline(report: schemas.NightReport) -> str:
    """One line: what changed, and how much was measured."""
    asked = sum(one.asked for one in report.coverage)
    measured = sum(one.measured for one in report.coverage)
    if not report.schedules:
        return "nothing was scheduled"
    if not asked:
        return "nothing was asked for"
    unchanged = "no change was found" if measured else "nothing is known"
    parts = [
        formats.counted(len(report.changed), "change") if report.changed else unchanged,
        f"{len(report.recovered)} recovered" if report.recovered else "",
        f"{measured} of {formats.counted(asked, 'case')} measured",
        "" if report.finished else "not finished",
    ]
    return ", ".join(filter(None, parts))


def _finding(found: schemas.NightFinding) -> Line:
    return Line(f"{_KINDS[found.kind]}: {found.headline} ({found.state})", f"/findings/{found.id}")


def _false_alarms(report: schemas.NightReport) -> list[Line]:
    """The number of changes that may be none, as far as the detector says."""
    opened = len(report.changed)
    if not opened:
        return []
    expected = report.expected_false
    some = "fewer than 0.01" if expected < 0.005 else f"{expected:.2f}"
    unknown = opened - report.doubted
    without = f"; the detector has no figure for {unknown} of them" if unknown > 0 else ""
    return [Line(f"Expected false alarms: {some} of {opened}{without}.")]


def _unmeasured(missing: schemas.Unmeasured) -> Line:
    count = len(missing.cases)
    named = ", ".join(missing.cases[:_CASES]) + (", ..." if count > _CASES else "")
    return Line(f"{formats.counted(count, 'case')}: {missing.why} ({named})")


def _coverage(covered: schemas.Coverage) -> Line:
    return Line(f"{covered.workload}: {covered.measured} of {covered.asked} measured")


def _cost(cost: schemas.Cost) -> Iterable[str]:
    yield device_hours.said(cost)
    yield from device_hours.prices(cost)
    if cost.energy_j is None:
        yield "Energy is not known: no result carries it."
    else:
        of = f"{cost.with_energy} of {formats.counted(cost.results, 'result')}"
        yield f"{cost.energy_j / 3.6e6:.3g} kWh in the timed passes of {of}; the rest is unknown."


def text(told: Account, address: str = "") -> str:
    """Plain text, for a terminal or a mail; links begin with ``address``, without it there are
    none."""
    parts = [f"{told.title}: {told.headline}"]
    for section in told.sections:
        lines = [f"  {_with_link(line, address)}" for line in section.lines]
        parts.append("\n".join([section.title, *lines]))
    return "\n\n".join([*parts, *([f"{address}{told.path}"] if address else [])]) + "\n"


def _with_link(line: Line, address: str) -> str:
    return f"{line.text}\n    {address}{line.path}" if address and line.path else line.text


def as_markdown(told: Account, address: str = "") -> str:
    """Markdown, for a chat or an issue."""
    parts = [f"## {markdown.escape(told.title)}", markdown.escape(_sentence(told.headline))]
    for section in told.sections:
        lines = [f"- {_markdown_line(line, address)}" for line in section.lines]
        parts.append("\n".join([f"### {section.title}", "", *lines]))
    return "\n\n".join(parts) + "\n"


def _markdown_line(line: Line, address: str) -> str:
    said = markdown.escape(line.text)
    return f"[{said}]({address}{line.path})" if address and line.path else said


def as_html(told: Account, address: str = "") -> str:
    """A whole page without styles or scripts of others, for a file or a mail."""
    return page(told.title, html_body(told, address))


def page(title: str, body: str) -> str:
    """A whole HTML page of some HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{_html(title)}</title></head>\n"
        '<body style="font-family: sans-serif; max-width: 45em">\n'
        f"<h1>{_html(title)}</h1>\n{body}</body></html>\n"
    )


def html_body(told: Account, address: str = "") -> str:
    """The part of an HTML page that tells a night, below its title."""
    parts = [f"<p><strong>{_html(_sentence(told.headline))}</strong></p>"]
    for section in told.sections:
        items = "".join(f"<li>{_html_line(line, address)}</li>" for line in section.lines)
        parts.append(f"<h2>{_html(section.title)}</h2>\n<ul>{items}</ul>")
    return "\n".join(parts) + "\n"


def _html_line(line: Line, address: str) -> str:
    said = _html(line.text)
    return f'<a href="{_html(address + line.path)}">{said}</a>' if address and line.path else said


def atom(reported: Sequence[tuple[datetime, Account]], address: str) -> str:
    """An Atom feed (RFC 4287) of nights with the times of their reports, the newest first."""
    updated = max((at for at, _ in reported), default=datetime.fromisoformat("1970-01-01T00:00Z"))
    entries = "".join(_entry(at, told, address) for at, told in reported)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"<id>{_html(address)}/nights.atom</id><title>Throughline: nights</title>"
        f"<updated>{updated.isoformat()}</updated><author><name>Throughline</name></author>\n"
        f'<link rel="self" href="{_html(address)}/nights.atom"/>\n{entries}</feed>\n'
    )


def _entry(at: datetime, told: Account, address: str) -> str:
    link = _html(address + told.path)
    return (
        f"<entry><id>{link}</id><title>{_html(f'{told.title}: {told.headline}')}</title>"
        f'<updated>{at.isoformat()}</updated><link href="{link}"/>'
        f'<content type="html">{_html(html_body(told, address))}</content></entry>\n'
    )


def _html(said: str) -> str:
    return escaped(_FORBIDDEN.sub("", said))


def _sentence(said: str) -> str:
    return f"{said[:1].upper()}{said[1:]}."
