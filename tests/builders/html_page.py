"""A page as it was sent: what it refers to, and what is wrong with it."""

from __future__ import annotations

from html.parser import HTMLParser

INTERNAL = ("/", "#", "data:")
LOADING = {"src", "href", "action", "hx-get", "poster", "data"}


class Page(HTMLParser):
    """What a page refers to, which scripts and styles stand in it, and its ids."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.inline: list[str] = []
        self.labelled: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.links += [value for name, value in attrs if name in LOADING and value]
        self.inline += [name for name in attributes if name.startswith("on") or name == "style"]
        code = (
            tag == "script"
            and "src" not in attributes
            and attributes.get("type") != "application/json"
        )
        if code or tag == "style":
            self.inline.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"] or "")
        self.labelled += (attributes.get("aria-labelledby") or "").split()


def faults(html: str) -> list[str]:
    """What no page may have: foreign hosts, inline code, ids twice, labels of nothing."""
    page = Page(html)
    foreign = [link for link in page.links if not link.startswith(INTERNAL) or link[:2] == "//"]
    twice = {name for name in page.ids if page.ids.count(name) > 1}
    missing = set(page.labelled) - set(page.ids)
    problems = [*foreign, *page.inline, *sorted(twice), *sorted(missing)]
    if html.count("<h1") != 1:
        problems.append(f"{html.count('<h1')} headings")
    if 'href="#main"' not in html:
        problems.append("no way to skip to the content")
    return problems


def links(html: str) -> list[str]:
    """Where a page leads, each place once."""
    return sorted({link.partition("#")[0] for link in Page(html).links} - {""})
