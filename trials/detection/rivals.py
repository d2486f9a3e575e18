"""What others do, each from its own package or written from its published rule.

* PELT: the package ``ruptures`` (Truong, Oudre, Vayatis 2020), radial kernel.
* E-divisive: Matteson and James (2014) as MongoDB runs it: permutations at p = 0.01.
* Otava: Fleming et al. (2023): E-divisive in sliding windows, t-tests, weakest merged away. Its
  package pins numpy 2.2 and needs cloud clients, so it cannot live beside ours; the rule can.
* Mann-Whitney: every place tested with windows on both sides, best places kept.
* Perfherder: Mozilla's rule: t > 7 between weighted windows of 12 to 24 and of 12, change > 2 %.
* Bencher: Student's t boundary over the last 64 values, two-sided here as it must find both ways.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import ruptures
from scipy import stats

from trials.detection.energy import best_pair, best_split, distances
from trials.detection.synthetic import Floats, Planted

PENALTY = 2.0
PERMUTATIONS, SIGNIFICANT = 99, 0.01
WINDOW = 50
SIDE, FAR = 30, 1e-6
BACK_LEAST, BACK_MOST, FORE, T_VALUE, CHANGE = 12, 24, 12, 7.0, 0.02
SAMPLE, LEAST_SAMPLE, BOUNDARY = 64, 10, 0.999


def pelt(series: Planted) -> list[int]:
    """PELT with a radial kernel, penalty 2 per logarithm of the length, levels of 5 or more."""
    y = np.asarray(series.values)[:, None]
    places = (
        ruptures.KernelCPD(kernel="rbf", min_size=5).fit(y).predict(pen=PENALTY * np.log(len(y)))
    )
    return [int(place) for place in places[:-1]]


def e_divisive(series: Planted) -> list[int]:
    """The best split of any part, as long as fewer than 1 % of permutations do as well."""
    y = np.asarray(series.values)
    rng = np.random.default_rng(0)
    places: list[int] = []
    while True:
        parts = list(zip([0, *places], [*places, len(y)], strict=True))
        value, place = _best_of(y, parts)
        if place is None:
            return places
        as_good = 0
        for _ in range(PERMUTATIONS):
            shuffled = y.copy()
            for start, end in parts:
                rng.shuffle(shuffled[start:end])
            as_good += _best_of(shuffled, parts)[0] >= value
            if as_good > SIGNIFICANT * (PERMUTATIONS + 1) - 1:
                return places
        places = sorted([*places, place])


def _best_of(y: Floats, parts: Sequence[tuple[int, int]]) -> tuple[float, int | None]:
    splits = [(*best_split(distances(y[a:b])), a) for a, b in parts if b - a >= 4]
    if not splits:
        return 0.0, None
    value, place, start = max(splits)
    return value, start + place


def otava(most: float) -> Callable[[Planted], list[int]]:
    """Otava with its threshold on p."""
    return lambda series: _merged(np.asarray(series.values), _weak(series, 10 * most), most)


def _weak(series: Planted, most: float) -> list[int]:
    y = np.asarray(series.values)
    change_points: set[int] = set()
    start = 0
    while start < len(y):
        window = y[start : start + WINDOW]
        places = _divide(window, most)
        change_points |= {start + place for place in places}
        newest = start + places[-1] if places else 0
        start = max(newest, start + WINDOW // 2)
    return sorted(change_points)


def _divide(y: Floats, most: float) -> list[int]:
    places: list[int] = []
    while True:
        borders = [0, *places, len(y)]
        parts = [(a, b) for a, b in itertools.pairwise(borders) if b - a >= 3]
        candidates = [(*best_pair(distances(y[a:b])), a, b) for a, b in parts]
        if not candidates:
            return places
        _, place, start, end = max(candidates)
        if _p(y[start : start + place], y[start + place : end]) >= most:
            return places
        places = sorted([*places, start + place])


def _merged(y: Floats, places: list[int], most: float) -> list[int]:
    while places:
        borders = [0, *places, len(y)]
        p = [
            _p(y[borders[i - 1] : borders[i]], y[borders[i] : borders[i + 1]])
            for i in range(1, len(borders) - 1)
        ]
        if max(p) < most:
            break
        del places[p.index(max(p))]
    return places


def _p(left: Floats, right: Floats) -> float:
    """Student's t-test with the population's deviation, as Otava has it."""
    if len(left) + len(right) <= 2:
        return 1.0
    with np.errstate(all="ignore"):
        p = stats.ttest_ind_from_stats(
            left.mean(), left.std(), len(left), right.mean(), right.std(), len(right)
        ).pvalue
    return 1.0 if np.isnan(p) else float(p)


def mann_whitney(series: Planted) -> list[int]:
    """Rank sums of 30 points on each side, everywhere; p < 1e-6, best first, 15 points apart."""
    y = np.asarray(series.values)
    p = np.ones(len(y))
    for place in range(10, len(y) - 9):
        left, right = y[max(0, place - SIDE) : place], y[place : place + SIDE]
        p[place] = stats.mannwhitneyu(left, right, method="asymptotic").pvalue
    return _best_first(p, FAR, SIDE // 2)


def perfherder(series: Planted) -> list[int]:
    """Weighted t over 7 and a change over 2 %, at its local maximum."""
    y = np.asarray(series.values)
    score = np.zeros(len(y))
    since = 0
    for place in range(BACK_LEAST, len(y) - FORE + 1):
        back, fore = y[max(since, place - BACK_MOST) : place], y[place : place + FORE]
        if len(back) >= BACK_LEAST:
            t, change = _weighted_t(back[::-1], fore)
            score[place] = t if t > T_VALUE and change > CHANGE else 0.0
    return sorted(_best_first(-score, -T_VALUE, FORE))


def _weighted_t(back: Floats, fore: Floats) -> tuple[float, float]:
    """Near points weigh more: weights fall linearly with distance."""
    (a, va, na), (b, vb, nb) = (_weighted(side) for side in (back, fore))
    error = np.sqrt(va / na + vb / nb)
    return abs(b - a) / max(float(error), 1e-12), abs(b / a - 1)


def _weighted(side: Floats) -> tuple[float, float, int]:
    weights = np.arange(len(side), 0, -1) / len(side)
    mean = float(weights @ side / weights.sum())
    return (
        mean,
        float(weights @ (side - mean) ** 2 / weights.sum() * len(side) / (len(side) - 1)),
        len(side),
    )


def bencher(series: Planted) -> list[int]:
    """Values outside the t boundary of the 64 before; neighbouring alerts are one."""
    y = np.asarray(series.values)
    alerts: list[int] = []
    for at in range(LEAST_SAMPLE, len(y)):
        sample = y[max(0, at - SAMPLE) : at]
        reach = stats.t.ppf(BOUNDARY, len(sample) - 1) * sample.std(ddof=1)
        if abs(y[at] - sample.mean()) > reach:
            alerts.append(at)
    return [at for i, at in enumerate(alerts) if i == 0 or at - alerts[i - 1] > 5]


def _best_first(p: Floats, most: float, apart: int) -> list[int]:
    kept: list[int] = []
    for place in np.argsort(p, kind="stable").tolist():
        if p[place] >= most:
            break
        if all(abs(place - other) >= apart for other in kept):
            kept.append(place)
    return sorted(kept)


RIVALS: dict[str, Callable[[Planted], list[int]]] = {
    "PELT, RBF cost (ruptures)": pelt,
    "E-divisive, p 0.01 (MongoDB's rule)": e_divisive,
    "Otava's rule, p 1e-6": otava(1e-6),
    "Otava's rule, p 0.001 (default)": otava(1e-3),
    "Mann-Whitney windows": mann_whitney,
    "Perfherder's rule": perfherder,
    "Bencher's t-test, 0.999": bencher,
}
