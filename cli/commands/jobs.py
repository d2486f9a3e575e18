"""`throughline jobs`: what is queued, running and done."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_URL, Json, Url

app = typer.Typer(help="List, show and cancel jobs.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]


@app.command("list")
def list_jobs(
    *,
    state: Annotated[
        str | None, typer.Option(help="Only these: queued, running, failed, succeeded ...")
    ] = None,
    revision: Annotated[str | None, typer.Option("--revision", "-r", help="Only these.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many.")] = 20,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List jobs, the newest first."""
    from cli import jobs

    jobs.show_list(url, state, revision, limit, as_json=as_json)


@app.command("show")
def show(job: JobId, *, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show one job with its attempts."""
    from cli import jobs

    jobs.show_one(url, job, as_json=as_json)


@app.command("cancel")
def cancel(job: JobId, *, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Cancel a job; one that is being measured stops within seconds."""
    from cli import jobs

    jobs.cancel(url, job, as_json=as_json)
