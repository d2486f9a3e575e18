"""The form of a token: ``tl_<kind>_<id>_<secret>_<checksum>``, in hexadecimal but for the kind.

The prefix is for people and for scanners that look for leaked secrets; the id (64 bits) finds the
row; the secret (256 bits) is the proof; the checksum (CRC-32 of all before it) tells a typo from a
wrong token without asking a database. A keyed hash is enough for a secret that nobody chose.
"""

from __future__ import annotations

import hmac
import re
import secrets
import zlib
from dataclasses import dataclass, field

ENROLMENT = "enrol"
"""What stands in place of the kind in an enrolment code, which is no token."""
SIGN_IN = "signin"
"""The same in the code of a link that signs in, once."""
_FORM = re.compile(
    r"tl_(read|submit|worker|admin|enrol|signin)_([0-9a-f]{16})_[0-9a-f]{64}_[0-9a-f]{8}"
)


class Mistyped(Exception):
    """The text is no token: cut off, mistyped, or something else altogether."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it was handed out, or as somebody shows it."""

    kind: str
    id: str
    text: str = field(repr=False)
    """All of it; in no log, no error and no row."""


def new(kind: str) -> Token:
    """Draw a token of a kind."""
    return renewed(kind, secrets.token_hex(8))


def renewed(kind: str, token_id: str) -> Token:
    """Draw another secret for an id."""
    body = f"tl_{kind}_{token_id}_{secrets.token_hex(32)}"
    return Token(kind, token_id, f"{body}_{_checksum(body)}")


def read(text: str) -> Token:
    """Read a token.

    Raises:
        Mistyped: its form or its checksum is wrong.
    """
    match = _FORM.fullmatch(text)
    body, _, checksum = text.rpartition("_")
    if match is None or _checksum(body) != checksum:
        raise Mistyped
    return Token(match[1], match[2], text)


def digest(key: bytes, token: Token) -> str:
    """Return what is stored of a token: 64 hexadecimal digits, worth nothing without the key."""
    return hmac.digest(key, token.text.encode(), "sha256").hex()


def matches(key: bytes, token: Token, stored: str) -> bool:
    """Return True if ``stored`` is the digest of the token; compares in constant time."""
    return hmac.compare_digest(digest(key, token), stored)


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
