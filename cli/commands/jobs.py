"""`throughline jobs`: what is queued, running and done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from benchmarks.contracts import JobState, needed_gpus
from cli import options
from cli.client import ServiceClient
from cli.output.console import Console, paper, table
from cli.output.lines import say
from service.schemas.jobs import JobView, WorkerView
from service.wording import formats, waiting

app = typer.Typer(help="List, show and cancel jobs.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]


@app.command("list")
def list_jobs(
    *,
    state: Annotated[
        str | None, typer.Option(help="Only these: queued, running, failed, succeeded ...")
    ] = None,
    revision: Annotated[str | None, typer.Option("--revision", "-r", help="Only these.")] = None,
    limit: options.Limit = 20,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """List jobs, the newest first."""
    with ServiceClient(url) as client:
        page = client.jobs(state=state, revision=revision, limit=limit)
    if as_json:
        say(page.model_dump_json())
    else:
        _print_list(page.items)


@app.command("show")
def show(
    job: JobId, *, url: options.Url = options.DEFAULT_URL, as_json: options.Json = False
) -> None:
    """Show one job with its attempts."""
    with ServiceClient(url) as client:
        shown = client.job(job)
        _print(shown, as_json=as_json)
        if shown.state is JobState.QUEUED and not as_json:
            _print_why_queued(shown, client.workers().items)


@app.command("cancel")
def cancel(
    job: JobId, *, url: options.Url = options.DEFAULT_URL, as_json: options.Json = False
) -> None:
    """Cancel a job; one that is being measured stops within seconds."""
    with ServiceClient(url) as client:
        _print(client.cancel(job), as_json=as_json)


def _print_list(jobs: Sequence[JobView]) -> None:
    console = paper()
    more = ("revision", "submitted", "reason") if console.is_roomy else ()
    drawn = table("job", "state", "case", *more, whole=("job", "state"))
    now = datetime.now(UTC)
    for job in jobs:
        name, age = formats.revision(job.revision), formats.ago(job.created_at, now)
        cells = (job.id, job.state.value, job.case.key, name, age, job.reason)
        drawn.add_row(*cells[: len(drawn.columns)])
    console.print(drawn if jobs else "There are no such jobs.")


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


def _print_why_queued(job: JobView, workers: Sequence[WorkerView]) -> None:
    now, requires = datetime.now(UTC), needed_gpus(job.case) | job.requires
    if why := waiting.why_queued(workers, requires, now - waiting.AWAY, now):
        say(why)
