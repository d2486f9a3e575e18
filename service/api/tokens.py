"""The routes of tokens: create, list, rotate and revoke them."""

from __future__ import annotations

from service.api import dependencies
from service.api.router import Noun
from service.auth import audit, token_store
from service.auth.permissions import Permission
from service.auth.token_store import TokenRequest
from service.schemas.access import NewToken, TokenView
from service.schemas.jobs import Listing

router = Noun("/tokens", "access")


@router.post("", status_code=201)
@Permission.ADMIN.required
def create(
    request: TokenRequest,
    session: dependencies.DatabaseSession,
    key: dependencies.ServerKey,
    now: dependencies.Now,
    caller: dependencies.Caller,
) -> NewToken:
    """Make a token; the answer is the only place where it is ever told."""
    made = token_store.create(session, key, request, now, caller.token_id)
    audit.made(session, made.id)
    return made


@router.get("")
@Permission.ADMIN.required
def list_tokens(session: dependencies.DatabaseSession, now: dependencies.Now) -> Listing[TokenView]:
    """List all tokens, the newest first, without what is secret of them."""
    return Listing(items=token_store.every(session, now), next_cursor=None)


@router.post("/{token_id}/rotate", responses=router.problems(404, 409))
@Permission.ADMIN.required
def rotate(
    token_id: dependencies.TokenId,
    session: dependencies.DatabaseSession,
    key: dependencies.ServerKey,
    now: dependencies.Now,
) -> NewToken:
    """Give a token another secret; the old one is refused from the next request on.

    Other replicas of the service refuse it within a second.
    """
    return token_store.rotate(session, key, token_id, now)


@router.post("/{token_id}/revoke", responses=router.problems(404))
@Permission.ADMIN.required
def revoke(
    token_id: dependencies.TokenId, session: dependencies.DatabaseSession, now: dependencies.Now
) -> TokenView:
    """End a token; one that is over stays as it is.

    It is refused from the next request on, by other replicas of the service within a second.
    """
    return token_store.revoke(session, token_id, now)
