"""`throughline submit`: have a suite or a case measured by the workers of a service."""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks.catalog.precision_tiers import Tier
from cli.options import DEFAULT_URL, Json, Project, Revision, Url


def submit(
    what: Annotated[str, typer.Argument(metavar="SUITE|WORKLOAD", help="Such as smoke or unet.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AXIS=VALUE]...", help="For a workload, such as precision=bf16."),
    ] = None,
    *,
    revision: Revision = None,
    project: Project = None,
    preset: Annotated[str | None, typer.Option(help="For a workload: full or tiny.")] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL=VALUE", help="What the worker must be, such as device=cuda."),
    ] = None,
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Higher goes first.")] = 0,
    tier: Annotated[
        Tier | None,
        typer.Option(help="How sure: quick (1 process, no history), standard (3) or gate (5)."),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option(min=1, max=50, help="Fresh processes a case; a comparison needs two or more."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="WORKLOAD", help="Of a suite only this workload; may be repeated."),
    ] = None,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Also profile, and keep each case's trace with its result."),
    ] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key submits once, however often CI retries.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it and print its results.")] = False,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Wait no longer than these seconds.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Submit a suite, or one case of a workload, at a revision.

    By default the revision is the commit that the current folder has checked out, with +dirty when
    tracked files differ from it. With --wait the exit code is 1 if a case failed.
    """
    from cli import submit as submitting

    order = submitting.SubmitOptions(
        what,
        tuple(settings or ()),
        revision,
        preset,
        tuple(require or ()),
        priority,
        replicates,
        idempotency_key,
        tuple(only or ()),
        tier,
        trace,
        project,
    )
    raise typer.Exit(
        submitting.run(
            url, order, wait=wait or timeout_s is not None, timeout_s=timeout_s, as_json=as_json
        )
    )
