"""Makes and ends tokens in the database itself, for whoever has it and the server's key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError
from rich import box
from rich.table import Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from benchmarks import local_service
from cli import durations
from cli.exits import Exit, Stop
from cli.local import local_token
from cli.options import DEFAULT_URL
from cli.output import output_format
from cli.output.lines import say
from service.auth import audit, enrolment, sign_in_link, signing_key, token_format, token_store
from service.auth.enrolment import EnrolmentRequest
from service.auth.permissions import BOUND
from service.auth.principal import Principal
from service.auth.signing_key import Key
from service.auth.token_format import Mistyped
from service.auth.token_store import TokenRequest
from service.database.failures import explain
from service.database.health import check
from service.database.session import Database, now_of
from service.errors import ServiceError, Unauthorized
from service.schemas.access import NewToken, TokenKind
from service.settings import Settings
from service.wording import formats

ME = Principal("command line")


@dataclass(frozen=True)
class TokenOptions:
    """A token as it was typed."""

    kind: str
    name: str
    expires: str | None
    project: str | None


class Desk:
    """The tokens of one database; its methods print."""

    def __init__(self, session: Session, server_key: Key) -> None:
        self._session = session
        self._key = server_key
        self._now = now_of(session)

    def create(self, options: TokenOptions, *, as_json: bool) -> None:
        """Make a token and print it."""
        _print(self._made(options), as_json=as_json)

    def keep(self, options: TokenOptions, file: Path) -> None:
        """Make sure that a file holds such a token, for its owner alone.

        Raises:
            Stop: the file cannot be read or written.
        """
        try:
            if self._is_good(options, file):
                return
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            signing_key.write_private(file, self._made(options).token)
        except OSError as error:
            raise Stop(f"{file} cannot be used ({error.strerror}).") from error

    def _is_good(self, options: TokenOptions, file: Path) -> bool:
        try:
            shown = token_format.read(file.read_text(encoding="utf-8", errors="replace").strip())
            token = token_store.verify(self._session, self._key, shown, self._now)
        except (FileNotFoundError, Mistyped, Unauthorized):
            return False
        return (token.kind, token.name) == (options.kind, options.name)

    def _made(self, options: TokenOptions) -> NewToken:
        kind, name, expires, project = options.kind, options.name, options.expires, options.project
        lasts = None
        if expires is not None:
            lasts = durations.within(
                "--expires", expires, token_store.SHORTEST_S, token_store.LONGEST_S
            )
        if (kind, name) == (TokenKind.ADMIN, token_store.LOCAL):
            raise Stop(
                f"--name: {token_store.LOCAL} is kept for the token of this machine itself; choose "
                "another."
            )
        if project is not None and TokenKind(kind) not in BOUND:
            raise Stop(f"--project: {token_store.FOR_ALL.format(kind=kind)}.")
        with _named("--name", name):
            request = TokenRequest(kind=TokenKind(kind), name=name, expires_in_s=lasts)
        with _named("--project", project):
            request = TokenRequest(**request.model_dump() | {"project": project})
        made = token_store.create(self._session, self._key, request, self._now, None)
        self._note("token create", made.id)
        return made

    def enrolment(self, worker: str | None, valid: str, *, as_json: bool) -> None:
        """Make a code for a worker and print it."""
        lasts = durations.within("--valid", valid, enrolment.SHORTEST_S, enrolment.LONGEST_S)
        with _named("--worker", worker):
            request = EnrolmentRequest(worker=worker, expires_in_s=lasts)
        made = enrolment.create(self._session, self._key, request, self._now, None)
        self._note("token enrolment", made.id)
        if as_json:
            say(made.model_dump_json())
            return
        say(made.code)
        until = formats.moment(made.expires_at)
        remark = (
            f"Good once, until {until}. On the machine of the worker: throughline worker enroll "
            "CODE --url ..."
        )
        say(remark, sys.stderr)

    def rotate(self, token_id: str, *, as_json: bool) -> None:
        """Give a token another secret and print it."""
        made = token_store.rotate(self._session, self._key, token_id, self._now)
        self._note("token rotate", token_id)
        _print(made, as_json=as_json)

    def revoke(self, token_id: str) -> None:
        """End a token."""
        gone = token_store.revoke(self._session, token_id, self._now)
        self._note("token revoke", token_id)
        say(f"The token {gone.id} ({gone.kind} {gone.name}) is revoked.")

    def show(self, *, as_json: bool) -> None:
        """Print every token."""
        tokens = token_store.every(self._session, self._now)
        if as_json:
            say(f"[{','.join(token.model_dump_json() for token in tokens)}]")
            return
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
        headings = ("id", "kind", "name", "state", "made", "last used", "expires")
        bound = any(token.project for token in tokens)
        for heading in (*headings[:3], *(("project",) if bound else ()), *headings[3:]):
            table.add_column(heading, no_wrap=heading == "id")
        now = datetime.now(UTC)
        for token in tokens:
            used = formats.ago(token.last_used_at, now) if token.last_used_at else "never"
            ends = formats.moment(token.expires_at) if token.expires_at else "never"
            made = formats.ago(token.created_at, now)
            project = (token.project or "all",) if bound else ()
            table.add_row(token.id, token.kind, token.name, *project, token.state, made, used, ends)
        output_format.paper().print(table if tokens else "There are no tokens.")

    def _note(self, action: str, object_id: str) -> None:
        audit.record(self._session, ME, action, object_id, self._now)


@contextmanager
def _named(option: str, value: str | None) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise Stop(f"{option} {error.errors()[0]['msg']}; {value!r} is not.") from error


@contextmanager
def desk(url: str | None, state_dir: Path) -> Iterator[Desk]:
    """Open the database at ``url``, or that of the state folder, for one order.

    Raises:
        Stop: it cannot be used, or the order cannot be carried out; nothing is changed then.
    """
    settings = Settings(state_dir=state_dir)
    try:
        database = Database(url or settings.url)
        try:
            check(database)
            with database.writing() as session:
                yield Desk(session, signing_key.of(settings))
        finally:
            database.close()
    except DBAPIError as error:
        known = explain(error)
        raise Stop(known.detail if known else str(error.orig), Exit.AWAY) from error
    except ServiceError as error:
        code = Exit.AWAY if error.status_code >= 500 else Exit.USAGE
        raise Stop(error.detail, code) from error


def show_link(url: str | None, state_dir: Path) -> None:
    """Print a link that signs in once.

    Raises:
        Stop: several services use the state folder, or the database cannot be used.
    """
    here = () if url else tuple(local_service.urls(state_dir))
    if len(here) > 1:
        raise Stop(f"Services of {state_dir} answer at {', '.join(here)}: choose one with --url.")
    where = url or "".join(here) or DEFAULT_URL
    say(local_token.link(Settings(state_dir=state_dir), where.rstrip("/")))
    lasts = formats.duration(sign_in_link.LASTS.total_seconds())
    say(f"Good once, within {lasts}. Whoever opens it first is signed in.", sys.stderr)


def _print(made: NewToken, *, as_json: bool) -> None:
    if as_json:
        say(made.model_dump_json())
        return
    say(made.token)
    bound = f" and the project {made.project}" if made.project else ""
    remark = (
        f"Keep it: it is not shown again. It is the token {made.id}, of the kind {made.kind}, "
        f"for {made.name}{bound}. Give it as THROUGHLINE_TOKEN, or in the header Authorization: "
        "Bearer."
    )
    say(remark, sys.stderr)
