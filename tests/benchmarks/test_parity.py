"""The verdict about numbers: trajectories in, a verdict out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from builders.measured import a_pass, a_replicate, a_result
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contracts import Parity, ParityStatus, ProcessSpec, Result, Status
from benchmarks.diagnosis import parity, update_distance
from benchmarks.diagnosis.merge import merge
from benchmarks.diagnosis.parity import HALF, SINGLE, STEPS, Reference, Rule, Trajectory, compare

RULES = st.sampled_from([SINGLE, HALF])
SEEDS = st.integers(0, 2**32 - 1)


def a_trajectory(seed: int = 0, off: float = 0.0) -> Trajectory:
    """A plausible descent; ``off`` is the relative error of all that it computed."""
    rng, noise = np.random.default_rng(7), np.random.default_rng(seed)

    def near(value: float) -> float:
        return float(value * (1 + off * noise.uniform(-1, 1)))

    update = rng.normal(size=500)
    update = update + off * noise.normal(size=500)
    return Trajectory(
        losses=tuple(near(5.0 / (1 + step / 10)) for step in range(STEPS)),
        gradient_norms={step: near(2.0) for step in range(1, STEPS + 1)},
        update=update.astype(np.float32),
    )


EXACT = Reference(a_trajectory(), a_trajectory(), a_trajectory())


@given(SEEDS, RULES)
def test_what_computes_the_same_passes(seed: int, rule: Rule) -> None:
    base = a_trajectory(seed, rule.tolerance)
    assert compare(EXACT.first, base, EXACT, rule).status is ParityStatus.PASS
    assert compare(base, base, EXACT, rule).status is ParityStatus.PASS


@given(SEEDS, st.floats(0.03, 1.0), st.integers(0, 19))
def test_one_loss_that_is_off_fails(seed: int, off: float, at: int) -> None:
    base = a_trajectory(seed, 1e-3)
    losses = list(base.losses)
    losses[at] *= 1 + off
    verdict = compare(replace(base, losses=tuple(losses)), base, EXACT, HALF)
    assert verdict.status is ParityStatus.FAIL
    assert "the loss up to step" in verdict.reason


@given(st.floats(1.1, 1e6), st.sampled_from([1, 5]), RULES)
def test_a_gradient_of_another_size_fails(factor: float, step: int, rule: Rule) -> None:
    norms = {**EXACT.first.gradient_norms, step: 2.0 * factor}
    case = replace(EXACT.first, gradient_norms=norms)
    verdict = compare(case, EXACT.first, EXACT, rule)
    assert verdict.status is ParityStatus.FAIL
    assert f"the gradient's norm at {step}" in verdict.reason


@given(SEEDS, RULES)
def test_an_update_into_another_direction_fails(seed: int, rule: Rule) -> None:
    noise = np.random.default_rng(seed).normal(size=500).astype(np.float32)
    case = replace(EXACT.first, update=(EXACT.first.update + 0.5 * noise).astype(np.float32))
    assert compare(case, EXACT.first, EXACT, rule).status is ParityStatus.FAIL


@given(st.integers(0, 19), st.sampled_from([math.nan, math.inf, -math.inf]), RULES, st.booleans())
def test_nan_fails_wherever_it_comes_up_and_whatever_the_reference_does(
    at: int, bad: float, rule: Rule, everywhere: bool
) -> None:
    losses = (*EXACT.first.losses[:at], bad, *EXACT.first.losses[at + 1 :])
    case = replace(EXACT.first, losses=losses)
    reference = Reference(case, case, case) if everywhere else EXACT
    verdict = compare(case, EXACT.first, reference, rule)
    assert verdict.status is ParityStatus.FAIL
    assert f"the loss of step {at + 1} is not finite" in verdict.reason
    assert Parity.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize("role", ["first", "again", "shaken", "base"])
def test_there_is_nothing_to_hold_a_case_against_what_is_not_finite_itself(role: str) -> None:
    broken = replace(EXACT.first, gradient_norms={1: math.inf})
    base = broken if role == "base" else EXACT.first
    reference = EXACT if role == "base" else replace(EXACT, **{role: broken})
    verdict = compare(EXACT.first, base, reference, HALF)
    assert verdict.status is ParityStatus.SKIPPED
    assert "nothing to hold to" in verdict.reason


@given(SEEDS, st.floats(1e-3, 0.1))
def test_a_reference_that_does_not_repeat_itself_is_said_and_widens(seed: int, off: float) -> None:
    again = a_trajectory(seed, off)
    reference = replace(EXACT, again=again)
    verdict = compare(again, EXACT.first, reference, SINGLE)
    assert verdict.status is ParityStatus.NONDETERMINISTIC
    wide = {agreement.quantity: agreement.allowed for agreement in verdict.agreements}
    exact = compare(again, EXACT.first, EXACT, SINGLE)
    assert all(wide[agreement.quantity] >= agreement.allowed for agreement in exact.agreements)
    far = a_trajectory(seed, 100 * off + 1)
    assert compare(far, EXACT.first, reference, SINGLE).status is ParityStatus.FAIL


@given(SEEDS, SEEDS, st.floats(1e-3, 0.1))
def test_a_reference_that_varies_decides_what_needs_none_of_its_distance(
    seed: int, other: int, off: float
) -> None:
    """nanoGPT on a GPU, whose attention adds its gradients in any order."""
    varying = replace(EXACT, again=a_trajectory(seed, off), shaken=a_trajectory(seed + 1, off))
    near = a_trajectory(other, 1e-6)
    assert compare(near, EXACT.first, varying, SINGLE).status is ParityStatus.PASS


def test_a_reference_that_varies_by_chance_lets_nothing_pass_for_it() -> None:
    """Weights one rounding off give a run that varies by chance as well, not only by rounding."""
    statuses = set()
    for seed in range(200):
        again, shaken, case = (a_trajectory(3 * seed + n, 1e-3) for n in range(3))
        varying = replace(EXACT, again=again, shaken=shaken)
        statuses.add(compare(case, EXACT.first, varying, SINGLE).status)
        same = replace(EXACT, again=again, shaken=again)
        assert compare(case, EXACT.first, same, SINGLE).status is not ParityStatus.PASS
    assert ParityStatus.NONDETERMINISTIC in statuses


@given(SEEDS, st.floats(1e-7, 1e-2))
def test_training_that_amplifies_one_rounding_is_given_room_for_roundings(
    seed: int, off: float
) -> None:
    reference = replace(EXACT, shaken=a_trajectory(seed, off))
    rounded = reference.shaken
    assert compare(rounded, EXACT.first, reference, SINGLE).status is ParityStatus.PASS


def tossed(run: Trajectory, times: float) -> Trajectory:
    """The same but for what it has from its fifth step on."""
    losses = [loss * (times if step >= 5 else 1.0) for step, loss in enumerate(run.losses, start=1)]
    norms = {
        step: norm * (times if step >= 5 else 1.0) for step, norm in run.gradient_norms.items()
    }
    return replace(run, losses=tuple(losses), gradient_norms=norms)


CHAOTIC = replace(EXACT, shaken=tossed(EXACT.first, 1.5))
"""One rounding moves its fifth step by half: what a half precision does to it is anyone's guess."""


