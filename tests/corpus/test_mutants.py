"""The corpus can fail: with any one check switched off, some case is answered otherwise.

Where a later check would refuse the same request, the status differs, and the corpus sees that too.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import jiter
import pytest
from corpus import catalogue
from corpus.asking import Asker
from corpus.case import Case

from service import app
from service.http import request_checks, strict_json, strict_route
from service.http.body_reader import Bounds

Patch = Callable[[pytest.MonkeyPatch], None]
NOTHING_IS_TOO_MUCH = 10**12


def put(where: object, **changes: Any) -> Patch:
    """Make some names of a module mean something else."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in changes.items():
            monkeypatch.setattr(where, name, value)

    return patch


def rewritten(name: str, old: str, new: str) -> Patch:
    """Make a function of the parser's say something else."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        source = inspect.getsource(getattr(strict_json, name))
        assert old in source
        exec(source.replace(old, new), vars(strict_json), changed := {})
        monkeypatch.setattr(strict_json, name, changed[name])

    return patch


def unlimited(_settings: object) -> Bounds:
    most = NOTHING_IS_TOO_MUCH
    return Bounds(body_b=most, result_b=most, held_b=most, timeout_s=60)


def last_name_wins(body: bytes) -> Any:
    return jiter.from_json(body, allow_inf_nan=False)


def take_any_type(_path: str, _headers: object) -> bool:
    return True


def look_away(*_anything: object) -> None:
    """A check that finds nothing."""


MUTANTS: dict[str, tuple[str, Patch]] = {
    "the standard library's parser": ("text", put(strict_json, read=json.loads)),
    "names may repeat": ("structure", put(strict_json, _parse=last_name_wins)),
    "numbers may be infinite": ("numbers", put(strict_json, isfinite=lambda _: True)),
    "integers may have any size": (
        *("numbers", put(strict_json, _INTEGERS=range(-(10**5_000), 10**5_000))),
    ),
    "strings may hold NUL": ("text", rewritten("_check_values", '"\\0" in value', "False")),
    "names may hold NUL": ("results", rewritten("check", '"\\0" in "".join(container)', "False")),
    "any depth": ("structure", put(strict_json, DEPTH=NOTHING_IS_TOO_MUCH)),
    "any number of fields": ("structure", put(strict_json, KEYS=NOTHING_IS_TOO_MUCH)),
    "any number of values": ("structure", put(strict_json, VALUES=NOTHING_IS_TOO_MUCH)),
    "any size": ("structure", put(app, bounds_of=unlimited)),
    "any media type": ("address", put(request_checks, check_media_type=take_any_type)),
    "any bytes in an address": ("address", put(request_checks, _check_address=look_away)),
    "parameters may repeat": ("address", put(request_checks, _check_parameters=look_away)),
    "headers may repeat": ("address", put(request_checks, _ONCE=frozenset())),
    "any number of headers": ("address", put(request_checks, HEADERS=NOTHING_IS_TOO_MUCH)),
    "headers of any size": ("address", put(request_checks, HEADERS_B=NOTHING_IS_TOO_MUCH)),
    "addresses of any length": ("address", put(request_checks, ADDRESS_B=NOTHING_IS_TOO_MUCH)),
    "any framing": ("address", put(request_checks, _check_framing=look_away)),
    "unknown parameters": ("address", put(strict_route, _check_known=look_away)),
}


@pytest.mark.parametrize(("family", "patch"), MUTANTS.values(), ids=list(MUTANTS))
def test_a_check_that_is_switched_off_is_missed(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, family: str, patch: Patch
) -> None:
    patch(monkeypatch)
    with Asker(sqlite_url) as asker:
        assert next(caught(asker, family), None), "no case of the corpus needs this check"


def caught(asker: Asker, family: str) -> Iterator[Case]:
    """The cases that are answered otherwise than they should be, or not at all."""
    for case in catalogue.families()[family]:
        try:
            status = asker.ask(case).status
        except Exception:  # whatever a missing check lets through
            yield case
        else:
            if status not in case.expected:
                yield case
