"""Pairs that say nothing: one code on both sides, a disturbed device, accidents."""

import math

import pytest
from builders.gate_records import QUIET, decided, disturbed, process, record, slower
from hypothesis import given
from hypothesis import strategies as st

from service.analysis.gate import CaseRecord, Measured, Pair, Trouble, decide, decide_cases
from service.schemas.gate import CaseVerdict, Outcome
from service.schemas.policy import Policy
from service.wording.statements import say


def case_of(*pairs: Pair, one_revision: bool = False) -> CaseRecord:
    return CaseRecord(case_key="unet:full", pairs=pairs, one_revision=one_revision)


def test_two_names_for_one_code_are_no_comparison_and_end_after_one_pair() -> None:
    [case] = decided(record(QUIET[:1]), last=False).cases
    assert not case.settled
    same = case_of(Pair(baseline=process(100.0, "one"), contender=process(101.0, "one")))
    decision = decided(same, last=False)
    assert (decision.outcome, decision.cases[0].verdict) == (
        Outcome.INCONCLUSIVE,
        CaseVerdict.SAME_CODE,
    )
    assert decision.cases[0].settled
    assert "ran the same code and software, so nothing was compared" in say(decision.sentence)


@given(st.lists(st.floats(-0.1, 0.1), max_size=12), st.integers(0, 11))
def test_a_pair_of_one_code_among_others_is_enough(differences: list[float], place: int) -> None:
    pairs = list(record(differences).pairs)
    pairs.insert(place, Pair(baseline=process(100.0, "one"), contender=process(101.0, "one")))
    assert decided(case_of(*pairs)).outcome is Outcome.INCONCLUSIVE


def test_code_that_nobody_knows_is_no_comparison() -> None:
    unknown = [
        pair.model_copy(update={"contender": process(100.0, "")}) for pair in record(QUIET).pairs
    ]
    decision = decided(case_of(*unknown))
    assert (decision.outcome, decision.cases[0].verdict) == (
        Outcome.INCONCLUSIVE,
        CaseVerdict.SAME_CODE,
    )
    assert "nobody knows whether two revisions were compared" in say(decision.sentence)


@pytest.mark.parametrize("by", [0.0, 0.05])
def test_a_revision_against_itself_checks_the_set_up_and_decides_nothing(by: float) -> None:
    pairs = [
        Pair(baseline=process(100.0), contender=process(100.0 * math.exp(difference)))
        for difference in slower(by)
    ]
    decision = decide([case_of(*pairs, one_revision=True)], Policy(), ("same", "same"))
    assert decision.outcome is Outcome.INCONCLUSIVE
    assert say(decision.sentence).startswith(
        "A check of the set-up, not a comparison: same was measured"
    )
    assert decision.cases[0].verdict is (CaseVerdict.WORSE if by else CaseVerdict.SAME), (
        "the noise is told"
    )


def test_pairs_on_a_disturbed_device_decide_nothing_and_are_named() -> None:
    pairs = [
        Pair(baseline=disturbed("throttled", "other_processes"), contender=process(80.0, "new"))
        for _ in range(8)
    ]
    [going] = decide_cases([case_of(*pairs)], Policy())
    assert not going.settled, "they are measured again while the budget lasts"
    decision = decided(case_of(*pairs))
    assert (decision.outcome, decision.cases[0].verdict) == (
        Outcome.INCONCLUSIVE,
        CaseVerdict.DISTURBED,
    )
    assert "8 of 8 pairs (baseline: throttled, other_processes), and 0 pairs" in say(
        decision.sentence
    )


def test_pairs_that_were_disturbed_are_left_out_and_told_beside_the_others() -> None:
    lost = Pair(baseline=process(100.0), contender=disturbed("throttled", software="new"))
    for by, outcome in ((0.0, Outcome.PASS), (0.05, Outcome.REGRESSION)):
        decision = decided(case_of(lost, *record(slower(by)).pairs, lost))
        assert decision.outcome is outcome
        assert "2 pairs left out, measured on a disturbed device (contender: throttled)." in (
            say(decision.cases[0].sentence)
        )


def test_a_device_that_stays_disturbed_is_not_measured_for_ever() -> None:
    lost = Pair(baseline=disturbed("throttled"), contender=process(100.0, "new"))
    [case] = decide_cases([case_of(*[lost] * 12)], Policy())
    assert (case.verdict, case.settled) == (CaseVerdict.DISTURBED, True)


