"""`throughline bisect`: search the commit that changed something, and answer with an exit code."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import follow_bisection, interrupts, options, parse_case
from cli.bisected_range import subject_of
from cli.client import ServiceClient, read
from cli.exits import Exit, Stop
from cli.output import lines
from cli.output.console import Console
from service.schemas.bisections import BisectionView

What = Annotated[
    str,
    typer.Argument(
        metavar="GOOD..BAD|FINDING",
        help="A range of this checkout or of versions, or a finding's id.",
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WORKLOAD] [AXIS=VALUE]...", help="For a range, such as unet precision=bf16."
    ),
]


def bisect(
    what: What,
    words: Words = None,
    *,
    preset: Annotated[str | None, typer.Option(help="For a workload: full or tiny.")] = None,
    processes: Annotated[
        int, typer.Option(min=6, max=1_000, help="The budget; each pair takes two.")
    ] = 80,
    require: options.Require = None,
    worker: Annotated[str | None, typer.Option(help="The worker that measures all pairs.")] = None,
    project: options.Project = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow the bisection of this id.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel the bisection of this id.")
    ] = False,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Search the commit that changed a case, or that a finding is about, pair by pair.

    The commits are those after GOOD up to BAD along first parents, in the git checkout here. For a
    finding whose commits are not here, a worker lists them, and so it does the releases between
    two versions of a package (torch==2.10.0..torch==2.13.0). The exit code is 0 if a commit or a
    range is named, 1 if no commit is to blame (the ends do not differ today), 4 if nothing is sure
    or it was cancelled. Ctrl-C leaves it running.
    """
    if follow and cancel:
        raise Stop("--follow and --cancel are two things: choose one.")
    with ServiceClient(url) as client:
        if cancel:
            text = client.send_text("POST", "bisections", what, "cancel")
        elif follow:
            text = _followed(client, read(BisectionView, client.text("bisections", what)))
        else:
            request = subject_of(client, what, words or (), preset) | {
                "most_processes": processes,
                "requires": parse_case.labels(require or ()),
                "source": "cli",
            }
            chosen = {"worker": worker, "project": project}
            request |= {name: value for name, value in chosen.items() if value is not None}
            begun = client.send_text("POST", "bisections", body=request)
            text = _followed(client, read(BisectionView, begun))
    view = read(BisectionView, text)
    lines.say(text) if as_json else _print(view, url)
    raise typer.Exit(Exit.OK if cancel else follow_bisection.exit_of(view))


def _followed(client: ServiceClient, begun: BisectionView) -> str:
    interrupts.as_ctrl_c()
    lines.remark(f"Bisecting {follow_bisection.range_words(begun)}: {client.url}{begun.page}")
    try:
        return follow_bisection.until_ended(client, begun, Console(stderr=True))
    except KeyboardInterrupt:
        again = f"throughline bisect {begun.id} --url {client.url}"
        lines.remark(f"It goes on. Follow it: {again} --follow; end it: {again} --cancel")
        raise


def _print(view: BisectionView, url: str) -> None:
    for line in (view.sentence, view.note, f"{url.rstrip('/')}{view.page}"):
        if line:
            lines.say(line)
