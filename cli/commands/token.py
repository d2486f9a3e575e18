"""`throughline token`: makes and ends tokens in the database itself, with the server's key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError
from sqlalchemy.orm import Session

from benchmarks import local_service
from cli import durations, options
from cli.database import opened
from cli.exits import Stop
from cli.local import local_token
from cli.output import console, lines
from service.auth import audit, permissions, sign_in_link, signing_key, token_format, token_store
from service.auth import enrolment as enrolments
from service.auth.principal import Principal
from service.database.session import now_of
from service.schemas.access import NewToken, TokenKind
from service.schemas.errors import Unauthorized
from service.settings import Settings
from service.wording import formats

ME = Principal("command line")
Kind = Literal["read", "submit", "worker", "admin"]

app = typer.Typer(
    help="Make, list, renew and end tokens, where the service's database is.", no_args_is_help=True
)
TokenId = Annotated[str, typer.Argument(metavar="ID", help="As `throughline token list` shows it.")]


@dataclass(frozen=True)
class Desk:
    """One database's tokens, open for one order."""

    session: Session
    key: signing_key.Key
    now: datetime

    def note(self, action: str, object_id: str) -> None:
        """Write the order into the audit log."""
        audit.record(self.session, ME, f"token {action}", object_id, self.now)


@contextmanager
def _desk(url: str | None, state_dir: Path) -> Iterator[Desk]:
    """Open the database at ``url``, or the state folder's; a refused order changes nothing."""
    settings = Settings(state_dir=state_dir)
    with opened(url or settings.url) as database, database.writing() as session:
        yield Desk(session, signing_key.of(settings), now_of(session))


