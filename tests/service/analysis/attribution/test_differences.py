"""Changed, unchanged, unclear: two sides of one quantity against their own spread."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.analysis.attribution.quantities import Difference, band, difference, part_of
from service.analysis.attribution.quantities_of import QuantityKind, Reading
from service.schemas.findings import Part, State
from service.wording.quantity_names import moved, title

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


def reading(*values: float, unit: str = "Hz", kind: QuantityKind = QuantityKind.AMOUNT) -> Reading:
    """One measurement of a process each value."""
    return Reading(unit, kind, [values], [0.1])


def analysed(old: Reading, new: Reading, effect: float = -0.03) -> Difference:
    change = difference(old, new, effect)
    assert change is not None
    return change


def test_steady_values_that_agree_are_unchanged() -> None:
    assert analysed(reading(100, 100.1, 99.9), reading(100, 100.2, 99.8)).state is State.UNCHANGED


def test_noisy_values_that_agree_are_unclear_and_not_unchanged() -> None:
    change = analysed(reading(100, 110, 90), reading(100, 109, 91))
    assert change.state is State.UNCLEAR


def test_noisy_values_that_differ_are_unclear_and_not_changed() -> None:
    assert analysed(reading(100, 120, 80), reading(110, 130, 90)).state is State.UNCLEAR


def test_a_difference_too_small_to_carry_the_effect_is_not_changed() -> None:
    old, new = reading(100, 100.01, 99.99), reading(100.6, 100.61, 100.59)
    assert analysed(old, new, effect=-0.03).state is State.UNCHANGED
    assert analysed(old, new, effect=-0.01).state is State.CHANGED


@pytest.mark.parametrize(("effect", "expected"), [(-0.5, 0.01), (0.009, 0.003), (1e-6, 0.002)])
def test_what_is_worth_a_word_follows_the_effect_within_limits(
    effect: float, expected: float
) -> None:
    assert band(effect) == pytest.approx(expected)


def test_one_value_on_each_side_has_no_spread_and_makes_no_claim() -> None:
    change = analysed(reading(100), reading(200))
    assert (change.state, change.low, change.high) == (State.UNCLEAR, None, None)


def test_three_measurements_on_each_side_are_the_unit_and_not_their_processes() -> None:
    """Processes of one night agree with each other and not with the next night."""
    nights = [(100.0, 100.0, 100.0), (102.0, 102.0, 102.0), (98.0, 98.0, 98.0)]
    others = [tuple(value * 1.03 for value in night) for night in nights]
    old, new = (Reading("Hz", QuantityKind.AMOUNT, list(side)) for side in (nights, others))
    assert analysed(old, new).state is State.UNCLEAR
    two = (Reading("Hz", QuantityKind.AMOUNT, list(side)[:2]) for side in (nights, others))
    assert analysed(*two).state is State.CHANGED


@QUICK
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(2, 6))
def test_the_interval_is_students(seed: int, before: int, after: int) -> None:
    from scipy.stats import ttest_ind  # a second and a half, for whoever only collects

    rng = np.random.default_rng(seed)
    old, new = rng.lognormal(0, 0.1, before), rng.lognormal(0.1, 0.1, after)
    change = analysed(reading(*old), reading(*new))
    test = ttest_ind(np.log(new), np.log(old))
    low, high = np.expm1(test.confidence_interval(0.99))
    assert (change.low, change.high) == (pytest.approx(low), pytest.approx(high))


def test_a_part_of_the_step_is_analysed_by_the_step() -> None:
    """A wait that doubled from nothing to next to nothing is worth no word."""
    old = reading(1e-6, 1.1e-6, 0.9e-6, unit="s", kind=QuantityKind.PART)
    new = reading(9e-6, 9.1e-6, 8.9e-6, unit="s", kind=QuantityKind.PART)
    assert analysed(old, new).state is State.UNCHANGED


def amount(found: Difference) -> str:
    sides = found.before, found.after
    return moved("full.stall_s", found.kind, found.unit, *sides, found.change)


def test_units_that_differ_are_not_compared() -> None:
    assert difference(reading(1.0), reading(1.0, unit="s"), -0.03) is None


def test_from_nothing_there_is_no_ratio() -> None:
    kinds = {"unit": "s", "kind": QuantityKind.PART}
    change = analysed(reading(0, 0, 0, **kinds), reading(0.02, 0.02, 0.02, **kinds))  # type: ignore[arg-type]
    assert (change.state, change.change) == (State.CHANGED, None)
    assert amount(change).replace("\u00a0", " ") == "data wait 0 s -> 20 ms"


amounts = st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=4)
numbers = st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=4)


@QUICK
@given(amounts | numbers, amounts | numbers, st.sampled_from(list(QuantityKind)))
def test_any_finite_numbers_give_an_answer(
    old: list[float], new: list[float], kind: QuantityKind
) -> None:
    change = analysed(reading(*old, kind=kind), reading(*new, kind=kind))
    assert change.state in State
    assert not math.isnan(change.before)
    amount(change)


moderate = st.lists(st.floats(1e-100, 1e100), min_size=1, max_size=4)


@QUICK
@given(moderate, moderate, st.integers(-20, 20))
def test_the_unit_of_an_amount_does_not_matter(
    old: list[float], new: list[float], power: int
) -> None:
    one = analysed(reading(*old), reading(*new))
    scaled = [[value * 2.0**power for value in side] for side in (old, new)]
    other = analysed(reading(*scaled[0]), reading(*scaled[1]))
    assert one.log == pytest.approx(other.log, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "expected", "words"),
    [
        ("full.stall_s", Part.INPUT, "data wait"),
        ("sm_clock", Part.CLOCKS, "SM clock"),
        ("full.reason.hw_thermal", Part.CLOCKS, "readings with hardware thermal slowdown"),
        ("synth.reason.sync_boost", Part.CLOCKS, "readings with sync boost without input"),
        ("graph_breaks", Part.COMPILE, "graph breaks"),
        ("recompiles", Part.COMPILE, "recompiles"),
        ("first_step_time_warm", Part.COMPILE, "first step, warm caches"),
        ("parity.loss_error", Part.PARITY, "parity loss error"),
        ("peak_memory", Part.PHASES, "peak memory"),
        ("phase.backward_s", Part.PHASES, "phase backward"),
        ("full.other_processes", Part.NODE, "other processes"),
    ],
)
def test_a_quantity_is_sorted_and_named_by_its_name(name: str, expected: Part, words: str) -> None:
    assert (part_of(name), title(name)) == (expected, words)


def test_a_part_that_grew_from_next_to_nothing_has_no_ratio() -> None:
    old, new = (reading(*[v] * 3, unit="s", kind=QuantityKind.PART) for v in (5e-324, 1.0))
    change = analysed(old, new)
    assert (change.state, change.change) == (State.CHANGED, None)
    assert "->" in amount(change)
