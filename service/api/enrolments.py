"""The routes by which a worker gets a token of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request

from service.api import dependencies
from service.api.router import Noun
from service.auth import audit, enrolment
from service.auth.authenticate import Authenticator
from service.auth.enrolment import EnrolmentRequest, NewEnrolment, Redemption
from service.auth.permissions import Permission
from service.auth.principal import Principal
from service.schemas.access import NewToken

router = Noun("/enrolments", "access")


async def count_failures(request: Request) -> AsyncIterator[None]:
    """Let an address try codes only so often."""
    authenticator: Authenticator = request.app.state.authenticator
    with authenticator.trying(request) as wait_s:
        if wait_s:
            raise authenticator.too_many(wait_s)
        yield


@router.post("", status_code=201)
@Permission.ADMIN.required
def create(
    request: EnrolmentRequest,
    session: dependencies.DatabaseSession,
    key: dependencies.ServerKey,
    now: dependencies.Now,
    caller: dependencies.Caller,
) -> NewEnrolment:
    """Make a code that one worker may turn into a token, once and before it expires."""
    made = enrolment.create(session, key, request, now, caller.token_id)
    audit.made(session, made.id)
    return made


@router.post("/redeem", status_code=201)
@Permission.OPEN.required
def redeem(
    shown: Redemption,
    _: Annotated[None, Depends(count_failures, scope="function")],
    session: dependencies.DatabaseSession,
    key: dependencies.ServerKey,
    now: dependencies.Now,
) -> NewToken:
    """Turn a code into the token of the worker that shows it; the code is all that is asked for."""
    made = enrolment.redeem(session, key, shown, now)
    who = Principal(f"worker {made.name}", token_id=made.id)
    audit.record(session, who, "POST /api/v1/enrolments/redeem", f"token {made.id}", now)
    return made