@given(st.floats(0.0, 9.0))
def test_in_chaos_one_lucky_base_holds_nobody(times: float) -> None:
    case = tossed(EXACT.first, times)
    assert compare(case, EXACT.first, CHAOTIC, HALF).status is ParityStatus.PASS


@given(st.floats(15.0, 1e6), st.sampled_from([5, 20]))
def test_in_chaos_divergence_still_fails(times: float, at: int) -> None:
    losses = list(EXACT.first.losses)
    losses[at - 1] *= times * max(losses) / losses[at - 1]
    case = replace(EXACT.first, losses=tuple(losses))
    assert compare(case, EXACT.first, CHAOTIC, HALF).status is ParityStatus.FAIL


def test_the_first_step_is_held_to_its_own_limit_in_chaos() -> None:
    base = tossed(EXACT.first, 2.0)
    losses = (6.0 * base.losses[0], *base.losses[1:])
    assert compare(replace(base, losses=losses), base, CHAOTIC, HALF).status is ParityStatus.FAIL


@pytest.mark.parametrize(("skips", "status"), [(2, ParityStatus.PASS), (3, ParityStatus.FAIL)])
def test_a_scaler_may_leave_out_two_steps(skips: int, status: ParityStatus) -> None:
    verdict = compare(replace(EXACT.first, skips=skips), EXACT.first, EXACT, HALF)
    assert (verdict.status, verdict.scaler_skips) == (status, skips)


def test_gradients_that_a_graph_hides_are_not_compared_and_the_rest_is() -> None:
    hidden = replace(EXACT.first, gradient_norms={})
    verdict = compare(hidden, EXACT.first, EXACT, HALF)
    assert verdict.status is ParityStatus.PASS
    assert {agreement.quantity for agreement in verdict.agreements} == {
        *("loss_1", "loss_5", "loss_20", "update_direction", "update_size")
    }


@given(SEEDS, st.floats(0, 2), RULES)
def test_the_base_itself_never_fails(seed: int, off: float, rule: Rule) -> None:
    base = a_trajectory(seed, off)
    verdict = compare(base, base, EXACT, rule).status
    assert verdict is ParityStatus.PASS or (verdict is ParityStatus.SKIPPED and off > 0.5)


TENSORS = (100, 300, 100)


