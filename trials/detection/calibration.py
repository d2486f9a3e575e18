"""How sure a detection may be called: fits ``change.confidence`` on the suite's tuning half.

    PYTHONPATH=.:tests python -m trials.detection.calibration

Prints the share of right ones by evidence, and the two constants of the logistic curve through it.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import minimize

from service.analysis.detection.segment_model import THRESHOLD
from service.analysis.detection.windows import detect
from trials.detection.ours import history
from trials.detection.score import TOLERANCE
from trials.detection.synthetic import TUNING, Floats, suite


def main() -> None:
    """Print the table and the constants."""
    seen = [
        (
            change.evidence,
            any(abs(change.index - true) <= TOLERANCE for true in series.change_points),
        )
        for series in suite(TUNING)
        for change in detect(history(series)).change_points
    ]
    weights, right = np.array(seen, dtype=float).T
    borders = np.quantile(weights, np.linspace(0, 1, 9))
    for low, high in itertools.pairwise(borders):
        inside = (weights >= low) & (weights <= high)
        print(f"evidence {low:5.1f} to {high:5.1f}: {right[inside].mean():.2f} of {inside.sum()}")
    fitted = minimize(_surprise, x0=[0.0, 1.0], args=(weights - THRESHOLD, right))
    print("CONFIDENCE_AT_THRESHOLD, CONFIDENCE_PER_SIGMA =", np.round(fitted.x, 2).tolist())


def _surprise(curve: Floats, above: Floats, right: Floats) -> float:
    odds = curve[0] + curve[1] * above
    return float(np.mean(np.logaddexp(0.0, np.where(right > 0, -odds, odds))))


if __name__ == "__main__":
    main()
