"""Decides whether a case trains no worse than fp32 eager over some hundred steps. Curves in, a
verdict out.

A run of the case and one of the reference share seed, weights and data, so that their difference is
free of what the seed decides. The end loss is the mean of the last tenth of the steps. Over the
pairs, Student's t bounds the mean difference of the end losses on both sides, each with 95 %
confidence. Two one-sided tests follow (Schuirmann 1987): *no worse* if the upper bound is within
the margin, *worse* if the lower bound is beyond it. Of cases that lie on the margin at most 5 % are
told either; of equal ones far fewer are told worse.

Where four seeds leave it undecided, more follow, and each look has its share of the 5 %
(Bonferroni): whoever looks three times has three chances to be wrong.

The margin is the spread of the reference between seeds, or 1 % of the end loss where that is more:
who trains with one seed cannot tell less from luck. Pure.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import nctdtr, stdtrit

from benchmarks.contracts import LongParity, LongParityStatus, Result, Status, Trace

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
"""Confidence of each of the two bounds, over all looks together."""
END = 0.1
"""Share of the steps whose mean is the end loss: a single batch would say more of itself."""
LEAST_MARGIN = 0.01
"""Least margin, as a share of the end loss: seeds may agree more closely than anyone needs."""
SETTLED = 0.5
"""Share of the steps, the last ones, over which the spread between seeds is taken: that of the end
alone is a guess from as few numbers as there are seeds."""
SMOOTHED = 10
"""Steps of the moving mean in which the place is sought where curves part."""


def with_long_parity(result: Result, long_parity: LongParity) -> Result:
    """``result`` with the comparison; a case that is worse has no speed of this training."""
    update: dict[str, object] = {"long_parity": long_parity}
    if long_parity.status is LongParityStatus.WORSE:
        update |= {"status": Status.PARITY_FAIL, "reason": long_parity.reason}
    return result.model_copy(update=update)


def compare(case: Floats, reference: Floats, looks: int = 1) -> LongParity:
    """Compare losses [seeds, steps] of a case with those of the reference, seed by seed.

    Args:
        case: losses of the case.
        reference: losses of the reference.
        looks: how often the comparison may be made, with more seeds each time.
    """
    seeds, steps = case.shape
    told = LongParity(
        status=LongParityStatus.SKIPPED,
        steps=steps,
        case=tuple(map(Trace.of, case.tolist())),
        reference=tuple(map(Trace.of, reference.tolist())),
    )
    if not np.isfinite(reference).all():
        reason = "The fp32 reference is not finite itself, so there is nothing to hold to."
        return told.model_copy(update={"reason": reason})
    if not np.isfinite(case).all():
        at = 1 + int(np.flatnonzero(~np.isfinite(case).all(axis=0))[0])
        reason = f"The loss of step {at} is not finite, where that of fp32 eager training is."
        update = {"status": LongParityStatus.WORSE, "reason": reason, "parts_at": at}
        return told.model_copy(update=update)
    margin, difference = _margin(reference), _ends(case) - _ends(reference)
    confidence = 1 - (1 - CONFIDENCE) / looks
    low, high = (float(bound) for bound in bounds(difference, confidence))
    update = {
        "status": _status(low, high, margin),
        "difference": float(difference.mean()),
        "low": low,
        "high": high,
        "margin": margin,
        "power": power(float(difference.std(ddof=1)), seeds, margin, confidence),
        "parts_at": _parts_at(case, reference),
    }
    told = told.model_copy(update=update)
    return told.model_copy(update={"reason": _sentence(told, seeds)})


def bounds(differences: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Lower and upper bound on the mean over the first axis, each of ``confidence``."""
    pairs = len(differences)
    half = float(stdtrit(pairs - 1, confidence)) * differences.std(axis=0, ddof=1)
    mean = differences.mean(axis=0)
    return mean - half / math.sqrt(pairs), mean + half / math.sqrt(pairs)


def smoothed(curves: Floats) -> Floats:
    """The moving mean of losses [seeds, steps]; its first value is of step `SMOOTHED`."""
    windows = np.lib.stride_tricks.sliding_window_view(curves, SMOOTHED, axis=-1)
    mean: Floats = windows.mean(axis=-1)
    return mean


def power(deviation: float, pairs: int, margin: float, confidence: float = CONFIDENCE) -> float:
    """Chance that equal training, whose pairs deviate so, is told no worse than ``margin``."""
    if deviation <= 0:
        return 1.0
    moved = margin * math.sqrt(pairs) / deviation
    # Beyond this the noncentral distribution underflows, and nothing is left to chance.
    missed = nctdtr(pairs - 1, moved, stdtrit(pairs - 1, confidence)) if moved < 30 else 0.0
    return 1.0 - float(missed)


def _tenths(curves: Floats) -> Floats:
    """Means of losses [seeds, steps] over stretches of `END` each, the last whole: [seeds, 10]."""
    length = max(1, round(END * curves.shape[1]))
    count = curves.shape[1] // length
    means: Floats = curves[:, -count * length :].reshape(len(curves), count, length).mean(axis=2)
    return means


def _ends(curves: Floats) -> Floats:
    return _tenths(curves)[:, -1]


def _margin(reference: Floats) -> float:
    tenths = _tenths(reference)
    settled = tenths[:, round(SETTLED * tenths.shape[1]) :]
    spread = math.sqrt(float(settled.var(axis=0, ddof=1).mean()))
    return max(spread, LEAST_MARGIN * abs(float(tenths[:, -1].mean())))


def _status(low: float, high: float, margin: float) -> LongParityStatus:
    if high <= margin:
        return LongParityStatus.NO_WORSE
    return LongParityStatus.WORSE if low > margin else LongParityStatus.UNDECIDED


def _parts_at(case: Floats, reference: Floats) -> int:
    """Return the step from which the case is surely above until the end; 0 if it is not."""
    low, _ = bounds(smoothed(case - reference))
    level = np.flatnonzero(low <= 0)
    if len(level) == 0:
        return 1
    after = int(level[-1]) + 1
    return after + SMOOTHED if after < len(low) else 0


def _sentence(told: LongParity, seeds: int) -> str:
    where = f"The curves part at step {told.parts_at}. " if told.parts_at else ""
    where = where if told.status is LongParityStatus.WORSE else ""
    end = f"After {told.steps} steps of {seeds} seeds its loss"
    allowed = f"{told.margin:.2g}"
    match told.status:
        case LongParityStatus.NO_WORSE:
            said = f"is at most {max(told.high, 0.0):.2g} above fp32 eager's; {allowed} is allowed"
        case LongParityStatus.WORSE:
            said = f"is at least {told.low:.2g} above fp32 eager's, where {allowed} is allowed"
        case _:
            said = f"less fp32 eager's is {told.low:.2g} to {told.high:.2g}; {allowed} is allowed"
    return f"{end} {said}. {where}Equal training is told no worse in {told.power:.0%} of such runs."
