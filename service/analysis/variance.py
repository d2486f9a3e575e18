"""How much a number of one series varies, by its four causes: step, process, night, node. Pure.

Steps of a process, processes of a night, nights of a node and nodes of one kind are nested random
effects on the logarithm of the value. Levels between change points are fixed effects, so that a
series tells of its noise and not of its changes.

- Method of moments. The mean square of each cause grows with its own variance and with those below
  it (Henderson's method 3: Searle, Casella, McCulloch, *Variance Components*, 1992, ch. 5). Without
  balance it is unbiased; it has no iteration that may not end.
- No negative variance: a mean square below the one under it is pooled with it (Thompson, *Annals of
  Mathematical Statistics* 33, 1962), as restricted maximum likelihood does under that constraint.
- Few nights or nodes: two alone would need an interval of 12.7 standard deviations. So each mean
  square takes `PRIOR` degrees of freedom from what is expected before anything is known (Smyth,
  *Statistical Applications in Genetics* 3, 2004): that a cause adds as much as those below it.
- A sum of variances has Satterthwaite's degrees of freedom (*Biometrics Bulletin* 2, 1946). One
  part has the interval of Graybill and Wang (*JASA* 75, 1980).

What a node does every night is the node's part; what it does on one night is that night's. What
the points cannot tell apart stays together: with one process a night, process and night; with one
night a node, night and node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

import numpy as np
from scipy.special import chdtri, stdtrit

from service.analysis.detection.robust import FLOOR, Floats, spread

NIGHT = timedelta(hours=12)
"""What a node measured within this time shares its night."""
REACH = 30
"""Newest points that are looked at: histories wander. From 60, intervals for recorded nights were a
tenth wider and held no more of them."""
PRIOR = 1.0
"""With one, 95 % intervals held 91 to 98 % of the next nights wherever nodes differ up to twice as
much as nights; with two or three, fewer (`trials/intervals`)."""
FAR, FEW = 5.0, 8
"""Among so many nights or more, what lies farther out, in standard deviations, is pulled back."""
ROUNDS = 12
"""A far outlier moves the fit that it is pulled to; twelve rounds leave nothing of that."""
WIDEST = 50.0
"""Half-width, on the logarithm, beyond which an interval says no more than this one does."""
BLOCKS = 9
"""Degrees of freedom of a process's own interval: a pass has ten blocks of steps at least."""


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One point, as this model looks at it; deviations are shares of the value."""

    value: float
    processes: int
    between: float | None
    """Standard deviation between its processes; None for one process."""
    within: float | None
    """Standard error of one process by its own steps; None if it is not known."""
    node: str
    at: datetime
    level: int = 0
    """Which stretch between change points it lies on; the largest is the newest."""


@dataclass(frozen=True, slots=True)
class Square:
    """A mean square: the variance that a cause and those below it make, as a squared share."""

    value: float
    freedom: float


@dataclass(frozen=True, slots=True)
class Component:
    """The standard deviation that one cause adds, as a share, with its 95 % interval."""

    deviation: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Spread:
    """How values of a series vary around its newest level; a square is None where it is unknown."""

    level: float
    """The mean of the newest level, in the unit measured."""
    nights: int
    """On the newest level; a night of two nodes counts twice."""
    nodes: float
    """On the newest level, counted as if each had as many nights as the others."""
    processes: float
    """Of a night, as a harmonic mean."""
    nights_of_node: float
    """How often the mean square between nodes holds their variance."""
    step: Square | None
    """Within one process."""
    process: Square | None
    """Between the processes of a night, as the variance of a mean of ``processes``."""
    night: Square | None
    """Between the nights of a node."""
    node: Square | None
    """Between the nodes."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` made."""
        squares = {name: document[name] and Square(**document[name]) for name in CAUSES}
        return cls(**{**document, **squares})

    @property
    def parts(self) -> dict[str, Component]:
        """The known part of each cause; what cannot be told apart has one part and both names."""
        single = self.process and Square(self.process.value * self.processes, self.process.freedom)
        night = "night" if self.process else "process and night"
        node = "node" if self.night else "night and node"
        below = self.night or self.process
        parts = {
            "step": _part(self.step, None),
            "process": _part(single, self.step),
            night: _part(self.night, self.process),
            node: _part(self.node, below, self.nights_of_node if self.night else 1.0),
        }
        return {cause: part for cause, part in parts.items() if part}

    def next_night(self, processes: int) -> float | None:
        """95 % half-width around ``level``, on the logarithm, for the mean of the next night.

        On any node of the kind if ``node`` is known, else on one of those that measured. None where
        one night alone is known, which says nothing of the next.
        """
        if not (self.night or self.node):
            return None
        of_processes = 1 / processes + 1 / (self.nights * self.processes)
        return self._reach(of_processes, 1 + 1 / self.nights, 1 + 1 / self.nodes, 0.95)

    def level_reach(self) -> float | None:
        """95 % half-width of ``level`` itself, on the logarithm; None where one night is known."""
        if not (self.night or self.node):
            return None
        return self._reach(
            1 / (self.nights * self.processes), 1 / self.nights, 1 / self.nodes, 0.95
        )

    def repeat(self, processes: int) -> float | None:
        """95 % half-width, on the logarithm, for the same number measured on another night.

        On another node if ``node`` is known, else on the same. None where one night is known.
        """
        if not (self.night or self.node):
            return None
        both, same_node = (processes, processes), self.node is None
        return self.apart(both, 0.95, same_night=False, same_node=same_node)

    def apart(
        self, processes: tuple[int, int], confidence: float, *, same_night: bool, same_node: bool
    ) -> float | None:
        """Half-width for the log ratio of two numbers of equal code; None if nothing is known."""
        of_processes = 1 / processes[0] + 1 / processes[1]
        return self._reach(of_processes, 2 * (not same_night), 2 * (not same_node), confidence)

    def _reach(self, process: float, night: float, node: float, confidence: float) -> float | None:
        """Student's half-width of a sum that holds the variance of each cause so many times."""
        process *= self.processes
        top, middle, times = self.node, self.night, node / self.nights_of_node
        if middle is None:  # one night a node: what differs between nights lies in that square too
            top, middle, night = None, self.node, max(night, node)
        if self.process is None:  # it may all lie between processes: more of them count as no more
            night = max(night, process)
        times = times if top else 0.0
        shares: dict[Square, float] = {}
        below = night if middle else 0.0
        for square, share in (
            (top, times), (middle, night - times), (self.process, process - below)
        ):  # fmt: skip
            if square:
                shares[square] = shares.get(square, 0.0) + share
        return _students(shares, confidence) if shares else None


