"""Thousands of requests, each byte for byte: no fault, no hang, and nothing changed by a refusal.

The same on SQLite and on PostgreSQL, to the letter of the answer. ``python -m corpus`` (with
``tests`` on the path) lists them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from corpus import catalogue
from corpus.asking import Answer, Asker
from corpus.case import Case

MOST_CPU_S = 2.0
"""Of processor time, on both databases: a slow parse is slow twice. Processor time of the whole
process also counts a garbage collection that falls into one of the two answers."""


@pytest.fixture
def both(sqlite_url: str, postgres_url: str) -> Iterator[tuple[Asker, Asker]]:
    with Asker(sqlite_url) as lite, Asker(postgres_url) as full:
        yield lite, full


SOME = 5
"""The short form asks one of so many neighbours, which differ by little."""


def each_family(test: Callable[..., None]) -> Callable[..., None]:
    """Ask some of the cases of each family, and all of them where it may take long."""
    every = pytest.mark.parametrize("every", [SOME, pytest.param(1, marks=pytest.mark.slow)])
    return every(pytest.mark.parametrize("family", catalogue.MODULES)(test))


def cases(family: str, every: int, *, accepted: bool) -> list[Case]:
    return [one for one in catalogue.families()[family] if one.accepted is accepted][::every]


def told(case: Case, answer: Answer) -> str:
    request = f"{case.method} {case.target[:100]} {case.body[:200]!r}"
    return f"{case.name}: {request}: {answer.status} {answer.body[:300]!r}"


def faults(case: Case, answers: tuple[Answer, Answer]) -> Iterator[str]:
    lite, full = answers
    if lite.status not in case.expected:
        yield f"not {sorted(case.expected)}: {told(case, lite)}"
    if min(lite.cpu_s, full.cpu_s) > MOST_CPU_S:
        yield f"takes {lite.cpu_s:.1f} s and {full.cpu_s:.1f} s: {told(case, lite)}"
    if lite.status != full.status:
        yield f"PostgreSQL answers {full.status}: {told(case, lite)}"
    if lite.status >= 400 and lite.body != full.body:
        yield f"PostgreSQL says {full.body[:300]!r}: {told(case, lite)}"
    if lite.status >= 400 and case.method != "HEAD" and not is_problem(lite):
        yield f"no problem document: {told(case, lite)}"


def is_problem(answer: Answer) -> bool:
    if answer.headers[b"content-type"] != b"application/problem+json":
        return False
    said = answer.document
    return said["status"] == answer.status and bool(said["detail"] and said["title"])


def test_there_are_thousands_of_them_and_no_two_are_the_same() -> None:
    listed = [case for family in catalogue.families().values() for case in family]
    assert len({case.request for case in listed}) == len(listed) >= 3_000
    assert sum(not case.accepted for case in listed) >= 3_000


@each_family
def test_what_is_refused_changes_nothing_and_is_refused_alike(
    both: tuple[Asker, Asker], family: str, every: int
) -> None:
    before = [asker.digest() for asker in both]
    found = []
    for case in cases(family, every, accepted=False):
        answers = both[0].ask(case), both[1].ask(case)
        found += faults(case, answers)
    assert not found, f"{len(found)} faults:\n" + "\n".join(found[:40])
    assert [asker.digest() for asker in both] == before


@each_family
def test_what_is_accepted_reads_back_equal(
    both: tuple[Asker, Asker], family: str, every: int
) -> None:
    found = []
    for case in cases(family, every, accepted=True):
        answers = both[0].ask(case), both[1].ask(case)
        found += faults(case, answers)
        if case.reads_back is None or not all(answer.status < 300 for answer in answers):
            continue
        for asker, answer in zip(both, answers, strict=True):
            stored = read_back(asker, case, answer)
            if not same(stored, case.reads_back):
                found.append(f"reads back as {stored!r}: {told(case, answer)}")
    assert not found, f"{len(found)} faults:\n" + "\n".join(found[:40])


def read_back(asker: Asker, case: Case, answer: Answer) -> Any:
    """What the database gives for the value that the case stored, asked for anew."""
    field = case.name.partition(":")[0]
    if field == "label":
        workers = asker.json("GET", "/workers")["items"]
        return next(each for each in workers if each["name"] == "corpus")["labels"]["note"]
    if field in ("throughput", "step"):
        return asker.progress()[field]
    made = answer.document
    if field == "requirement":
        return asker.json("GET", f"/submissions/{made['id']}")["jobs"][0]["requires"]["note"]
    return asker.json("GET", f"/jobs/{made['id']}")[field]


def same(stored: Any, sent: Any) -> bool:
    """Whether two values are equal in type and, for a float, in every bit."""
    if type(stored) is not type(sent):
        return False
    if isinstance(sent, float):
        return struct.pack("<d", stored) == struct.pack("<d", sent)
    return bool(stored == sent)
