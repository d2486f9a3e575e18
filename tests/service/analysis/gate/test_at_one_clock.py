"""The clock's noise is taken out of pairs measured in turn, and nothing that is the code's."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from builders.turned_pairs import Noise, pair, side

from service.analysis.gate import CaseRecord, Pair, decide_cases
from service.analysis.gate.one_clock import at_one_clock
from service.schemas.gate import CaseFinding, CaseVerdict
from service.schemas.policy import Policy

NOISE = Noise()
CALM = Noise(clock=0.0, clock_turn=0.0, wild=0.0)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(11)


def played(draw: Callable[[], Pair], most: int = 12) -> CaseFinding[object]:
    """Measure pairs until the case is settled."""
    pairs: list[Pair] = []
    while True:
        pairs.append(draw())
        record = CaseRecord(case_key="nanogpt:full", pairs=tuple(pairs))
        (case,) = decide_cases([record], Policy(), last=len(pairs) >= most)
        if case.settled:
            return case  # type: ignore[return-value]


def without_clocks(one: Pair) -> Pair:
    def told(side_name: str) -> object:
        measured = getattr(one, side_name)
        turns = tuple(turn.model_copy(update={"sm_clock_hz": None}) for turn in measured.turns)
        return measured.model_copy(update={"turns": turns})

    return Pair.model_validate({"baseline": told("baseline"), "contender": told("contender")})


def test_the_slope_is_estimated(random: np.random.Generator) -> None:
    for slope in (-0.3, -0.65, -0.95):
        noise = replace(NOISE, slope=slope)
        told = at_one_clock([pair(random, noise) for _ in range(6)])
        assert told is not None
        assert told.slope == pytest.approx(slope, abs=0.2)


def test_a_time_that_ignores_the_clock_is_left_alone(random: np.random.Generator) -> None:
    told = at_one_clock([pair(random, replace(NOISE, slope=0.0)) for _ in range(8)])
    assert told is None or abs(told.slope) < 0.15


def test_a_slope_never_leaves_the_possible(random: np.random.Generator) -> None:
    for slope in (-2.0, 1.0):
        told = at_one_clock([pair(random, replace(NOISE, slope=slope)) for _ in range(6)])
        assert told is None or -1.0 <= told.slope <= 0.0


def test_pairs_at_one_clock_differ_less(random: np.random.Generator) -> None:
    pairs = [pair(random, NOISE) for _ in range(12)]
    told = at_one_clock(pairs)
    assert told is not None
    raw = [np.log(_step_s(one, 1) / _step_s(one, 0)) for one in pairs]
    assert np.std(told.differences) < 0.5 * np.std(raw)


def _step_s(one: Pair, place: int) -> float:
    measured = one.sides[place]
    assert measured is not None
    return measured.metrics["step_time"].value


@pytest.mark.parametrize("missing", ["clocks", "turns", "one pair's"])
def test_without_the_clocks_of_all_turns_the_change_is_as_measured(
    random: np.random.Generator, missing: str
) -> None:
    pairs = [pair(random, NOISE) for _ in range(5)]
    if missing == "turns":
        pairs = [
            Pair.model_validate(
                {
                    name: getattr(one, name).model_copy(update={"turns": ()})
                    for name in ("baseline", "contender")
                }
            )
            for one in pairs
        ]
    else:
        pairs = [
            without_clocks(one) if missing == "clocks" or place == 2 else one
            for place, one in enumerate(pairs)
        ]
    assert at_one_clock(pairs) is None


def test_a_steady_clock_explains_nothing(random: np.random.Generator) -> None:
    assert at_one_clock([pair(random, CALM) for _ in range(5)]) is None


def test_a_slowdown_of_one_percent_is_found_in_half_as_many_pairs(
    random: np.random.Generator,
) -> None:
    """The clock differs by 0.6 % between processes of equal code, and time follows by 0.4 %."""
    at_one = [played(lambda: pair(random, NOISE, slower=0.01)) for _ in range(30)]
    assert all(case.verdict is CaseVerdict.WORSE for case in at_one)
    raw = [played(lambda: without_clocks(pair(random, NOISE, slower=0.01))) for _ in range(30)]
    assert np.median([case.pairs for case in raw]) >= 1.5 * np.median([c.pairs for c in at_one])


@pytest.mark.parametrize("gates", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_equal_code_fails_no_more_often_than_it_may(
    random: np.random.Generator, gates: int
) -> None:
    verdicts = [played(lambda: pair(random, NOISE)).verdict for _ in range(gates)]
    assert verdicts.count(CaseVerdict.WORSE) <= gates / 50, "half a percent is permitted"
    assert verdicts.count(CaseVerdict.SAME) >= 0.85 * gates


def test_code_that_lowers_the_clock_is_not_excused(random: np.random.Generator) -> None:
    """Three percent less clock costs two percent of time, and that is what is told."""
    cases = [played(lambda: pair(random, NOISE, clock=-0.03)) for _ in range(30)]
    assert all(case.verdict is CaseVerdict.WORSE for case in cases)
    told = [case.metrics[0] for case in cases]
    assert all(metric.low < -0.0195 for metric in told), "the time as measured is in the interval"
    surely = [metric.change for metric in told if metric.clock is None]
    assert len(surely) >= 15
    assert np.mean(surely) == pytest.approx(-0.02, abs=0.003)


@pytest.mark.parametrize("gates", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_what_the_clock_alone_costs_passes_no_more_often_than_it_may(
    random: np.random.Generator, gates: int
) -> None:
    """One percent of time by the clock alone is what the margin rules out: 5 % may pass."""
    cases = [played(lambda: pair(random, NOISE, clock=-0.0155)) for _ in range(gates)]
    assert sum(case.verdict is CaseVerdict.SAME for case in cases) <= gates / 10


def test_a_larger_batch_counts_in_throughput_and_in_no_time(random: np.random.Generator) -> None:
    """Half as many items again in 36 percent more time: a tenth more items in a second."""
    pairs = []
    for _ in range(6):
        one = pair(random, NOISE, slower=float(np.log(1.5 / 1.1)))
        assert one.contender is not None
        rate = one.contender.metrics["throughput"]
        more = {"throughput": rate.model_copy(update={"value": 1.5 * rate.value})}
        after = one.contender.model_copy(update={"metrics": {**one.contender.metrics, **more}})
        pairs.append(one.model_copy(update={"contender": after}))
    record = CaseRecord(case_key="nanogpt:full", pairs=tuple(pairs))
    (case,) = decide_cases([record], Policy(), last=True)
    changes = {metric.metric: metric.change for metric in case.metrics}
    assert changes["throughput"] == pytest.approx(0.1, abs=0.005)
    assert changes["step_time"] == pytest.approx(1 - 1.5 / 1.1, abs=0.005)


def test_what_was_taken_out_is_told() -> None:
    times = np.array([0.002, -0.001, 0.001, 0.0, 0.003, -0.002])
    clocks = np.array([0.004, -0.006, 0.002, 0.008, -0.004, 0.006])
    offsets = (0.004, 0.009, -0.001, 0.006)
    pairs = [
        Pair(
            baseline=side("old", np.zeros(6), np.zeros(6)),
            contender=side("new", 0.01 + times * 0.1 - 0.65 * (clocks + more), clocks + more),
        )
        for more in offsets
    ]
    told = at_one_clock(pairs)
    assert told is not None
    assert np.mean(told.clocks) == pytest.approx(np.mean(offsets) + clocks.mean(), abs=0.002)
    record = CaseRecord(case_key="nanogpt:full", pairs=tuple(pairs))
    (case,) = decide_cases([record], Policy(), last=True)
    assert case.metrics[0].clock == pytest.approx(np.expm1(np.mean(told.clocks)))