CAUSES = ("step", "process", "night", "node")


def spread_of(points: Sequence[MeasuredPoint]) -> Spread | None:
    """Estimate how values vary from the newest `REACH` of a series' points, in any order.

    None without points, and for values that are not all above zero, which have no shares.
    """
    newest = sorted(points, key=lambda one: (one.level, one.at, one.node, one.value))[-REACH:]
    if not newest or min(one.value for one in newest) <= 0:
        return None
    nights = _nights(newest)
    processes = len(nights) / math.fsum(1 / _processes(night) for night in nights)
    levels = _columns([night[0].level for night in nights])
    nodes = _columns([night[0].node for night in nights])
    onto_both, rank = _projection(np.hstack([levels, nodes]))
    onto_levels, of_levels = _projection(levels)
    between, freedom = rank - of_levels, len(nights) - rank
    y = _pulled(np.array([_mean(night) for night in nights]), onto_both, freedom)
    left = _left(y, onto_both)
    # Henderson's coefficient: the trace of the nodes' design without what levels explain of it.
    shared = float(np.sum((levels.T @ nodes) ** 2 / levels.sum(axis=0)[:, None]))
    times = (len(y) - shared) / between if between else 1.0
    process, night, node = _rising(
        _between_processes(nights, processes),
        _square(left, freedom),
        _square(max(0.0, _left(y, onto_levels) - left), between),
        times,
    )
    now = levels[:, -1] > 0
    return Spread(
        level=math.exp(float(y[now].mean())),
        nights=int(now.sum()),
        nodes=1 / float(np.sum(nodes[now].mean(axis=0) ** 2)),
        processes=processes,
        nights_of_node=times,
        step=_within(newest),
        process=process,
        night=night,
        node=node,
    )


def _nights(points: Sequence[MeasuredPoint]) -> list[list[MeasuredPoint]]:
    """Put together what one node measured in one night of one level; ``points`` are in time."""
    nights: dict[tuple[int, str], list[list[MeasuredPoint]]] = {}
    for one in points:
        of_node = nights.setdefault((one.level, one.node), [])
        if of_node and one.at - of_node[-1][0].at < NIGHT:
            of_node[-1].append(one)
        else:
            of_node.append([one])
    return [night for of_node in nights.values() for night in of_node]


def _processes(night: Sequence[MeasuredPoint]) -> int:
    return sum(one.processes for one in night)


def _mean(night: Sequence[MeasuredPoint]) -> float:
    return math.fsum(one.processes * math.log(one.value) for one in night) / _processes(night)


