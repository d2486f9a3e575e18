"""Shows and cancels jobs."""

from __future__ import annotations

from datetime import UTC, datetime

from rich import box
from rich.table import Table

from cli.client import ServiceClient
from cli.output import output_format
from cli.output.console import Console
from cli.output.lines import say
from cli.service_answers import JobView
from service import formats

ROOMY = 120
"""Columns of a terminal from which on there is room for more than a job's case and state."""


def show_list(
    url: str, state: str | None, revision: str | None, limit: int, *, as_json: bool
) -> None:
    """Print one page of jobs."""
    with ServiceClient(url) as client:
        page = client.jobs(state=state, revision=revision, limit=limit)
    if as_json:
        say(page.model_dump_json())
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    paper = output_format.paper()
    wide = paper.width >= ROOMY
    for heading in ("job", "state", "case", *(("revision", "submitted", "reason") if wide else ())):
        table.add_column(heading, no_wrap=heading in {"job", "state"})
    now = datetime.now(UTC)
    for job in page.items:
        name, age = formats.revision(job.revision), formats.ago(job.created_at, now)
        cells = (job.id, job.state.value, job.case.key, name, age, job.reason)
        table.add_row(*cells[: len(table.columns)])
    paper.print(table if page.items else "There are no such jobs.")


def show_one(url: str, job_id: str, *, as_json: bool) -> None:
    """Print one job."""
    with ServiceClient(url) as client:
        _print(client.job(job_id), as_json=as_json)


def cancel(url: str, job_id: str, *, as_json: bool) -> None:
    """Cancel one job and print what it is now."""
    with ServiceClient(url) as client:
        _print(client.cancel(job_id), as_json=as_json)


def _print(job: JobView, *, as_json: bool) -> None:
    if as_json:
        say(job.model_dump_json())
        return
    console = Console(highlight=False)
    facts = [
        ("job", job.id),
        ("case", job.case.key),
        ("project", job.project),
        ("revision", job.revision),
        ("state", job.state.value),
        ("submitted", formats.moment(job.created_at)),
        ("reason", job.reason),
        ("result", job.result_id),
    ]
    for name, text in facts:
        if text:
            console.print(f"{name:<10} {text}", markup=False, soft_wrap=True)
    for attempt in job.attempts:
        reason = f": {attempt.reason}" if attempt.reason else ""
        line = f"attempt {attempt.number}  {attempt.state} on {attempt.worker}{reason}"
        console.print(line, markup=False, soft_wrap=True)
