"""Pools what several series say of a step at one place: did a common cause change some of them?

Each series is a witness: it says by how much its level differs on both sides of the place, and how
exactly it knows. Two explanations are compared. Either nothing happened, and the differences are
noise; or a cause changed a share of the series by about one size. The evidence is the Bayes factor
of the second: by how much it makes the differences more likely. The size and the share are not
known, so that their likelihoods are averaged over a grid. A series that did not move speaks for a
smaller share and not against the cause, and the answer says for each series how likely it moved.

No place of the history is needed: a witness with one point after the place is a weak one, and
twelve weak ones may be sure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.analysis.detection.change import Noise
from service.analysis.detection.evidence import PRIOR_POINTS, REACH
from service.analysis.detection.robust import CLIP, FLOOR, Floats

SIZES = np.log1p(np.geomspace(0.0025, 0.32, 15))
"""Sizes of a common change, as differences of logarithms: from 0.25 % by half a doubling to 32 %.
Smaller ones cannot be told from the wander of machines."""
ALIKE = 0.4
"""Standard deviation of the series' changes, as a share of the common size: one cause slows down
cells by 1 to 2 %."""
SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Of the series that moved. A sixteenth of a suite is a handful of cells."""
DISTURBED, FAR = 0.02, 10.0
"""One witness of fifty was disturbed by something that others do not share, and may differ by ten
of its errors. So one series alone is never more than four nats of evidence for a common cause."""
FREEDOM = 8.0
"""Of the t distribution that errors have: single nights err farther than normal noise would. With
normal errors and tails like a t of 4, some hundred series looked sure every third night."""
STANDS = 2.5
"""Log odds from which a common change stands. Under noise alone, with 12 to 129 series, two places
of 10,000 have as much, and two or three of 1,000 if errors have tails like a t of 4. Of 12 series
that become 1 % longer at 1 % noise, 75 % of suites have as much after two nights."""
NODES_AND_WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


@dataclass(frozen=True, slots=True)
class Witness:
    """What one series says of a step at one place."""

    difference: float
    """Level after less level before, as logarithms. The caller gives all witnesses one sign: worse
    is positive, or longer is."""
    error: float
    """Standard error of the difference; above zero."""
    source: str = ""
    """What was measured in one process. Its witnesses weigh together as much as one; those without
    a source stand for themselves."""


@dataclass(frozen=True, slots=True)
class Common:
    """What all witnesses say together."""

    log_odds: float
    """Logarithm of the Bayes factor: add it to the log odds that a change is here."""
    difference: float
    """Of the series that moved, as logarithms: the mean over what is likely."""
    share: float
    """Of the witnesses that moved: the mean over what is likely."""
    moved: tuple[float, ...]
    """Probability that each witness moved, if there is a common change; in the order given."""

    @property
    def evidence(self) -> float:
        """In standard deviations: what one normal figure would need to say as much."""
        return math.sqrt(2.0 * max(self.log_odds, 0.0))


def witness(
    before: Sequence[float], after: Sequence[float], noise: Noise, source: str = ""
) -> Witness:
    """Say what one series says of a step between two parts of it.

    Args:
        before: positive values of the level before, machine offsets taken out; of more than
            ``REACH`` the newest count.
        after: values from the place on; one is enough.
        noise: of the series.
        source: see ``Witness``.
    """
    old = np.log(np.asarray(before[-REACH:], dtype=np.float64))
    new = np.log(np.asarray(after[:REACH], dtype=np.float64))
    scale = max(noise.scale, FLOOR)
    middle = float(np.median(old))
    level = float(np.clip(old, middle - CLIP * scale, middle + CLIP * scale).mean())
    alike = (1.0 + noise.autocorrelation) / (1.0 - noise.autocorrelation)
    # The scale is an estimate as well: with few points before, errors are larger than they seem.
    unsure = 1.0 + 1.0 / (len(old) + PRIOR_POINTS)
    variance = scale**2 * (1.0 / len(old) + 1.0 / len(new)) * alike * unsure
    return Witness(float(np.mean(new)) - level, math.sqrt(variance), source)


