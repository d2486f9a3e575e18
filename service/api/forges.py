"""The hooks of forges, by which comments on pull requests give commands."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import Depends, Path, Request
from sqlalchemy.orm import Session

from service.api.dependencies import get_database
from service.api.router import Noun
from service.auth.permissions import Permission
from service.comparisons import comment_commands
from service.comparisons.comment_commands import Command, CommandPlace
from service.database.session import now_of
from service.http.strict_route import JSON, takes
from service.models import EventKind
from service.outbox import deliveries, events, forge_comments
from service.outbox.post import NotDelivered
from service.outbox.sinks import Sinks, hooks
from service.schemas.document import Document
from service.schemas.errors import Forbidden, NotFound, Overloaded
from service.schemas.pull_requests import PullRequest

log = logging.getLogger(__name__)
router = Noun("/forges", "forges")
_BODY_B = 2**19
"""A hook repeats comment and description, of 64 Ki characters each."""
_ASK_S = 3.0
"""For each question to the forge: it waits 10 s for the answer to its hook."""


class HookAnswer(Document):
    """The answer to a hook."""

    obeyed: bool
    """False if it tells of no command, or of one from somebody who may not write."""


async def raw_body(request: Request) -> bytes:
    """The body as it was signed."""
    return await request.body()


@router.post("/{sink}/hook", status_code=202, responses=router.problems(403, 404, 503))
@Permission.OPEN.required
@takes(JSON, _BODY_B)
def receive_hook(
    sink: Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", max_length=64)],
    request: Request,
    body: Annotated[bytes, Depends(raw_body)],
) -> HookAnswer:
    """Take a hook of GitHub or GitLab that is signed with the sink's `hook_secret`.

    A new comment on a pull request that begins a line with `/throughline` is obeyed if its author
    may write to the repository, which the forge is asked each time.
    """
    sinks: Sinks = request.app.state.sinks
    forge = sinks.named(sink)
    if not isinstance(forge, hooks.HookedForge) or forge.hook_secret is None:
        raise NotFound("THROUGHLINE_OUTBOX names no such sink with a hook_secret.")
    try:
        spoken = forge.spoken(request.headers, body)
    except PermissionError:
        raise Forbidden("The hook is not signed with the sink's hook_secret.") from None
    command = None if spoken is None else comment_commands.read(spoken.body)
    if spoken is None or command is None:
        return HookAnswer(obeyed=False)
    try:
        api = forge.open(spoken.place.repository, _ASK_S)
        if not forge.permits(api, spoken):
            return HookAnswer(obeyed=False)
        ends = forge.ends(api, spoken.place) if command.verb == "gate" else None
    except NotDelivered as fault:
        log.warning("sink %s: a command was not obeyed: %s", sink, fault)
        raise Overloaded("The forge does not say who may write; send the hook again.") from None
    with get_database(request).writing() as session:
        _obey(session, forge, spoken, command, ends, sinks.address)
    return HookAnswer(obeyed=True)


def _obey(
    session: Session,
    forge: hooks.HookedForge,
    spoken: hooks.Spoken,
    command: Command,
    ends: tuple[str, str] | None,
    address: str,
) -> None:
    """Obey once, however often the hook comes, and have the answer written as a comment."""
    now, place = now_of(session), spoken.place
    if not forge_comments.claim(session, forge.name, f"command:{spoken.comment_id}", now):
        return
    key = f"{forge.forge}:{place.repository}#{place.number}"
    asked = CommandPlace(key, f"{forge.name}-{spoken.comment_id}", forge.project, address)
    at = None
    if ends is not None:
        where = {"repository": place.repository, "number": place.number, "head": ends[1]}
        at = ends[0], PullRequest(forge=forge.forge, **where)
    said = comment_commands.obey(session, command, asked, at, now)
    news = events.News(
        EventKind.COMMAND_ANSWERED,
        f"/throughline {command.verb} on {key}",
        said,
        spoken.comment_id,
        forge.project or "",
        pull_request=key,
    )
    deliveries.send_to(session, forge.name, news, now)
