"""Bisections judge pairs: the culprit, a range, or none, within their budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.analysis.bisection import Judgement, Probe, Search, judged
from service.analysis.bisection.posterior import posterior_of
from service.analysis.bisection.remainder import place_in, places_of
from service.analysis.gate.noise import PairNoise
from service.schemas.bisections import BisectionOutcome, BisectionStage

Measure = Callable[[int, int], float]
ONE_PERCENT = math.log(1.01)
NOISE = 0.0028
"""Of a pair whose processes repeat within 0.2 %."""


def bisected(
    search: Search, measure: Measure, unbuildable: frozenset[int] = frozenset()
) -> tuple[Judgement, Search]:
    """Measure whatever is next until there is an outcome."""
    while (judgement := judged(search)).next is not None:
        commit, beside = judgement.next
        broken = next((place for place in (commit, beside) if place in unbuildable), None)
        difference = None if broken is not None else measure(commit, beside)
        probe = Probe(commit, beside, difference, broken)
        search = replace(search, probes=(*search.probes, probe))
    return judgement, search


def stepped(culprit: int | None, effect: float, noise: float, seed: int) -> Measure:
    """Pairs of a history in which ``culprit`` has an effect; None has one in none."""
    random = np.random.default_rng(seed)

    def measure(commit: int, beside: int) -> float:
        inside = culprit is not None and beside < culprit <= commit
        return float(random.normal(0.0, noise)) + (effect if inside else 0.0)

    return measure


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, frozenset[int]]:
    """A number of commits, a culprit, and commits between the ends that do not build."""
    commits = draw(st.integers(1, 40))
    culprit = draw(st.integers(1, commits))
    inside = st.integers(1, max(commits - 1, 1))
    unbuildable = draw(st.frozensets(inside, max_size=8)) - {commits}
    return commits, culprit, unbuildable


@given(histories(), st.sampled_from([0.01, 0.03, 0.3]))
@settings(deadline=None, max_examples=40)
def test_without_noise_the_culprit_is_named_or_the_range_that_holds_it(
    history: tuple[int, int, frozenset[int]], effect: float
) -> None:
    commits, culprit, unbuildable = history
    search = Search(commits, expected=effect, noise=PairNoise(0.001, 10), most_processes=200)
    judgement, done = bisected(search, stepped(culprit, effect, 0.0, 0), unbuildable)
    assert judgement.outcome in (BisectionOutcome.CULPRIT, BisectionOutcome.RANGE)
    assert judgement.first <= culprit <= judgement.last
    assert judgement.probability >= 0.99
    between = range(judgement.first, judgement.last)
    assert set(between) <= unbuildable, "a range has commits that could have been measured"
    assert done.beside(judgement.last, judgement.first - 1), "nobody is blamed unseen"
    assert judgement.share == pytest.approx(1.0)


PLACES = st.tuples(st.integers(1, 12), st.floats(-0.5, 0.5)).map(
    lambda drawn: Probe(drawn[0], 0, drawn[1])
)


@given(st.lists(PLACES, max_size=20), st.randoms())
@settings(deadline=None, max_examples=40)
def test_probabilities_are_one_together_whatever_was_measured_and_in_any_order(
    probes: list[Probe], random: object
) -> None:
    found = posterior_of(Search(12, tuple(probes)))
    assert found.environment + sum(found.groups) == pytest.approx(1.0)
    assert sum(found.commits) == pytest.approx(sum(found.groups))
    mixed = list(probes)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert posterior_of(Search(12, tuple(mixed))).groups == pytest.approx(found.groups, abs=1e-9)


@given(st.data(), st.integers(1, 30))
@settings(deadline=None, max_examples=25)
def test_whatever_is_measured_it_ends_within_its_budget(data: st.DataObject, commits: int) -> None:
    anything = st.floats(-1.0, 1.0)
    search = Search(commits, most_processes=40)
    judgement, done = bisected(search, lambda *_: data.draw(anything))
    assert done.processes <= 40
    assert judgement.stage is BisectionStage.DONE
    assert 0.0 <= judgement.probability <= 1.0


def test_what_was_never_measured_ends_after_three_pairs() -> None:
    search = Search(8, (Probe(8, 0), Probe(8, 0)))
    assert judged(search).next == (8, 0)
    judgement = judged(replace(search, probes=(*search.probes, Probe(8, 0))))
    assert judgement.outcome is BisectionOutcome.UNDECIDED


@pytest.mark.parametrize("end", [0, 8])
def test_an_end_that_does_not_build_decides_nothing(end: int) -> None:
    judgement = judged(Search(8, (Probe(8, 0, unusable=end),)))
    assert judgement.outcome is BisectionOutcome.UNDECIDED
    assert judgement.posterior is None


def test_a_build_that_failed_costs_no_process() -> None:
    search = Search(8, (Probe(8, 0, 0.01), Probe(4, 0, unusable=4)))
    assert search.processes == 2
    assert search.usable == [0, 1, 2, 3, 5, 6, 7, 8]


def test_ends_at_the_findings_old_level_are_not_reproduced() -> None:
    search = Search(24, expected=ONE_PERCENT, noise=PairNoise(NOISE, 10))
    same = stepped(None, 0.0, NOISE, 1)
    assert bisected(search, same)[0].outcome is BisectionOutcome.ENVIRONMENT
    back = replace(search, at_old_level=True)
    assert bisected(back, same)[0].outcome is BisectionOutcome.NOT_REPRODUCED


def test_one_commit_is_verified_by_the_ends_alone() -> None:
    judgement, done = bisected(Search(1, expected=0.03), stepped(1, 0.03, NOISE, 2))
    assert (judgement.outcome, judgement.first) == (BisectionOutcome.CULPRIT, 1)
    assert {(probe.commit, probe.beside) for probe in done.probes} == {(1, 0)}


def test_of_two_culprits_the_larger_is_named_with_its_share() -> None:
    def measure(commit: int, beside: int) -> float:
        return 0.02 * (beside < 5 <= commit) + 0.01 * (beside < 15 <= commit)

    judgement, _ = bisected(Search(24, expected=0.03, noise=PairNoise(0.002, 10)), measure)
    assert (judgement.outcome, judgement.first) == (BisectionOutcome.CULPRIT, 5)
    assert judgement.share == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize("odd", [0.0, 0.03])
def test_one_percent_in_24_commits_is_found_in_thirty_processes(odd: float) -> None:
    random = np.random.default_rng(5)
    costs, wrong, right = [], 0, 0
    for seed in range(100):
        culprit = int(random.integers(1, 25))
        pairs = stepped(culprit, ONE_PERCENT, NOISE, seed)

        def measure(commit: int, beside: int, pairs: Measure = pairs) -> float:
            sides = (random.random() < odd) - int(random.random() < odd)
            return pairs(commit, beside) + 0.07 * sides

        search = Search(24, expected=ONE_PERCENT, noise=PairNoise(NOISE, 10))
        judgement, done = bisected(search, measure)
        named = judgement.outcome is BisectionOutcome.CULPRIT
        right += named and judgement.first == culprit
        wrong += named and judgement.first != culprit
        costs.append(done.processes)
    assert (right >= 98, wrong) == (True, 0)
    assert np.mean(costs) <= 30


def test_without_a_culprit_nobody_is_blamed() -> None:
    outcomes = []
    for seed in range(100):
        search = Search(24, expected=ONE_PERCENT, noise=PairNoise(NOISE, 10))
        judgement, done = bisected(search, stepped(None, 0.0, NOISE, seed))
        outcomes.append(judgement.outcome)
        assert done.processes < 60
    assert outcomes.count(BisectionOutcome.ENVIRONMENT) >= 98
    assert BisectionOutcome.CULPRIT not in outcomes


def stepped_twice(culprits: dict[int, float], noise: float, seed: int) -> Measure:
    """Pairs of a history in which several commits have an effect, each its own."""
    random = np.random.default_rng(seed)

    def measure(commit: int, beside: int) -> float:
        shown = sum(effect for place, effect in culprits.items() if beside < place <= commit)
        return float(random.normal(0.0, noise)) + shown

    return measure


@given(st.data(), st.integers(2, 40))
@settings(deadline=None, max_examples=40)
def test_without_noise_each_of_two_culprits_is_named_or_the_range_that_holds_it(
    data: st.DataObject, commits: int
) -> None:
    places = data.draw(st.lists(st.integers(1, commits), min_size=2, max_size=2, unique=True))
    inside = st.integers(1, max(commits - 1, 1))
    unbuildable = data.draw(st.frozensets(inside, max_size=6)) - {commits}
    culprits = dict(zip(places, (0.02, 0.01), strict=True))
    search = Search(commits, expected=0.03, noise=PairNoise(0.001, 10), most_processes=200)
    judgement, done = bisected(search, stepped_twice(culprits, 0.0, 0), unbuildable)
    named = [range(one.first, one.last + 1) for one in judgement.named]
    for place in places:
        assert any(place in some for some in named)
    for one, some in zip(judgement.named, named, strict=True):
        assert any(place in some for place in places), "an innocent is named"
        assert done.beside(one.last, one.first - 1), "nobody is blamed unseen"
        assert set(some[:-1]) <= unbuildable
    assert sum(one.share for one in judgement.named) == pytest.approx(1.0)


def test_the_second_of_two_culprits_is_named_and_nobody_else() -> None:
    random = np.random.default_rng(7)
    both, costs = 0, []
    for seed in range(100):
        larger, smaller = (int(place) for place in random.choice(24, 2, replace=False) + 1)
        pairs = stepped_twice({larger: 0.02, smaller: 0.01}, NOISE, seed)
        search = Search(24, expected=0.03, noise=PairNoise(NOISE, 10))
        judgement, done = bisected(search, pairs)
        named = [one.first for one in judgement.named]
        assert set(named) <= {larger, smaller}
        both += named == [larger, smaller]
        costs.append(done.processes)
    assert both >= 75
    assert np.mean(costs) <= 45


def test_what_one_culprit_leaves_by_chance_names_nobody_else() -> None:
    for seed in range(100):
        pairs = stepped(13, 0.03, NOISE, seed)
        judgement, _ = bisected(Search(24, expected=0.03, noise=PairNoise(NOISE, 10)), pairs)
        assert [one.first for one in judgement.named] == [13]


def test_a_budget_that_ends_while_the_rest_is_searched_leaves_the_first_culprit() -> None:
    pairs = stepped_twice({5: 0.02, 15: 0.01}, 0.0, 0)
    search = Search(24, expected=0.03, noise=PairNoise(0.002, 10))
    _, whole = bisected(search, pairs)
    first = next(
        count
        for count in range(len(whole.probes))
        if judged(replace(search, probes=whole.probes[:count])).named
    )
    judgement, _ = bisected(replace(search, most_processes=2 * first + 2), pairs)
    assert (judgement.outcome, judgement.first) == (BisectionOutcome.CULPRIT, 5)
    assert len(judgement.named) == 1
    assert judged(replace(search, probes=whole.probes[:first])).stage is BisectionStage.REST


STEPS = st.lists(st.integers(0, 30), min_size=0, max_size=6, unique=True).map(
    lambda drawn: tuple(pairwise(sorted(drawn)))[::2]
)


@given(STEPS)
def test_places_without_steps_lead_back_to_the_commits(steps: tuple[tuple[int, int], ...]) -> None:
    places = [place_in(commit, steps) for commit in range(32)]
    assert places == sorted(places)
    for place in sorted(set(places)):
        first, last = places_of(place, steps)
        own = [commit for commit in range(32) if places[commit] == place]
        assert (first, last) == (own[0], own[-1])
