"""`throughline trace`: the profiler's trace of a result, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.options import DEFAULT_URL, Url


def trace(
    result: Annotated[str, typer.Argument(metavar="RESULT", help="The result's id.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="By default trace-RESULT.json.gz."),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Fetch the profiler's Chrome trace of a result that was submitted with --trace.

    The trace comes a moment after its result. `throughline jobs show JOB` prints the result's id.
    Nothing is overwritten.
    """
    from cli import trace as fetching

    fetching.fetch(url, result, output)
