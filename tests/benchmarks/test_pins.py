"""A revision may name exact versions of a few packages, and nothing that a command could obey."""

import pytest
from pydantic import TypeAdapter, ValidationError

from benchmarks.contracts import Revision
from benchmarks.contracts.pins import contradiction, needed_by, pins_of

GRAMMAR = TypeAdapter(Revision)


@pytest.mark.parametrize(
    ("revision", "pins"),
    [
        ("torch==2.12.0", (("torch", "2.12.0"),)),
        ("torch==2.14.0.dev20261120+cu130", (("torch", "2.14.0.dev20261120+cu130"),)),
        ("torch==2.12.0,triton==3.6.0", (("torch", "2.12.0"), ("triton", "3.6.0"))),
        ("abc", ()),
        ("2026-11-20", ()),
        ("feature/fast", ()),
    ],
)
def test_versions_are_told_from_other_names(revision: str, pins: object) -> None:
    assert GRAMMAR.validate_python(revision) == revision
    assert pins_of(revision) == pins


@pytest.mark.parametrize(
    "revision",
    [
        *("torch", "torch==2.12.*", "torch>=2.12", "torch=2.12.0", "torch==", "torch== 2.12"),
        *("torch==2.12.0;x", "torch==2.12.0\n", "torch==-x", "torch==2.12.0,", "torch==1,evil==1"),
        *("evil==1", "torch@https://x", "torch[x]==1", "--index==1", f"torch=={'1' * 60}"),
        ",".join(["torch==1.0.0"] * 5),
    ],
)
def test_nothing_else_names_versions(revision: str) -> None:
    assert pins_of(revision) == ()
    if revision != "torch":
        with pytest.raises(ValidationError, match="or exact versions of numpy, torch, torchvision"):
            GRAMMAR.validate_python(revision)


def test_a_job_of_versions_needs_a_worker_that_makes_them() -> None:
    needed = {"builds.torch": "yes", "builds.triton": "yes"}
    assert needed_by("torch==2.12.0,triton==3.6.0") == needed
    assert needed_by("abc") == {}


@pytest.mark.parametrize(
    ("revision", "had", "says"),
    [
        ("torch==2.12.0", "2.12.0", ""),
        ("torch==2.12.0", "2.12.0+cpu", ""),
        ("torch==2.12.0+cpu", "2.12.0+cpu", ""),
        ("abc", "2.12.0", ""),
        ("torch==2.12.0+cpu", "2.12.0+cu130", "had torch 2.12.0+cu130: it is not counted"),
        ("torch==2.1", "2.12.0", "The revision is torch==2.1, and the process had torch 2.12.0"),
        ("torch==2.12.0", "", "had no torch that it told of"),
        ("torch==2.12.0,triton==3.6.0", "2.12.0", "had no triton that it told of"),
    ],
)
def test_what_a_process_had_is_held_against_its_revision(
    revision: str, had: str, says: str
) -> None:
    told = contradiction(revision, {"sw.torch": had} if had else {})
    assert says in told
    assert bool(told) == bool(says)
