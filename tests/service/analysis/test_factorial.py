"""Effects of a factorial design: planted ones are found, and what cannot be known is said."""

import math
import random
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.catalog import catalog, suites
from benchmarks.catalog.factorial import Design, Factor, Levels
from service.analysis.factorial import contrast, estimate, lenth_margin

FIVE = tuple(Factor(name, "low", "high") for name in "abcde")
HALF = Design("w", FIVE, ((0, 1, 2, 3, 4),))
QUARTER = Design("w", FIVE, ((0, 1, 3), (0, 2, 4)))
WHOLE = Design("w", FIVE[:3])


def test_a_whole_design_runs_every_combination() -> None:
    assert set(WHOLE.runs()) == set(product((-1, 1), repeat=3))
    assert WHOLE.resolution is None
    assert list(WHOLE.limits()) == ["All 8 combinations of 3 factors are run."]


@pytest.mark.parametrize(
    ("design", "runs", "resolution"), [(HALF, 16, 5), (QUARTER, 8, 3), (WHOLE, 8, None)]
)
def test_a_fraction_has_its_size_its_resolution_and_the_baseline_first(
    design: Design, runs: int, resolution: int | None
) -> None:
    assert len(design.runs()) == runs
    assert design.resolution == resolution
    assert set(design.runs()[0]) == {-1}
    assert len(design.effects()) == runs - 1


@pytest.mark.parametrize("design", [HALF, QUARTER, WHOLE])
def test_every_factor_is_high_in_half_of_the_runs_whatever_another_is(design: Design) -> None:
    for one, other in combinations(range(len(design.factors)), 2):
        for level in (-1, 1):
            among = [run[one] for run in design.runs() if run[other] == level]
            assert sum(among) == 0


@pytest.mark.parametrize("design", [HALF, QUARTER])
def test_aliases_are_the_effects_with_the_same_column(design: Design) -> None:
    def column(effect: frozenset[int]) -> tuple[int, ...]:
        return tuple(math.prod(run[at] for at in effect) for run in design.runs())

    every = [frozenset(c) for n in range(1, 6) for c in combinations(range(5), n)]
    for effect in every:
        same = {
            other
            for other in every
            if other != effect
            and column(other) in (column(effect), tuple(-sign for sign in column(effect)))
        }
        assert design.aliases(effect) - {frozenset()} == same


def test_what_a_small_fraction_mixes_up_is_said() -> None:
    told = list(QUARTER.limits())
    assert told[0] == "8 of 32 combinations are run: resolution III."
    assert "a cannot be told from b x d and c x e." in told
    assert "mixed up with are interactions of three" in list(HALF.limits())[-1]


@given(
    base=st.floats(1, 1e6),
    main=st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    pairs=st.lists(st.floats(-0.5, 0.5), min_size=10, max_size=10),
)
def test_planted_effects_of_a_resolution_v_design_come_back_exactly(
    base: float, main: list[float], pairs: list[float]
) -> None:
    def rate(levels: Levels) -> float:
        both = sum(
            value * levels[i] * levels[j]
            for value, (i, j) in zip(pairs, combinations(range(5), 2), strict=True)
        )
        single = sum(value * level for value, level in zip(main, levels, strict=True))
        return base * math.exp(single / 2 + both / 2)

    found = estimate(HALF, {levels: rate(levels) for levels in HALF.runs()})
    by_name = {term.name: term.ratio for term in found.terms}
    assert len(by_name) == 15
    for value, name in zip(main, "abcde", strict=True):
        assert by_name[name] == pytest.approx(math.exp(value), rel=1e-9)
    for value, (one, other) in zip(pairs, combinations("abcde", 2), strict=True):
        assert by_name[f"{one} x {other}"] == pytest.approx(math.exp(2 * value), rel=1e-9)


def test_an_interaction_is_how_much_more_one_gains_beside_the_other() -> None:
    rates = {(a, b, c): (2.0 if a > 0 else 1.0) for a, b, c in WHOLE.runs()}
    rates |= {(1, 1, c): 6.0 for c in (-1, 1)}  # a doubles alone; beside b it gives six times
    terms = {term.name: term for term in estimate(WHOLE, rates).terms}
    assert terms["a x b"].ratio == pytest.approx(3.0)
    assert terms["a x b"].meaning == "a=high over low, with b=high over with low"
    assert terms["c"].ratio == pytest.approx(1.0)


def test_a_few_real_effects_stand_out_of_noise_and_noise_rarely_does() -> None:
    rng = random.Random(3)
    called = found = 0
    for _ in range(200):
        rates = {
            levels: math.exp(0.25 * levels[0] + 0.1 * levels[3] + rng.gauss(0, 0.01))
            for levels in HALF.runs()
        }
        clear = {term.name for term in estimate(HALF, rates).terms if term.clear}
        found += {"a", "d"} <= clear
        called += len(clear - {"a", "d"})
    assert found == 200
    assert called / (200 * 13) < 0.06


def test_lenths_margin_is_that_of_the_paper() -> None:
    sizes = [1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 100.0]  # median 4, s0 6, PSE 1.5 * 3.5, t(7/3) 3.764
    assert lenth_margin(sizes) == pytest.approx(3.764 * 5.25, rel=1e-3)
    assert lenth_margin([1.0, 2.0]) == math.inf


def test_a_run_without_a_number_is_named_and_nothing_is_estimated() -> None:
    rates = dict.fromkeys(WHOLE.runs(), 1.0)
    del rates[(1, -1, 1)]
    found = estimate(WHOLE, rates)
    assert found.terms == ()
    assert found.missing == ("w:auto a=high b=low c=high",)


def test_a_contrast_is_a_difference_of_means() -> None:
    runs = WHOLE.runs()
    values = [float(number) for number in range(8)]
    assert contrast(frozenset({0}), runs, values) == 4.0
    assert contrast(frozenset({2}), runs, values) == 1.0


@pytest.mark.parametrize("design", suites.suite("full").designs, ids=lambda d: d.workload)
def test_each_design_of_the_full_suite_tells_every_pair_apart(design: Design) -> None:
    assert (len(design.runs()), design.resolution) == (16, 5)
    for factor in design.factors:
        axis = catalog.axes()[factor.axis]
        assert factor.low == axis.default
        assert factor.high in axis.values
    for case in design.cases():
        catalog.normalise(case, "cuda")
