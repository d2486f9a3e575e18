"""Sends one request to an address that was checked: no redirect, and an end in time."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import cache
from ssl import SSLContext

import httpx2

from service.outbox.addresses import AddressRefused, resolve

ANSWER_S = 10.0
"""For everything from the name's lookup to the answer's status."""
_SHOWN_BYTES = 200
"""Of an answer that is no success, for the operator."""
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


def post(url: httpx2.URL, message: Message, *, private: bool, within_s: float = ANSWER_S) -> None:
    """Send a message; returns once the receiver has answered with success (2xx).

    Raises:
        NotDelivered: it has not, within ``within_s`` seconds or at all.
    """
    try:
        asyncio.run(_post(url, message, private, within_s))
    except AddressRefused as error:
        raise NotDelivered(str(error)) from None
    except TimeoutError:
        raise NotDelivered(f"No answer within {within_s:g} s.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise NotDelivered(f"The connection failed ({type(error).__name__}).") from None


async def _post(url: httpx2.URL, message: Message, private: bool, within_s: float) -> None:
    async with asyncio.timeout(within_s):
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await resolve(_host(url), port, private=private)
        # Without the environment's proxies: one would connect to an address that nobody checked.
        async with httpx2.AsyncClient(
            trust_env=False, verify=_tls(), timeout=None, follow_redirects=False
        ) as client:
            await _try_each(client, url, addresses, message)


async def _try_each(
    client: httpx2.AsyncClient, url: httpx2.URL, addresses: list[str], message: Message
) -> None:
    """Send to the first of the checked addresses that takes a connection, and to no other."""
    headers = message.headers | {"Host": url.netloc.decode("ascii")}
    for address in addresses:
        request = client.build_request(
            "POST",
            url.copy_with(host=address),
            headers=headers,
            content=message.body,
            extensions={"sni_hostname": _host(url)},
        )
        try:
            answer = await client.send(request, stream=True)
        except httpx2.ConnectError:
            if address == addresses[-1]:
                raise
            continue
        await _judge(answer)
        return


async def _judge(answer: httpx2.Response) -> None:
    if answer.is_success:
        return
    if answer.is_redirect:
        raise NotDelivered(f"It answered {answer.status_code}: redirects are not followed.")
    beginning = b""
    async for piece in answer.aiter_raw(_SHOWN_BYTES):
        beginning = piece
        break
    said = " ".join(beginning[:_SHOWN_BYTES].decode("utf-8", "replace").split())
    said = "".join(letter for letter in said if letter.isprintable())
    raise NotDelivered(f"It answered {answer.status_code}{f': {said}' if said else '.'}")


def _host(url: httpx2.URL) -> str:
    return url.raw_host.decode("ascii").strip("[]")


@cache
def _tls() -> SSLContext:
    return httpx2.create_ssl_context()
