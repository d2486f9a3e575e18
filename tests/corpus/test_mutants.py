"""The corpus can fail: with any one check switched off, some case is answered otherwise.

Where a later check would refuse the same request, the status differs, and the corpus sees that too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from builders.long_forms import long_but
from corpus import catalogue
from corpus.asking import Asker
from corpus.case import Case
from pydantic import BaseModel

from service.http import strict_route
from service.http.exchange import Exchange

Patch = Callable[[pytest.MonkeyPatch], None]
NOTHING_IS_TOO_MUCH = 10**12
SLOW_S = 0.5
"""Of processor time: twenty times what a refused body takes."""


def put(where: object, **changes: Any) -> Patch:
    """Make some names of a module mean something else."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in changes.items():
            monkeypatch.setattr(where, name, value)

    return patch


async def read_all(exchange: Exchange, _limit_b: int) -> bytes:
    """The whole body, whatever its size."""
    return await exchange._whole(NOTHING_IS_TOO_MUCH)


def look_away(*_anything: object) -> None:
    """A check that finds nothing."""


def python_parser(model: type[BaseModel], raw: bytes) -> BaseModel:
    """The standard library's reader of JSON, and the model afterwards."""
    return model.model_validate(json.loads(raw))


MUTANTS: dict[str, tuple[str, Patch]] = {
    "the standard library's parser": ("text", put(strict_route, parsed=python_parser)),
    "any number of values": ("structure", put(strict_route.bounds, SIGNS=NOTHING_IS_TOO_MUCH)),
    "any size": ("structure", put(Exchange, body=read_all)),
    "any media type": ("address", put(strict_route, _check_type=look_away)),
    "any address and framing": ("address", put(Exchange, flaw=look_away)),
    "unknown parameters": ("address", put(strict_route, _check_known=look_away)),
}


@pytest.mark.parametrize(
    ("family", "patch"), long_but(MUTANTS.values(), 0, 2, 4, 5), ids=list(MUTANTS)
)
def test_a_check_that_is_switched_off_is_missed(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, family: str, patch: Patch
) -> None:
    patch(monkeypatch)
    with Asker(sqlite_url) as asker:
        assert next(caught(asker, family), None), "no case of the corpus needs this check"


def caught(asker: Asker, family: str) -> Iterator[Case]:
    """The cases that are answered otherwise than they should be, too late, or not at all."""
    for case in catalogue.families()[family]:
        try:
            answer = asker.ask(case)
        except Exception:  # whatever a missing check lets through
            yield case
        else:
            if answer.status not in case.expected or answer.cpu_s > SLOW_S:
                yield case
