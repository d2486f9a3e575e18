"""`throughline compare`: two revisions side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_URL, Json, Markdown, Url


def compare(
    base: Annotated[str, typer.Argument(help="The revision to compare with.")],
    contender: Annotated[str, typer.Argument(help="The revision under test.")],
    *,
    suite: Annotated[str | None, typer.Option(help="Only the cases of this suite.")] = None,
    project: Annotated[str | None, typer.Option(help="Only the histories of this project.")] = None,
    markdown: Markdown = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Compare two revisions case by case.

    The exit code is 1 if a case got slower, 4 if one lacks a result of either revision.
    """
    from cli import compare as comparing
    from cli import form

    shown_as = form.chosen(markdown=markdown, as_json=as_json)
    raise typer.Exit(
        comparing.run(url, base, contender, comparing.Within(suite, project), shown_as)
    )