def test_a_process_on_a_disturbed_device_still_shows_what_a_revision_can_do() -> None:
    pair = Pair(baseline=disturbed("device_busy"), contender=CRASH)
    assert decided(case_of(pair, pair)).cases[0].verdict is CaseVerdict.BROKEN


UNBUILT = Measured(trouble=Trouble.UNBUILDABLE, reason="Commit abc cannot be built.")
CRASH = Measured(trouble=Trouble.FAILED, reason="OOM.")
ACCIDENT = Measured.missing("The worker was lost.")


@pytest.mark.parametrize(
    ("before", "after", "verdict", "sentence"),
    [
        ((process(100), process(100)), (CRASH, CRASH), CaseVerdict.BROKEN, "The contender fails"),
        ((ACCIDENT, process(100)), (CRASH, CRASH), CaseVerdict.BROKEN, "The contender fails"),
        ((CRASH, process(100)), (CRASH, CRASH), CaseVerdict.FAILED, "Both sides failed: OOM."),
        ((ACCIDENT, ACCIDENT), (CRASH, CRASH), CaseVerdict.FAILED, "The contender failed: OOM."),
        ((CRASH, CRASH), (process(100), ACCIDENT), CaseVerdict.FAILED, "The baseline failed: OOM."),
        (
            (ACCIDENT, ACCIDENT),
            (process(100, "new"), process(100, "new")),
            CaseVerdict.MISSING,
            "No result of the baseline: The worker",
        ),
        (
            (Measured.missing("Once."), process(100)),
            (ACCIDENT, ACCIDENT),
            CaseVerdict.MISSING,
            "No result of the contender: The worker",
        ),
    ],
)
def test_an_accident_of_the_machine_is_held_against_neither_revision(
    before: tuple[Measured, ...], after: tuple[Measured, ...], verdict: CaseVerdict, sentence: str
) -> None:
    pairs = tuple(Pair(baseline=old, contender=new) for old, new in zip(before, after, strict=True))
    case = decided(CaseRecord(case_key="unet:full", pairs=pairs)).cases[0]
    assert case.verdict is verdict
    assert say(case.sentence).startswith(sentence)


@pytest.mark.parametrize(
    ("before", "after", "side"),
    [
        (process(100), UNBUILT, "contender"),
        (ACCIDENT, UNBUILT, "contender"),
        (CRASH, UNBUILT, "contender"),
        (UNBUILT, process(100), "baseline"),
        (UNBUILT, ACCIDENT, "baseline"),
    ],
)
def test_a_commit_that_cannot_be_built_decides_nothing_at_once(
    before: Measured, after: Measured, side: str
) -> None:
    case = CaseRecord(case_key="unet:full", pairs=(Pair(baseline=before, contender=after),))
    decision = decided(case, last=False)
    found = decision.cases[0]
    assert (found.verdict, found.settled) == (CaseVerdict.UNBUILDABLE, True)
    assert say(found.sentence) == f"The {side} cannot be built: Commit abc cannot be built."
    assert decision.outcome is Outcome.INCONCLUSIVE
    beside = decided(case, record(QUIET, "resnet50:full"))
    assert beside.outcome is Outcome.INCONCLUSIVE


def accidents(good: int, gone: int, *others: Measured) -> CaseRecord:
    """A case whose contender gave ``good`` results and then lost ``gone`` to the machine."""
    ends = (*[ACCIDENT] * gone, *others)
    tried = tuple(Pair(baseline=process(100.0), contender=end) for end in ends)
    known = record(QUIET[:good])
    return known.model_copy(update={"pairs": (*known.pairs, *tried)})


@pytest.mark.parametrize(
    ("good", "gone", "sentence"),
    [
        (1, 2, "No result of the contender in 2 of 3 processes: The worker was lost."),
        (3, 4, "No result of the contender in 4 of 7 processes: The worker was lost."),
    ],
)
def test_a_side_that_the_machine_mostly_lost_is_missing_and_says_how_often(
    good: int, gone: int, sentence: str
) -> None:
    [case] = decide_cases([accidents(good, gone)], Policy())
    assert (case.verdict, say(case.sentence)) == (CaseVerdict.MISSING, sentence)
    assert case.settled


@pytest.mark.parametrize("others", [(), (CRASH,)])
def test_accidents_beside_results_are_measured_again(others: tuple[Measured, ...]) -> None:
    [case] = decide_cases([accidents(3, 2, *others)], Policy())
    assert (case.verdict, case.settled) == (CaseVerdict.UNCLEAR, False)
    [case] = decide_cases([accidents(8, 2, *others)], Policy())
    assert case.verdict is CaseVerdict.SAME
