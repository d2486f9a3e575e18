"""Sends one request to an address that was checked: no redirect, and an end in time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from ssl import SSLContext
from typing import TypeVar

import httpx2

from service.outbox.addresses import AddressRefused, resolve

T = TypeVar("T")
ANSWER_S = 10.0
"""For everything from the name's lookup to the answer's status."""
_SHOWN_BYTES = 200
"""Of an answer that is no success, for the operator."""
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
    _run(_Request("POST", url, message, private, within_s), _judge)


def exchange(
    method: str, url: httpx2.URL, message: Message, *, private: bool, within_s: float = ANSWER_S
) -> HttpAnswer:
    """Send a request, and return the answer, whatever its status.

    Raises:
        NotDelivered: none came within ``within_s`` seconds, or it is too large.
    """
    return _run(_Request(method, url, message, private, within_s), _whole)


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: httpx2.URL
    message: Message
    private: bool
    within_s: float


def _run(request: _Request, read: Callable[[httpx2.Response], Awaitable[T]]) -> T:
    try:
        return asyncio.run(_send(request, read))
    except AddressRefused as error:
        raise NotDelivered(str(error)) from None
    except TimeoutError:
        raise NotDelivered(f"No answer within {request.within_s:g} s.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise NotDelivered(f"The connection failed ({type(error).__name__}).") from None


async def _send(request: _Request, read: Callable[[httpx2.Response], Awaitable[T]]) -> T:
    url = request.url
    async with asyncio.timeout(request.within_s):
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await resolve(_host(url), port, private=request.private)
        # Without the environment's proxies: one would connect to an address that nobody checked.
        async with httpx2.AsyncClient(
            trust_env=False, verify=_tls(), timeout=None, follow_redirects=False
        ) as client:
            return await read(await _first_answer(client, request, addresses))


async def _first_answer(
    client: httpx2.AsyncClient, request: _Request, addresses: list[str]
) -> httpx2.Response:
    """Send to the first of the checked addresses that takes a connection, and to no other."""
    headers = request.message.headers | {"Host": request.url.netloc.decode("ascii")}
    for address in addresses:
        made = client.build_request(
            request.method,
            request.url.copy_with(host=address),
            headers=headers,
            content=request.message.body,
            extensions={"sni_hostname": _host(request.url)},
        )
        try:
            return await client.send(made, stream=True)
        except httpx2.ConnectError:
            if address == addresses[-1]:
                raise
    raise AddressRefused("The host has no address.")


async def _judge(answer: httpx2.Response) -> None:
    if answer.is_success:
        return
    if answer.is_redirect:
        raise NotDelivered(f"It answered {answer.status_code}: redirects are not followed.")
    beginning = b""
    async for piece in answer.aiter_raw(_SHOWN_BYTES):
        beginning = piece
        break
    said = readable(beginning)
    raise NotDelivered(f"It answered {answer.status_code}{f': {said}' if said else '.'}")


async def _whole(answer: httpx2.Response) -> HttpAnswer:
    body = b""
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > _MOST_BYTES:
            raise NotDelivered("Its answer is too large.")
    return HttpAnswer(answer.status_code, dict(answer.headers), body)


def readable(said: bytes) -> str:
    """The beginning of an answer, on one line, for the operator."""
    text = " ".join(said[:_SHOWN_BYTES].decode("utf-8", "replace").split())
    return "".join(letter for letter in text if letter.isprintable())


def _host(url: httpx2.URL) -> str:
    return url.raw_host.decode("ascii").strip("[]")


@cache
def _tls() -> SSLContext:
    return httpx2.create_ssl_context()
