"""`throughline trace`: the profiler's trace of a result, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from benchmarks import trace_file
from benchmarks.contracts import Id
from cli import options
from cli.client import ServiceClient
from cli.exits import Exit, Stop
from cli.output.lines import say


def trace(
    result: Annotated[str, typer.Argument(metavar="RESULT", help="The result's id.")],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="By default trace-RESULT.json.gz."),
    ] = None,
    url: options.Url = options.DEFAULT_URL,
) -> None:
    """Fetch the profiler's Chrome trace of a result that was submitted with --trace.

    The trace comes a moment after its result. `throughline jobs show JOB` prints the result's id.
    Nothing is overwritten.
    """
    file = output or Path(f"trace-{result}.json.gz")
    body = _fetched(url, result)
    try:
        with file.open("xb") as made:
            made.write(body)
    except FileExistsError:
        raise Stop(f"{file} exists already; nothing is overwritten.") from None
    except OSError as error:
        raise Stop(f"{file} cannot be written: {error.strerror}.") from error
    say(f"The trace is in {file}: open it in ui.perfetto.dev or chrome://tracing.")


def _fetched(url: str, result_id: str) -> bytes:
    """Fetch the trace of a result."""
    try:
        TypeAdapter(Id).validate_python(result_id)
    except ValidationError as error:
        sentence = "A result's id is 32 hexadecimal digits; `throughline jobs show JOB` has it."
        raise Stop(sentence) from error
    with ServiceClient(url) as client:
        body = client.trace(result_id)
    if trace_file.flaw(body):
        raise Stop(f"What {url} answers is no trace: check THROUGHLINE_URL.", Exit.AWAY)
    return body
