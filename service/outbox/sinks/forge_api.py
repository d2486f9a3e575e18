"""Requests to the API of a forge: bounded in time, and every refusal a sentence."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import orjson

from service.outbox import post

ATTEMPT_S = 40.0
"""For all requests of one attempt: less than a claim of a delivery or a comment holds."""
PER_PAGE = 100
_PAGES = 30
_FINAL = frozenset({400, 405, 406, 410, 413, 415, 422, 451})
"""The same request would be refused again."""
_LIMITED_S, _LONGEST_S = 60.0, 6 * 3_600.0
"""Pause after a limit that does not say for how long, and the longest one."""
_NOT_JSON = b")]}'\n"
"""Gerrit begins each document so that no browser runs it."""


class ForgeRefused(post.NotDelivered):
    """The forge answered with an error."""

    def __init__(self, sentence: str, status: int, *, wait_s: float, final: bool) -> None:
        super().__init__(sentence, wait_s=wait_s, final=final)
        self.status = status


@dataclass
class ForgeApi:
    """One attempt's conversation with a forge."""

    title: str
    base: str
    """The address before each path, without a slash at its end."""
    private: bool
    within_s: float
    """For one request."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    ends_s: float = field(default_factory=lambda: time.monotonic() + ATTEMPT_S)

    def call(self, method: str, path: str, document: object = None) -> Any:
        """Send a request, and return the document of its answer.

        Raises:
            ForgeRefused: the forge answered with an error.
            NotDelivered: it did not answer.
        """
        left_s = min(self.within_s, self.ends_s - time.monotonic())
        if left_s <= 0:
            raise post.NotDelivered(f"{self.title} is too slow: {ATTEMPT_S:g} s are over.")
        body = b"" if document is None else orjson.dumps(document)
        url = httpx2.URL(f"{self.base}/{path}")
        message = post.Message(post.JSON | dict(self.headers), body)
        answer = post.exchange(method, url, message, private=self.private, within_s=left_s)
        if not 200 <= answer.status < 300:
            raise self._refused(method, path, answer)
        if not answer.body:
            return None
        try:
            return orjson.loads(answer.body.removeprefix(_NOT_JSON))
        except orjson.JSONDecodeError:
            raise post.NotDelivered(f"{self.title} answered with what is no JSON.") from None

    def pages(self, path: str) -> Iterator[Any]:
        """Yield what the pages of a list hold."""
        mark = "&" if "?" in path else "?"
        for number in range(1, _PAGES + 1):
            page = self.call("GET", f"{path}{mark}per_page={PER_PAGE}&page={number}")
            yield from page
            if len(page) < PER_PAGE:
                return

    def _refused(self, method: str, path: str, answer: post.HttpAnswer) -> ForgeRefused:
        said = _message(answer.body)
        for secret in self.secrets:
            said = said.replace(secret, "***")
        where = f"{self.title} answered {answer.status} to {method} /{path.partition('?')[0]}"
        if 300 <= answer.status < 400:
            said = "redirects are not followed; was the repository moved?"
        wait_s = _wait_s(answer, said)
        if wait_s:
            said = f"its limit of requests is reached. {said}"
        sentence = f"{where}: {said}" if said else f"{where}."
        return ForgeRefused(sentence, answer.status, wait_s=wait_s, final=answer.status in _FINAL)


def _message(body: bytes) -> str:
    """The sentence of an error, as each forge has it somewhere else."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return post.readable(body)
    if not isinstance(document, dict):
        return post.readable(body)
    said = document.get("message") or document.get("error_description") or document.get("error")
    return post.readable(said.encode() if isinstance(said, str) else body)


def _wait_s(answer: post.HttpAnswer, said: str) -> float:
    """For how long a limit asks to wait; 0 if the answer is no limit."""
    headers = answer.headers
    after = headers.get("retry-after", "")
    if answer.status not in (403, 429) and not (answer.status == 503 and after):
        return 0.0
    if after.isdecimal():
        return min(float(after), _LONGEST_S)
    for name in ("x-ratelimit", "ratelimit"):
        reset = headers.get(f"{name}-reset", "")
        if headers.get(f"{name}-remaining") == "0" and reset.isdecimal():
            return min(max(float(reset) - time.time(), 1.0), _LONGEST_S)
    return _LIMITED_S if answer.status == 429 or "rate limit" in said.lower() else 0.0
