"""Earlier gates spare pairs; no error becomes more frequent than it may."""

import math

import numpy as np
import pytest
from builders.gate_records import record

from service.analysis.gate.decision import decide_case
from service.analysis.gate.metrics import Levels
from service.analysis.gate.noise import MOST_FREEDOM, KnownNoise, PairNoise
from service.analysis.gate.sequential import estimate, intervals
from service.schemas.gate import CaseVerdict
from service.schemas.policy import Policy, Rule

POLICY = Policy()
FEW = {"min_pairs": POLICY.min_pairs, "max_pairs": POLICY.max_pairs}
USUAL = PairNoise(0.0018, 40.0)
QUIET = [0.0012, -0.0015, 0.0008]


def test_however_many_earlier_gates_weigh_no_more_than_five_degrees_of_freedom() -> None:
    assert PairNoise(0.002, 300.0).prior == PairNoise(0.002, MOST_FREEDOM)
    assert PairNoise(0.002, 2.0).prior == PairNoise(0.002, 2.0)


def test_noise_counts_for_its_metric_and_its_way_of_comparing_only() -> None:
    known = KnownNoise("throughput", as_measured=USUAL)
    assert known.prior("throughput", at_one_clock=False) == USUAL.prior
    assert known.prior("throughput", at_one_clock=True) is None
    assert known.prior("peak_memory", at_one_clock=False) is None
    assert KnownNoise().prior("throughput", at_one_clock=False) is None


def test_a_known_noise_narrows_what_few_pairs_tell_and_a_larger_one_widens_it() -> None:
    alone, known, noisy = (
        estimate(QUIET, error=0.01, prior=prior)
        for prior in (None, USUAL.prior, PairNoise(0.02, 40.0).prior)
    )
    assert alone is not None
    assert known is not None
    assert noisy is not None
    assert known.high - known.low < 0.3 * (alone.high - alone.low)
    assert noisy.high - noisy.low > 2 * (known.high - known.low)


@pytest.mark.parametrize(
    ("change", "verdict"), [(0.0, CaseVerdict.SAME), (-0.01, CaseVerdict.WORSE)]
)
def test_three_pairs_decide_where_earlier_gates_told_the_noise(
    change: float, verdict: CaseVerdict
) -> None:
    unknown = record([change + one for one in QUIET])
    known = unknown.model_copy(update={"known": KnownNoise("throughput", as_measured=USUAL)})
    levels = Levels.of(POLICY, [unknown.case_key])
    assert decide_case(unknown, Rule(), levels).verdict is CaseVerdict.UNCLEAR
    assert decide_case(known, Rule(), levels).verdict is verdict


def found_in_equal_code(times: float, gates: int, seed: int) -> float:
    """Share of gates that find a regression in any look, at so many times the known noise."""
    pairs = np.random.default_rng(seed).normal(0.0, times * USUAL.deviation, (gates, 12))
    looks = intervals(pairs, error=POLICY.false_alarm, prior=USUAL.prior, **FEW)
    found = np.zeros(gates, bool)
    for _, high, agree in looks:
        found |= agree & (high < 0)
    return float(found.mean())


@pytest.mark.parametrize("times", [1.0, 2.0])
def test_no_more_regressions_are_found_in_equal_code_also_at_twice_the_noise(times: float) -> None:
    """Half of ``false_alarm`` may be regressions; four standard deviations of 10,000 gates more."""
    gates, may = 10_000, POLICY.false_alarm / 2
    found = found_in_equal_code(times, gates, seed=3)
    assert found <= may + 4 * math.sqrt(may * (1 - may) / gates)


@pytest.mark.parametrize("times", [20.0, 100.0])
def test_a_noise_that_the_pairs_refute_decides_next_to_nothing(times: float) -> None:
    """A host whose pairs vary twenty times as much: pooled, 5 % of the gates would fail."""
    assert found_in_equal_code(times, 10_000, seed=6) < 0.01


def test_most_gates_of_the_usual_noise_need_three_pairs() -> None:
    pairs = np.random.default_rng(4).normal(0.0, USUAL.deviation, (2_000, 12))
    low, high, _ = next(intervals(pairs, error=POLICY.false_pass, prior=USUAL.prior, **FEW))
    assert np.mean((low > -0.01) & (high < 0.01)) > 0.9
    low, high, _ = next(intervals(pairs, error=POLICY.false_pass, **FEW))
    assert np.mean((low > -0.01) & (high < 0.01)) < 0.1
