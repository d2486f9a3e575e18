"""Puts measured tables into pages, between two marks of the same name."""

from __future__ import annotations


def replaced(text: str, name: str, body: str) -> str:
    """``text`` with what lies between the marks of ``name`` replaced."""
    begin, end = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n{body.strip()}\n\n{end}{rest.partition(end)[2]}"
