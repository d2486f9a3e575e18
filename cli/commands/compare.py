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

    It reads what was measured before, without the tier quick and without gates. The exit code is 1
    if a case got slower; else 4 if one lacks a result of either revision, or may have got slower
    and was not measured well enough. A case that is not clear otherwise leaves it at 0.
    """
    from cli import compare as comparing
    from cli.output import output_format

    shown_as = output_format.chosen(markdown=markdown, as_json=as_json)
    raise typer.Exit(
        comparing.run(url, base, contender, comparing.Within(suite, project), shown_as)
    )