@app.command("create")
def create(
    *,
    kind: Annotated[Kind, typer.Option(help="What it is good for.")],
    name: Annotated[
        str, typer.Option(help="What it is for, such as ci; of a worker's token its worker.")
    ],
    project: Annotated[
        str | None,
        typer.Option(help="Of kind read or submit: the only project that it sees and submits to."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Such as 90d or 12h; without it never.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Write it here and print nothing; a good one that is here already stays."
        ),
    ] = None,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """Make a token and print it, once: only a keyed hash of it is kept.

    The first token of the kind admin has the service ask for one for reading, too, within a second.
    """
    with _desk(database, state_dir) as desk:
        if file is None:
            _print(_made(desk, kind, name, expires, project), as_json=as_json)
            return
        try:
            if not _holds(desk, file, kind, name):
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                made = _made(desk, kind, name, expires, project)
                signing_key.write_private(file, made.token)
        except OSError as error:
            raise Stop(f"{file} cannot be used ({error.strerror}).") from error


def _holds(desk: Desk, file: Path, kind: Kind, name: str) -> bool:
    """Return True if ``file`` holds a good token of this kind and name."""
    try:
        shown = token_format.read(file.read_text(encoding="utf-8", errors="replace").strip())
        token = token_store.verify(desk.session, desk.key, shown, desk.now)
    except (FileNotFoundError, token_format.Mistyped, Unauthorized):
        return False
    return (token.kind, token.name) == (kind, name)


def _made(desk: Desk, kind: Kind, name: str, expires: str | None, project: str | None) -> NewToken:
    lasts = None
    if expires is not None:
        shortest_s, longest_s = token_store.SHORTEST_S, token_store.LONGEST_S
        lasts = durations.within("--expires", expires, shortest_s, longest_s)
    if (kind, name) == (TokenKind.ADMIN, token_store.LOCAL):
        raise Stop(
            f"--name: {token_store.LOCAL} is kept for the token of this machine itself; choose "
            "another."
        )
    if project is not None and TokenKind(kind) not in permissions.BOUND:
        raise Stop(f"--project: {token_store.FOR_ALL.format(kind=kind)}.")
    with _named("--name", name):
        request = token_store.TokenRequest(kind=TokenKind(kind), name=name, expires_in_s=lasts)
    with _named("--project", project):
        request = token_store.TokenRequest(**request.model_dump() | {"project": project})
    made = token_store.create(desk.session, desk.key, request, desk.now, None)
    desk.note("create", made.id)
    return made


@app.command("enrolment")
def enrolment(
    *,
    worker: Annotated[
        str | None, typer.Option(help="The only worker that may use it; by default any one.")
    ] = None,
    valid: Annotated[str, typer.Option(metavar="SPAN", help="For how long.")] = "1h",
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """Make a code with which one worker fetches a token of its own, once."""
    lasts = durations.within("--valid", valid, enrolments.SHORTEST_S, enrolments.LONGEST_S)
    with _named("--worker", worker):
        request = enrolments.EnrolmentRequest(worker=worker, expires_in_s=lasts)
    with _desk(database, state_dir) as desk:
        made = enrolments.create(desk.session, desk.key, request, desk.now, None)
        desk.note("enrolment", made.id)
    if as_json:
        lines.say(made.model_dump_json())
        return
    lines.say(made.code)
    lines.remark(
        f"Good once, until {formats.moment(made.expires_at)}. On the machine of the worker: "
        "throughline worker enroll CODE --url ..."
    )


@app.command("sign-in")
def sign_in(
    *,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="THROUGHLINE_URL",
            help="Address of the service; by default where one of this state folder answers.",
        ),
    ] = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Print a link that signs a browser in on the dashboard, once and within 15 minutes.

    Whoever opens it is the administrator of this machine's own service for twelve hours.
    """
    local = () if url else tuple(local_service.urls(state_dir))
    if len(local) > 1:
        raise Stop(f"Services of {state_dir} answer at {', '.join(local)}: choose one with --url.")
    address = url or "".join(local) or options.DEFAULT_URL
    lines.say(local_token.link(Settings(state_dir=state_dir), address.rstrip("/")))
    lasts = formats.duration(sign_in_link.LASTS.total_seconds())
    lines.remark(f"Good once, within {lasts}. Whoever opens it first is signed in.")


@app.command("list")
def list_tokens(
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """List all tokens, the newest first, without what is secret of them."""
    with _desk(database, state_dir) as desk:
        tokens = token_store.every(desk.session, desk.now)
    if as_json:
        lines.say(f"[{','.join(token.model_dump_json() for token in tokens)}]")
        return
    bound = any(token.project for token in tokens)
    owner = ("project",) if bound else ()
    after = ("state", "made", "last used", "expires")
    drawn = console.table("id", "kind", "name", *owner, *after, whole=("id",))
    now = datetime.now(UTC)
    for token in tokens:
        used = formats.ago(token.last_used_at, now) if token.last_used_at else "never"
        ends = formats.moment(token.expires_at) if token.expires_at else "never"
        made = formats.ago(token.created_at, now)
        project = (token.project or "all",) if bound else ()
        drawn.add_row(token.id, token.kind, token.name, *project, token.state, made, used, ends)
    console.paper().print(drawn if tokens else "There are no tokens.")


@app.command("rotate")
def rotate(
    token_id: TokenId,
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """Give a token another secret and print it; the old one is refused from then on."""
    with _desk(database, state_dir) as desk:
        made = token_store.rotate(desk.session, desk.key, token_id, desk.now)
        desk.note("rotate", token_id)
    _print(made, as_json=as_json)


@app.command("revoke")
def revoke(
    token_id: TokenId,
    *,
    database: options.Database = None,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """End a token: it is refused within a second."""
    with _desk(database, state_dir) as desk:
        revoked = token_store.revoke(desk.session, token_id, desk.now)
        desk.note("revoke", token_id)
    lines.say(f"The token {revoked.id} ({revoked.kind} {revoked.name}) is revoked.")


@contextmanager
def _named(option: str, value: str | None) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise Stop(f"{option} {error.errors()[0]['msg']}; {value!r} is not.") from error


def _print(made: NewToken, *, as_json: bool) -> None:
    if as_json:
        lines.say(made.model_dump_json())
        return
    lines.say(made.token)
    bound = f" and the project {made.project}" if made.project else ""
    lines.remark(
        f"Keep it: it is not shown again. It is the token {made.id}, of the kind {made.kind}, "
        f"for {made.name}{bound}. Give it as THROUGHLINE_TOKEN, or in the header Authorization: "
        "Bearer."
    )
