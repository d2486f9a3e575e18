"""Fetches a profiler's trace into a file."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from benchmarks import trace_file
from benchmarks.contracts import Id
from cli.client import ServiceClient
from cli.exits import Exit, Stop
from cli.output.lines import say
from cli.service_answers import SubmissionView


def fetch(url: str, result_id: str, to: Path | None) -> None:
    """Write the trace of a result into ``to``, or into a file in this folder named after it.

    Raises:
        Stop: there is none, what came is none, or the file is there or cannot be written.
    """
    try:
        TypeAdapter(Id).validate_python(result_id)
    except ValidationError as error:
        sentence = "A result's id is 32 hexadecimal digits; `throughline jobs show JOB` has it."
        raise Stop(sentence) from error
    file = to or Path(f"trace-{result_id}.json.gz")
    with ServiceClient(url) as client:
        body = client.trace(result_id)
    if trace_file.flaw(body):
        raise Stop(f"What {url} answers is no trace: check THROUGHLINE_URL.", Exit.AWAY)
    try:
        with file.open("xb") as made:
            made.write(body)
    except FileExistsError:
        raise Stop(f"{file} exists already; nothing is overwritten.") from None
    except OSError as error:
        raise Stop(f"{file} cannot be written: {error.strerror}.") from error
    say(f"The trace is in {file}: open it in ui.perfetto.dev or chrome://tracing.")


def where(submission: SubmissionView, url: str) -> list[str]:
    """Say how to fetch the trace of each case that has a result, a line each."""
    return [
        f"Trace of {job.case.key}: throughline trace {job.result_id} --url {url}"
        for job in submission.jobs
        if job.result_id
    ]
