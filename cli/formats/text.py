"""Text of strangers as one line, without control characters and without passwords."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_SECRET = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#]*@")
_QUERY = re.compile(
    r"(?i)([?&][\w.-]*(?:token|password|passwd|secret|signature|sig|api_?key)[\w.-]*=)[^\s&#\"']*"
)

_SECRET_KEY = re.compile(
    r"(?i)(^|[._-])(password|passwd|secret|api_?key|(access|api|auth|bearer|hf)_?token)$"
)


def names_secret(key: str) -> bool:
    """True for a key such as ``hf_token``, whose value nobody else should see."""
    return _SECRET_KEY.search(key) is not None


def printable(text: str) -> str:
    """Make ``text`` one line and leave out user, password and tokens of addresses in it."""
    if "://" in text:
        text = _QUERY.sub(r"\1", _SECRET.sub(r"\1", text))
    return text if text.isprintable() else _CONTROL.sub(" ", text)


def short(text: str) -> str:
    """Make ``text`` fit for a sentence: 60 characters at most."""
    line = printable(text)
    return line if len(line) <= 60 else line[:57] + "..."