def _between_processes(nights: Sequence[Sequence[MeasuredPoint]], of_mean: float) -> Square | None:
    """Pool what processes of one night differ by, in one point or in several of one night."""
    known = [one for night in nights for one in night if one.between is not None]
    squares = np.array([one.between**2 for one in known if one.between is not None])
    # One wild night says little: what is far beyond the others is pulled back, as nights are.
    limit = FAR**2 * float(np.median(squares)) if len(known) >= FEW else math.inf
    freedom = [one.processes - 1 for one in known]
    total = float(np.minimum(squares, limit or math.inf) @ freedom) if known else 0.0
    for night in nights:
        middle = _mean(night)
        total += math.fsum(one.processes * (math.log(one.value) - middle) ** 2 for one in night)
    return _square(total / of_mean, sum(freedom) + sum(len(night) - 1 for night in nights))


def _within(points: Sequence[MeasuredPoint]) -> Square | None:
    known = [(one.within**2, one.processes) for one in points if one.within is not None]
    count = sum(processes for _, processes in known)
    total = math.fsum(square * processes for square, processes in known)
    return Square(total / count, count * BLOCKS) if count else None


def _columns(names: Sequence[int] | Sequence[str]) -> Floats:
    """Give the design of a factor: a row for each night, a column for each name in their order."""
    found = sorted(set(names))  # type: ignore[type-var]
    return np.array([[float(name == other) for other in found] for name in names])


def _projection(design: Floats) -> tuple[Floats, int]:
    """Give the matrix that takes values to their least-squares fit, and the rank of the design."""
    onto: Floats = design @ np.linalg.pinv(design)
    return onto, round(float(np.trace(onto)))


def _left(y: Floats, onto: Floats) -> float:
    return float(np.sum((y - onto @ y) ** 2))


def _pulled(y: Floats, onto: Floats, freedom: int) -> Floats:
    """Pull outliers back to ``FAR`` standard deviations: they are no nights like others."""
    if freedom < FEW:
        return y
    for _ in range(ROUNDS):
        fitted = onto @ y
        scale = max(FLOOR, spread(y - fitted) * math.sqrt(len(y) / freedom))
        y = fitted + np.clip(y - fitted, -FAR * scale, FAR * scale)
    return y


def _square(total: float, freedom: int) -> Square | None:
    return Square(total / freedom, freedom) if freedom else None


def _rising(
    process: Square | None, night: Square | None, node: Square | None, times: float
) -> list[Square | None]:
    """Draw each square to what is expected of it, then pool those that are below the one before."""
    if night and process:
        night = _drawn(night, 2 * process.value)
    below = night or process
    if node and below:
        node = _drawn(node, (1 + (times if night else 1.0)) * below.value)
    pools: list[list[Square]] = []
    for square in filter(None, (process, night, node)):
        pools.append([square])
        while len(pools) > 1 and _pooled(pools[-1]).value <= _pooled(pools[-2]).value:
            last = pools.pop()
            pools[-1] += last
    risen = iter([_pooled(pool) for pool in pools for _ in pool])
    return [square and next(risen) for square in (process, night, node)]


def _drawn(square: Square, expected: float) -> Square:
    return _pooled([square, Square(expected, PRIOR)])


def _pooled(squares: Sequence[Square]) -> Square:
    freedom = math.fsum(square.freedom for square in squares)
    total = math.fsum(square.value * square.freedom for square in squares)
    return Square(total / freedom, freedom)


def _students(shares: Mapping[Square, float], confidence: float) -> float:
    """Student's half-width of a sum of mean squares, with Satterthwaite's degrees of freedom."""
    variance = math.fsum(share * square.value for square, share in shares.items())
    doubt = math.fsum((share * square.value) ** 2 / square.freedom
                      for square, share in shares.items())  # fmt: skip
    if variance <= 0 or not doubt:
        return 0.0
    freedom = max(1.0, variance**2 / doubt)
    half = float(stdtrit(freedom, 0.5 + confidence / 2)) * math.sqrt(variance)
    return min(half, WIDEST)


def _part(above: Square | None, below: Square | None, times: float = 1.0) -> Component | None:
    """Give what ``above`` has beyond ``below``, with the interval of Graybill and Wang."""
    if above is None:
        return None
    up, down = _bounds(above)
    up_below, down_below = _bounds(below) if below else (0.0, 0.0)
    middle = above.value - (below.value if below else 0.0)
    low, high = middle - math.hypot(down, up_below), middle + math.hypot(up, down_below)
    return Component(*(math.sqrt(max(0.0, end) / times) for end in (middle, low, high)))


def _bounds(square: Square) -> tuple[float, float]:
    """Give how far the variance may lie above and below a mean square, with 95 % confidence."""
    high, low = (square.freedom / float(chdtri(square.freedom, p)) for p in (0.975, 0.025))
    return square.value * (high - 1), square.value * (1 - low)
