"""Names for rows, in the order in which the rows were made."""

from __future__ import annotations

import secrets
from datetime import datetime


def new_id(now: datetime, position: int = 0) -> str:
    """32 hexadecimal digits: milliseconds, place among those of the moment, 64 random bits."""
    milliseconds = int(now.timestamp() * 1_000)
    return f"{milliseconds:012x}{position:04x}{secrets.token_hex(8)}"
