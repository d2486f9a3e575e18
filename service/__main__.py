"""``python -m service``: one replica of the service on one address, or its analysis alone.

Exit codes: 0 stopped as asked, 2 a wrong setting or open to strangers, 3 the database cannot be
used, 4 the address cannot be listened on.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # collections during the imports take a fifth of the start

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from benchmarks import local_service, terminal
from service.auth import access_mode, local_token
from service.database.failures import explain
from service.database.health import check
from service.database.session import Database
from service.findings import pipeline
from service.schemas import errors
from service.settings import Settings

log = logging.getLogger(__name__)

NICENESS = 10
"""Lower priority of the analysis process: requests are served first."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve, or analyse, until SIGINT or SIGTERM; return the exit code."""
    terminal.log_to_stderr()
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it announces each of its plugins
    try:
        settings = _settings(arguments)
        return _analyse(settings) if settings.role == "analysis" else _serve(settings)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        name = "_".join(["THROUGHLINE", *map(str, fault["loc"])]).upper()
        why = fault["msg"].removeprefix("Value error, ")
        return _say(2, f"The setting {name} is wrong: {why}.")
    except access_mode.NobodyMayEnter as error:
        return _say(2, error.detail)
    except errors.FileWrong as error:
        return _say(2, str(error))
    except errors.ServiceError as error:
        return _say(3, error.detail)
    except DBAPIError as error:
        known = explain(error)
        return _say(3, known.detail if known else f"The database cannot be read: {error.orig}")


def _analyse(settings: Settings) -> int:
    database = Database(settings.url)
    check(database)
    # At once, for each step can be repeated: an exception is lost if it is raised in a finalizer.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    os.nice(NICENESS)
    gc.enable()
    log.info("analysis runs as process %d", os.getpid())
    pipeline.run(database, settings.sweep_s, settings.confirmations)
    return 0


def _serve(settings: Settings) -> int:
    from service.app import create_app  # noqa: PLC0415 - analysis needs no web framework
    from service.http import server  # noqa: PLC0415

    app = create_app(settings)
    gc.freeze()  # later collections skip what stays as long as the process
    gc.enable()
    check(app.state.database)
    access_mode.check(app.state.database, settings)
    log.info("%s", access_mode.describe(app.state.database, settings))
    _keep_a_token(app.state.database, settings)
    try:
        listener = server.listen(settings.host, settings.port)
    except OSError as error:
        return _say(
            4,
            f"Cannot listen on {settings.host}:{settings.port} ({error.strerror or error}); "
            "stop what uses it, or choose another port with --port.",
        )
    host, port = listener.getsockname()[:2]
    with _announced(settings, host, port):
        log.info("serving on http://%s:%s", host, port)
        server.serve(app, settings, listener)
    return 0


def _keep_a_token(database: Database, settings: Settings) -> None:
    """See to it that whoever owns this service can change something, and say how."""
    if access_mode.in_force(database, settings) is not access_mode.Asked.CHANGES:
        return
    try:
        path = local_token.prepare(database, settings)
    except (OSError, errors.ServiceError) as error:
        log.warning(
            "this machine's own token cannot be kept (%s): `throughline token create` makes others",
            error,
        )
        return
    log.info(
        "the token of this machine's own administrator is in %s, where `throughline` finds it; "
        "`throughline token sign-in` prints a link for a browser",
        path.absolute(),
    )


def _announced(settings: Settings, host: str, port: int) -> AbstractContextManager[object]:
    """Let whoever may read the token of this machine know where it is taken, while this lasts."""
    if not local_service.token_file(settings.state_dir).exists():
        return nullcontext()
    try:
        return local_service.announce(settings.state_dir, local_service.url(host, port))
    except OSError as error:
        log.warning("where this service answers cannot be written down (%s)", error)
        return nullcontext()


def _settings(arguments: Sequence[str] | None) -> Settings:
    parser = argparse.ArgumentParser(prog="python -m service", description="Serve Throughline.")
    parser.add_argument("--host", help="address to listen on; default THROUGHLINE_HOST or loopback")
    parser.add_argument("--port", help="port to listen on; default THROUGHLINE_PORT or 8765")
    parser.add_argument("--role", help="all, web or analysis; default THROUGHLINE_ROLE or all")
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value}
    return Settings(**given)


def _say(code: int, sentence: str) -> int:
    sys.stderr.write(f"{terminal.printable(sentence)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
