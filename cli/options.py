"""Options that several subcommands share; their defaults come from the environment."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8765"
DEFAULT_STATE_DIR = Path(".throughline")

Url = Annotated[
    str, typer.Option("--url", envvar="THROUGHLINE_URL", help="Address of the service.")
]
StateDir = Annotated[
    Path,
    typer.Option(
        "--state-dir",
        envvar="THROUGHLINE_STATE_DIR",
        help="Folder of the embedded database, the spool and the logs.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="THROUGHLINE_DATABASE_URL",
        help="Address of the database; by default SQLite in the state folder.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:N.")]
WorkerDevice = Annotated[
    str,
    typer.Option("--device", envvar="THROUGHLINE_DEVICE", help="auto, cpu, cuda or cuda:N."),
]
Preset = Annotated[str | None, typer.Option(help="Size of the case: full on a GPU, tiny on a CPU.")]
Protocol = Annotated[
    str | None, typer.Option(help="How to time, as JSON, such as '{\"window_max_s\": 5}'.")
]
DataRoot = Annotated[
    Path | None, typer.Option(help="Your own images or tokens instead of the built-in data.")
]
Require = Annotated[
    list[str] | None,
    typer.Option(metavar="LABEL=VALUE", help="What the worker must be, such as device=cuda."),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Wait no longer than these seconds.")
]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many.")]
Project = Annotated[
    str | None, typer.Option(help="Whose it is; by default that of your token, or nobody's.")
]
Source = Annotated[
    str | None, typer.Option(help="Name of the source; by default that of the format.")
]
Revision = Annotated[
    str | None,
    typer.Option(
        "--revision",
        "-r",
        help="Version under test; by default the commit that the current folder has checked out.",
    ),
]
