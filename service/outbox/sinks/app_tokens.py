"""Tokens of a GitHub App's installations, each kept until shortly before it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

import jwt
from pydantic import SecretStr

from service.outbox.post import NotDelivered
from service.outbox.sinks.forge_api import ForgeApi

_LASTS_S, _SKEW_S = 540, 60
"""GitHub takes a signed token for 10 minutes at most, by its own clock."""
_EARLY_S = 120.0
"""A token is not begun with when it ends so soon."""


_KEPT: dict[tuple[str, int, str], tuple[str, float]] = {}
"""Tokens, and when they end (Unix time), by address, App and repository."""


def installation_token(
    begin: Callable[[str], ForgeApi], app: int, key: SecretStr, repository: str
) -> str:
    """The token of an App where it is installed; ``begin`` opens a conversation with a token.

    Raises:
        NotDelivered: GitHub gives none, or the key is no private key.
    """
    signed = signed_token(app, key)
    api = begin(signed)
    name = (api.base, app, repository)
    kept = _KEPT.get(name)
    if kept is None or kept[1] - time.time() < _EARLY_S:
        installation = api.call("GET", f"repos/{repository}/installation")["id"]
        made = api.call("POST", f"app/installations/{int(installation)}/access_tokens", {})
        ends = datetime.fromisoformat(made["expires_at"])
        kept = _KEPT[name] = made["token"], ends.timestamp()
    return kept[0]


def forget(app: int | None) -> None:
    """Drop an App's tokens, of which GitHub took one no more."""
    for name in [name for name in _KEPT if name[1] == app]:
        _KEPT.pop(name, None)


def signed_token(app: int, key: SecretStr) -> str:
    """The token by which an App shows who it is (RS256)."""
    now = int(time.time())
    claims = {"iat": now - _SKEW_S, "exp": now + _LASTS_S, "iss": str(app)}
    try:
        return jwt.encode(claims, key.get_secret_value(), algorithm="RS256")
    except (ValueError, TypeError, jwt.PyJWTError):
        raise NotDelivered("private_key is no RSA key in PEM.", final=True) from None