def pooled(witnesses: Sequence[Witness], common_noise: float = 0.0) -> Common:
    """Pool what all series with a point on both sides of a place say of a step there.

    Give all that could have moved, not only those that did. The order does not matter.

    Args:
        witnesses: of one place; at least one.
        common_noise: the part of the noise that all of them share without a change (one machine on
            a bad day), as a share of each error: a standard deviation, 0 to 1.
    """
    z = np.array([one.difference / one.error for one in witnesses])
    errors = np.array([one.error for one in witnesses])
    weights = _weights(witnesses)
    sizes = np.concatenate([-SIZES[::-1], SIZES])
    shifts, chances = _shifts(common_noise)
    still = _log_still(z, shifts)
    moved = _log_moved(z, errors, sizes, shifts)
    nothing = _log_mean(still @ weights, np.log(chances), axis=0)
    shares = np.array(SHARES)
    by_share = np.stack([_either(still[:, None, :], moved, share) for share in shares])
    total = by_share @ weights  # shares x shifts x sizes
    whole = total + np.log(chances)[:, None] - math.log(len(shares) * len(sizes))
    something = float(np.logaddexp.reduce(whole, axis=None))
    likely = np.exp(whole - something)
    share_moved = np.log(shares)[:, None, None, None] + moved - by_share
    return Common(
        log_odds=something - float(nothing),
        difference=float(likely.sum(axis=(0, 1)) @ sizes),
        share=float(likely.sum(axis=(1, 2)) @ shares),
        moved=tuple(np.einsum("abc,abcn->n", likely, np.exp(share_moved)).tolist()),
    )


def _weights(witnesses: Sequence[Witness]) -> Floats:
    together = Counter(one.source for one in witnesses if one.source)
    return np.array([1.0 / together[one.source] if one.source else 1.0 for one in witnesses])


def _shifts(common_noise: float) -> tuple[Floats, Floats]:
    """What all witnesses may share without a change, in errors, and how likely it is."""
    if not common_noise:
        return np.zeros(1), np.ones(1)
    nodes, weights = NODES_AND_WEIGHTS
    return common_noise * nodes, weights / weights.sum()


def _log_student(z: Floats, deviation: Floats | float) -> Floats:
    """Up to a constant that all explanations share."""
    logs: Floats = -0.5 * (FREEDOM + 1.0) * np.log1p((z / deviation) ** 2 / FREEDOM)
    return logs - np.log(deviation)


def _or_disturbed(logs: Floats, z: Floats) -> Floats:
    usual = math.log1p(-DISTURBED) + logs
    mixed: Floats = np.logaddexp(usual, math.log(DISTURBED) + _log_student(z, FAR))
    return mixed


def _log_still(z: Floats, shifts: Floats) -> Floats:
    """Log likelihood of each witness that did not move: shifts x witnesses."""
    return _or_disturbed(_log_student(z - shifts[:, None], 1.0), z)


def _log_moved(z: Floats, errors: Floats, sizes: Floats, shifts: Floats) -> Floats:
    """Log likelihood of each witness that moved by about a size: shifts x sizes x witnesses."""
    sized = sizes[:, None] / errors
    spread = np.sqrt(1.0 + (ALIKE * sized) ** 2)
    logs = _log_student(z - sized - shifts[:, None, None], spread)
    return _or_disturbed(logs, z)


def _either(still: Floats, moved: Floats, share: float) -> Floats:
    if share == 1.0:
        return moved
    mixed: Floats = np.logaddexp(math.log1p(-share) + still, math.log(share) + moved)
    return mixed


def _log_mean(logs: Floats, log_chances: Floats, axis: int) -> float:
    return float(np.logaddexp.reduce(logs + log_chances, axis=axis))
