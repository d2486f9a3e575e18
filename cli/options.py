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
Project = Annotated[
    str | None,
    typer.Option(help="Whose it is; by default that of your token, or nobody's."),
]
Revision = Annotated[
    str | None,
    typer.Option(
        "--revision",
        "-r",
        help="Version under test; by default the commit that the current folder has checked out.",
    ),
]