def in_tensors(*, turned: tuple[float, ...]) -> Trajectory:
    """The exact trajectory, with each tensor's first update turned by noise of this size."""
    noise = np.random.default_rng(1).normal(size=sum(TENSORS))
    off = np.repeat(turned, TENSORS)
    update = (EXACT.first.update + off * noise).astype(np.float32)
    return replace(EXACT.first, update=update, parts=TENSORS)


FIRST = in_tensors(turned=(0.0, 0.0, 0.0))
IN_TENSORS = Reference(FIRST, FIRST, FIRST)
ROUGH = in_tensors(turned=(3.0, 3.0, 0.02))
"""Half precision that leaves only the last tensor be."""


def test_where_rounding_turns_the_update_what_it_leaves_be_still_tells() -> None:
    right = in_tensors(turned=(2.0, 4.0, 0.03))
    assert compare(right, ROUGH, IN_TENSORS, HALF).status is ParityStatus.PASS
    dead = replace(right, update=np.zeros_like(right.update))
    verdict = compare(dead, ROUGH, IN_TENSORS, HALF)
    assert verdict.status is ParityStatus.FAIL
    assert "where rounding leaves it be, is off by 1" in verdict.reason


@given(st.sampled_from([0.25, 0.5, 2.0, 4.0]))
def test_a_step_of_another_size_is_seen_where_the_update_is_firm(factor: float) -> None:
    case = replace(ROUGH, update=(factor * ROUGH.update).astype(np.float32))
    assert compare(case, ROUGH, IN_TENSORS, HALF).status is ParityStatus.FAIL


def test_an_update_that_rounding_turns_everywhere_tells_nothing() -> None:
    everywhere = in_tensors(turned=(3.0, 3.0, 3.0))
    verdict = compare(everywhere, everywhere, IN_TENSORS, HALF)
    assert verdict.status is ParityStatus.SKIPPED
    assert "one that trains nothing would be near enough" in verdict.reason
    assert verdict.agreements
    worse = replace(everywhere, losses=tuple(2 * loss for loss in everywhere.losses))
    assert compare(worse, everywhere, IN_TENSORS, HALF).status is ParityStatus.FAIL


@given(RULES, st.floats(0, 5), st.floats(0, 5), st.floats(0, 5))
def test_what_trains_nothing_never_passes(rule: Rule, one: float, two: float, three: float) -> None:
    base = in_tensors(turned=(one, two, three))
    shaken = in_tensors(turned=(one / 50, two / 50, three / 50))
    reference = Reference(FIRST, FIRST, shaken)
    dead = replace(base, update=np.zeros_like(base.update))
    sound = (ParityStatus.PASS, ParityStatus.NONDETERMINISTIC)
    assert compare(dead, base, reference, rule).status not in sound


def test_a_tensor_without_an_update_is_not_firm_and_one_that_gets_none_is_far_off() -> None:
    update = np.array([1, 2, 0, 0, 3], np.float32)
    assert update_distance.firm(update, [update], (2, 2, 1)) == (0, 2)
    assert update_distance.firm(update, [np.array([2, -1, 0, 0, 3], np.float32)], (2, 2, 1)) == (2,)
    none = np.array([1, 2, 0, 0, 0], np.float32)
    distance = update_distance.where_firm(none, update, (2, 2, 1), (0, 2))
    assert distance == pytest.approx({"firm_direction": 0.5, "firm_size": 0.5})


def measured() -> Result:
    return a_result(a_replicate(a_pass(0.1), a_pass(0.1)))


def test_a_case_that_computes_something_else_is_ok_no_more_and_still_shown() -> None:
    other = replace(EXACT.first, losses=tuple(2 * loss for loss in EXACT.first.losses))
    failed = parity.with_parity(measured(), compare(other, EXACT.first, EXACT, HALF))
    assert failed.status is Status.PARITY_FAIL
    assert failed.parity is not None
    assert failed.reason == failed.parity.reason
    assert failed.samples == measured().samples
    passed = parity.with_parity(measured(), compare(EXACT.first, EXACT.first, EXACT, HALF))
    assert passed.status is Status.OK


def test_the_parity_of_a_job_is_that_of_its_first_process() -> None:
    verdict = compare(EXACT.first, EXACT.first, EXACT, HALF)
    first = parity.with_parity(measured(), verdict)
    assert merge([first, measured()]).parity == verdict


def test_only_the_first_process_of_a_job_is_asked_and_old_revisions_are_not_told() -> None:
    asked = measured().protocol.model_copy(update={"parity": True})
    assert asked.of_replicate(1).parity
    assert not asked.of_replicate(2).parity
    first, second = (
        ProcessSpec(case=measured().case, protocol=asked.of_replicate(number)).document(3)
        for number in (1, 2)
    )
    assert b"parity" in first
    assert b"parity" not in second
