"""Words for what measuring took of the devices, and what that cost."""

from __future__ import annotations

from collections.abc import Iterator

from service.schemas.costs import Spent
from service.wording import formats


def said(spent: Spent) -> str:
    """Say hours and cost in one line: ``1.5 GPU-hours in 12 attempts, 4.20 USD.``"""
    hours = [f"{_hours(spent.gpu_s)} GPU-hours"]
    if spent.cpu_s:
        hours.append(f"{_hours(spent.cpu_s)} hours of workers without a GPU")
    return f"{' and '.join(hours)} in {formats.counted(spent.attempts, 'attempt')}{_cost(spent)}."


def _cost(spent: Spent) -> str:
    if spent.usd is None:
        return ""
    most = f" without {_hours(spent.unpriced_gpu_s)} GPU-hours that have no price"
    return f", {spent.usd:,.2f} USD{most if spent.unpriced_gpu_s else ''}"


def prices(spent: Spent) -> Iterator[str]:
    """Yield each price that a cost rests on, with its date and source."""
    for one in spent.prices:
        yield f"{one.gpu}: {one.usd_per_hour:,.2f} USD an hour since {one.since}, {one.source}."


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f}" if seconds >= 360 else f"{seconds / 3600:.2g}"
