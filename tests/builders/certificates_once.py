"""Certificates of the machine that a process reads once, not once for each client of HTTP.

To read them takes 20 ms of a processor, thousands of times in a run: for each question of a test
that waits for a service, and for each command. No client here speaks to anybody over TLS by them.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from httpx2._transports import default

_read = default.create_ssl_context


@cache
def _of_the_machine(trust_env: bool, *_named: str | None) -> Any:
    return _read(verify=True, trust_env=trust_env)


def _shared(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
    if verify is not True or cert is not None:
        return _read(verify=verify, cert=cert, trust_env=trust_env)
    named = (os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    return _of_the_machine(trust_env, *named)


def apply() -> None:
    """Let all clients of this process, and of those forked from it, share what it reads."""
    default.create_ssl_context = _shared
    _shared()
