"""Finds the waits that come every few steps, such as a loss that is printed, and their cost."""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import cycle, pairwise
from statistics import median, median_low

from benchmarks.contracts import Profile, Synchronization
from benchmarks.measure.profile.observation import Observation, WaitObserver
from benchmarks.measure.timestamps import drain
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch

STEPS = 101
"""Steps that are watched: a wait in the first step and every 50 steps comes three times."""
LEAST_TIMES = 3
"""Two waits at any distance would make a period."""
LEAST_STEPS = 12
MOST_S = 3.0
"""Longest watch; steps that take longer are watched less often."""
ROUNDS = 4
"""Rounds of a wait that its cost is estimated from, at least."""
CERTAIN = 5.0
"""Standard errors by which the steps that wait are slower: the slowest of many is picked."""
TOO_LONG = (
    f"Waits that come every few steps were not looked for: {LEAST_STEPS} steps take over "
    f"{MOST_S:.0f} s."
)


def watch(trainer: Trainer, ring: Sequence[Batch], into: Observation) -> None:
    """Step for a while and note in ``into`` which waits come every few steps."""
    observer, steps = WaitObserver(trainer.device), 0
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    calls: Counter[tuple[str, str]] = Counter()
    from_s, last_s, feed = time.monotonic(), 0.0, cycle(ring)
    while steps < STEPS and _affordable(time.monotonic() - from_s, last_s, steps):
        step_from_s = time.monotonic()
        with observer:
            trainer.step(next(feed))
        drain(trainer.device)
        last_s = time.monotonic() - step_from_s
        for wait, often in observer.observed.waits.items():
            seen[wait].append(steps)
            calls[wait] = often
        observer.observed = Observation()
        steps += 1
    if steps < LEAST_STEPS:
        into.notes.append(TOO_LONG)
        return
    for wait, at in seen.items():
        if len(at) < steps:
            # CUDA may have reported this wait too, by its line.
            for other in {other for other in into.waits if other[1] == wait[1]} - seen.keys():
                del into.waits[other]
            into.waits.pop(wait, None)
            if (every := period(at, steps)) is None:
                into.notes.append(_irregular(wait, len(at), steps))
            else:
                into.every[wait], into.waits[wait] = every, calls[wait]


def _irregular(wait: tuple[str, str], times: int, steps: int) -> str:
    what, source = wait
    return f"The host waits in {times} of {steps} steps at {source[:150]} ({what[:100]})."


def _affordable(spent_s: float, last_s: float, steps: int) -> bool:
    """Return True if there is time for another step, and for enough of them as long as the last."""
    return spent_s + last_s * max(0, LEAST_STEPS - steps) < MOST_S


def period(at: Sequence[int], steps: int) -> int | None:
    """Return the number of steps from one to the next; None where there is no such number.

    ``at`` are those of ``steps`` steps at which something was seen, in order.
    """
    if len(at) < LEAST_TIMES:
        return None
    gaps = {later - earlier for earlier, later in pairwise(at)}
    if len(gaps) != 1 or gaps == {1}:
        return None
    (gap,) = gaps
    return gap if at[0] < gap and at[-1] + gap >= steps else None


def with_costs(profile: Profile, step_s: Sequence[float]) -> Profile:
    """``profile`` with the seconds per step of each wait that comes every few steps.

    ``step_s`` are the steps of a timed pass, in order. Waits with the same period share one cost,
    which the first of them gets.
    """
    told: set[int] = set()
    waits: list[Synchronization] = []
    for wait in profile.synchronizations:
        is_first = wait.every > 1 and wait.every not in told
        cost = cost_s(step_s, wait.every) if is_first else wait.cost_s
        told.add(wait.every)
        waits.append(wait.model_copy(update={"cost_s": cost}))
    return profile.model_copy(update={"synchronizations": tuple(waits)})


def cost_s(step_s: Sequence[float], every: int) -> float | None:
    """Mean seconds per step by which each ``every``-th step is slower; 0 if that is within noise.

    None where the pass was too short to tell.
    """
    if len(step_s) < ROUNDS * every:
        return None
    rounds = [step_s[place::every] for place in range(every)]
    typical = [median(steps) for steps in rounds]
    slower_s = max(typical) - median_low(typical)
    spread_s = median(abs(s - typical[place % every]) for place, s in enumerate(step_s))
    error_s = 1.86 * spread_s / math.sqrt(len(step_s) / every)  # of a median of normal values
    return slower_s / every if slower_s > CERTAIN * error_s else 0.0
