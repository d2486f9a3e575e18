"""The trial can fail: with any one protection switched off it does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from trials.chaos import mutants
from trials.chaos.mutants import MUTANTS
from trials.chaos.trial import trial

LONG = ("answer after commit",)
"""Mutants whose trial takes longest: `make soak` has them."""


def test_with_every_protection_on_nothing_is_possible(sqlite_url: str, tmp_path: Path) -> None:
    assert trial(sqlite_url, tmp_path) == []


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * (one in LONG)) for one in MUTANTS]
)
def test_a_protection_that_is_switched_off_is_missed(
    name: str, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        for statement in MUTANTS[name].statements:
            connection.execute(statement)
        connection.commit()
    mutants.apply(name, monkeypatch.setattr)
    found = trial(sqlite_url, tmp_path)
    assert any(each.startswith(MUTANTS[name].betrayed_by) for each in found), found
