"""`throughline report`: the results of a submission."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_URL, Json, Markdown, Url


def report(
    submission: Annotated[str, typer.Argument(help="The submission's id.")],
    *,
    against: Annotated[
        str | None, typer.Option(metavar="REVISION", help="Compare with this revision.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it until it is finished.")] = False,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Wait no longer than these seconds.")
    ] = None,
    markdown: Markdown = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Print the results of a submission.

    The exit code is 1 if a case failed, 4 while one is missing. With --against it is 1 as well if a
    case got slower, 4 if one was not compared or is undecided.
    """
    from cli import report as reporting
    from cli.output import output_format

    shown_as = output_format.chosen(markdown=markdown, as_json=as_json)
    wait_s = timeout_s if timeout_s is not None else (float("inf") if wait else 0.0)
    raise typer.Exit(reporting.run(url, submission, against, shown_as, wait_s))
