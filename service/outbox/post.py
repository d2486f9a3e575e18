"""Sends one request to an address that was checked: no redirect, and an end in time."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from ssl import SSLContext
from urllib.parse import unquote

import httpx2

from service.outbox.addresses import AddressRefused, resolve

ANSWER_S = 10.0
"""For everything from the name's lookup to the answer's status."""
_SHOWN_BYTES = 200
"""Of an answer that is no success, for the operator."""
_SECRET_LETTERS = 8
"""Parts of an address that are as long may be secret; the answer may be cut within one."""
_MOST_BYTES = 4 * 2**20
"""Of an answer that is read: a page of a hundred long comments."""
# At INFO it writes every address down, and the address of a chat's hook is a secret.
logging.getLogger("httpx2").setLevel(logging.WARNING)


JSON = {"Content-Type": "application/json", "User-Agent": "throughline"}


@dataclass(frozen=True, slots=True)
class Message:
    """Headers and body of one request."""

    headers: dict[str, str]
    body: bytes


class NotDelivered(Exception):
    """The receiver did not take the message; the sentence says why, and holds no address.

    After ``wait_s`` seconds at the earliest it is sent again, and never if it is ``final``.
    """

    def __init__(self, sentence: str, *, wait_s: float = 0.0, final: bool = False) -> None:
        super().__init__(sentence)
        self.wait_s = wait_s
        self.final = final


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a receiver answered."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes


def post(url: httpx2.URL, message: Message, *, private: bool, within_s: float = ANSWER_S) -> None:
    """Send a message; returns once the receiver has answered with success (2xx).

    Raises:
        NotDelivered: it has not, within ``within_s`` seconds or at all.
    """
    answer = _exchange("POST", url, message, private, within_s, whole=False)
    if 300 <= answer.status < 400:
        raise NotDelivered(f"It answered {answer.status}: redirects are not followed.")
    if not 200 <= answer.status < 300:
        said = _without_address(readable(answer.body), url)
        raise NotDelivered(f"It answered {answer.status}{f': {said}' if said else '.'}")


def exchange(
    method: str, url: httpx2.URL, message: Message, *, private: bool, within_s: float = ANSWER_S
) -> HttpAnswer:
    """Send a request, and return the answer, whatever its status.

    Raises:
        NotDelivered: none came within ``within_s`` seconds, or it is too large.
    """
    answer = _exchange(method, url, message, private, within_s, whole=True)
    if len(answer.body) > _MOST_BYTES:
        raise NotDelivered("Its answer is too large.")
    return answer


def _exchange(
    method: str, url: httpx2.URL, message: Message, private: bool, within_s: float, *, whole: bool
) -> HttpAnswer:
    try:
        return asyncio.run(_send(method, url, message, private, within_s, whole))
    except AddressRefused as error:
        raise NotDelivered(str(error)) from None
    except TimeoutError:
        raise NotDelivered(f"No answer within {within_s:g} s.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise NotDelivered(f"The connection failed ({type(error).__name__}).") from None


async def _send(
    method: str, url: httpx2.URL, message: Message, private: bool, within_s: float, whole: bool
) -> HttpAnswer:
    async with asyncio.timeout(within_s):
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await resolve(_host(url), port, private=private)
        # Without the environment's proxies: one would connect to an address that nobody checked.
        async with httpx2.AsyncClient(
            trust_env=False, verify=_tls(), timeout=None, follow_redirects=False
        ) as client:
            answer = await _try_each(client, method, url, addresses, message)
            body = await _beginning(answer, _MOST_BYTES if whole else _SHOWN_BYTES, whole=whole)
            return HttpAnswer(answer.status_code, dict(answer.headers), body)


async def _try_each(
    client: httpx2.AsyncClient, method: str, url: httpx2.URL, addresses: list[str], message: Message
) -> httpx2.Response:
    """Send to the first of the checked addresses that takes a connection, and to no other."""
    headers = message.headers | {"Host": url.netloc.decode("ascii")}
    for address in addresses:
        request = client.build_request(
            method,
            url.copy_with(host=address),
            headers=headers,
            content=message.body,
            extensions={"sni_hostname": _host(url)},
        )
        try:
            return await client.send(request, stream=True)
        except httpx2.ConnectError:
            if address == addresses[-1]:
                raise
    raise AddressRefused("The host has no address.")


async def _beginning(answer: httpx2.Response, most: int, *, whole: bool) -> bytes:
    """Read what is wanted of a body: of a success nothing, unless the ``whole`` is."""
    body = b""
    if answer.is_success and not whole:
        return body
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > most:
            break
    return body


def readable(said: bytes) -> str:
    """The beginning of an answer, on one line, for the operator."""
    text = " ".join(said[:_SHOWN_BYTES].decode("utf-8", "replace").split())
    return "".join(letter for letter in text if letter.isprintable())


def _without_address(said: str, url: httpx2.URL) -> str:
    """Hide what an answer repeats of the address: ``Cannot POST /services/T0/B0/...`` is usual."""
    path = url.raw_path.decode("ascii")
    for part in re.split(r"[/?&=]", f"{path}/{unquote(path)}"):
        if len(part) >= _SECRET_LETTERS:
            said = re.sub(re.escape(part[:_SECRET_LETTERS]) + r"[^\s/?&]*", "***", said)
    return said


def _host(url: httpx2.URL) -> str:
    return url.raw_host.decode("ascii").strip("[]")


@cache
def _tls() -> SSLContext:
    return httpx2.create_ssl_context()
