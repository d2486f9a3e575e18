"""The process environment: the only place in this package that reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import cli
from benchmarks import local_service


def token_for(url: str) -> str:
    """The token for the service at ``url``: the given one, or that of a local service."""
    if given := os.environ.get("THROUGHLINE_TOKEN"):
        return given.strip()
    if named := os.environ.get("THROUGHLINE_TOKEN_FILE"):
        return Path(named).read_text(encoding="utf-8", errors="replace").strip()
    state_dir = Path(os.environ.get("THROUGHLINE_STATE_DIR") or ".throughline")
    return local_service.token_for(state_dir, url)


def wrong_settings(error: ValueError) -> str:
    """Say what is wrong, one sentence a setting; "" if ``error`` is not about settings."""
    from pydantic import ValidationError  # noqa: PLC0415 - a command line that is right needs none
    from pydantic_settings import SettingsError  # noqa: PLC0415

    from worker.settings import faults  # noqa: PLC0415

    if isinstance(error, SettingsError) or (
        isinstance(error, ValidationError) and error.title == "Settings"
    ):
        return " ".join(
            f"The setting THROUGHLINE_{field.upper()} is wrong: {why}."
            for field, why in faults(error)
        )
    return ""


def child_environment(given: Mapping[str, str], *, alone: bool = False) -> dict[str, str]:
    """Return the environment of a service or a worker, with ``given`` on top.

    ``alone``: with no other setting, whatever the user's environment says.
    """
    kept = {k: v for k, v in os.environ.items() if not (alone and k.startswith("THROUGHLINE_"))}
    return kept | our_packages() | {"PYTHONUNBUFFERED": "1"} | dict(given)


def our_packages() -> dict[str, str]:
    """Has our packages found by the path of this one and never by the current folder.

    That may well be a training repository with a folder called ``benchmarks`` or ``worker`` of its
    own.
    """
    root = str(Path(cli.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
