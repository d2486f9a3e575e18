"""How a bisection reads."""

from __future__ import annotations

import pytest

from service.schemas.bisections import (
    BisectedCommit,
    BisectionOutcome,
    BisectionStage,
    RangeCommit,
)
from service.wording.bisected import next_words, noun_of, outcome_words, probably, roll_words

COMMIT = RangeCommit(revision="c5", author="Ada", title="Fuse")


@pytest.mark.parametrize(
    ("probability", "said"),
    [(1.0, "99.9 %"), (0.9999, "99.9 %"), (0.9949, "99.4 %"), (0.0, "0.0 %")],
)
def test_no_probability_reads_as_certain(probability: float, said: str) -> None:
    assert probably(probability).replace("\u00a0", " ") == said


@pytest.mark.parametrize(
    ("outcome", "named", "share", "said"),
    [
        (BisectionOutcome.CULPRIT, [COMMIT], 1.0, 'c5 (Ada, "Fuse") changed it. Prob'),
        (BisectionOutcome.CULPRIT, [COMMIT], 0.5, "It makes 50.0 % of the change: another commit"),
        (BisectionOutcome.RANGE, [COMMIT] * 2, 1.0, "One of 2 commits changed it, up to c5 (Ada"),
        (BisectionOutcome.ENVIRONMENT, [], None, "The ends do not differ today"),
        (BisectionOutcome.NOT_REPRODUCED, [], None, "as fast today as before the change"),
        (BisectionOutcome.UNDECIDED, [COMMIT], None, 'c5 (Ada, "Fuse") is the likeliest. Prob'),
    ],
)
def test_each_outcome_is_a_sentence_with_its_cost(
    outcome: BisectionOutcome, named: list[RangeCommit], share: float | None, said: str
) -> None:
    told = outcome_words(outcome, named, 0.995, share, 22).replace("\u00a0", " ")
    assert said in told
    assert told.endswith("Probability 99.5 %, 22 processes.")


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (BisectionOutcome.CULPRIT, 'c5 (Ada, "Fuse") changed it. It makes 66.0 % of the change, '),
        (BisectionOutcome.RANGE, "those between cannot be measured. It makes 66.0 % of the change"),
    ],
)
def test_further_culprits_are_named_with_their_shares(outcome: BisectionOutcome, said: str) -> None:
    other, last = RangeCommit(revision="c9", author="Bob"), RangeCommit(revision="c15")
    others = [([other], 0.2), ([other, last], 0.14)]
    told = outcome_words(outcome, [COMMIT], 0.995, 0.66, 40, others).replace("\u00a0", " ")
    assert said in told
    assert "the change, c9 (Bob) 20.0 %, one of 2 commits up to c15 14.0 %. Probability" in told


def test_releases_are_no_commits() -> None:
    first, last = RangeCommit(revision="torch==2.12.0"), RangeCommit(revision="torch==2.13.0")

    def told(outcome: BisectionOutcome, *named: RangeCommit, share: float = 1.0) -> str:
        return outcome_words(outcome, named, 0.995, share, 22, noun=noun_of("torch==2.10.0"))

    assert told(BisectionOutcome.CULPRIT, first).startswith("torch==2.12.0 changed it. Probab")
    assert told(BisectionOutcome.CULPRIT, first, share=0.5).count("another release may") == 1
    assert told(BisectionOutcome.RANGE, first, last).startswith("One of 2 releases changed it, up")
    assert "no release between them changed it" in told(BisectionOutcome.ENVIRONMENT)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            {"numpy": "2.1.0", "torch": "2.10.0+cpu", "triton": "3.5.0"},
            {"numpy": "2.1.0", "torch": "2.12.0+cpu", "triton": "3.6.0"},
            "A dependency roll: torch moved from 2.10.0+cpu to 2.12.0+cpu, triton moved from 3.5.0 "
            "to 3.6.0. Search the release: throughline bisect torch==2.10.0..torch==2.12.0 "
            "unet:full precision=bf16",
        ),
        (
            {"torch": "2.12.0+cu126"},
            {"torch": "2.12.0+cu130"},
            "A dependency roll: torch moved from 2.12.0+cu126 to 2.12.0+cu130.",
        ),
        ({"torch": "2.12.0"}, {"torch": "2.12.0"}, ""),
        ({}, {"torch": "2.12.0"}, ""),
        ({"torch": "2.12.0"}, {"torch": "2.13.0; rm -r ~"}, ""),
        ({"pillow": "11.0"}, {"pillow": "12.0"}, ""),
    ],
)
def test_a_dependency_roll_names_what_moved_and_how_to_search_on(
    before: dict[str, str], after: dict[str, str], said: str
) -> None:
    assert roll_words(before, after, "unet:full precision=bf16") == said


def test_where_nothing_was_measured_no_probability_is_told() -> None:
    told = outcome_words(BisectionOutcome.UNDECIDED, [], 0.0, None, 0)
    assert told == "Nothing is known after 0 processes."


def test_what_is_next_names_the_pair() -> None:
    commits = [
        BisectedCommit(
            place=place, revision=f"c{place}", author="", title="", probability=0.0, usable=True
        )
        for place in range(4)
    ]
    assert next_words(None, commits) == ""
    assert next_words((3, 0), commits) == "Measure the bad end c3 beside the good end c0."
    assert next_words((2, 0), commits) == "Measure commit 2, c2, beside the good end c0."
    assert "the likeliest commit c2 beside c1" in next_words((2, 1), commits)
    rest = next_words((3, 1), commits, BisectionStage.REST)
    assert rest == "Measure commit 3, c3, beside c1: who made the rest?"
