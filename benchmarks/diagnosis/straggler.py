"""Names the rank of a gang that the others wait for, if there is one. Pure.

One rank is always the last. It is named only above the lateness that equal ranks may show, which is
learnt from the launches themselves. It is the largest of three:

* `SPREADS` times how much the rank's lead over the others differs from step to step. Of equal ranks
  each comes last by chance, so a step's lead is spread around zero by as much. A median of ten
  steps has a standard error of 0.4 spreads; three spreads leave room for a disturbance that lasts
  as long as one launch's trace.
* the range of its lateness over launches, for the unit of replication is the launch: if two of them
  disagree by more than the lateness itself, they do not agree on it.
* `LEAST` of a step. GPUs of one kind differ by so much in what they draw and how they clock, and
  scaling efficiencies are told to half a percentage point: less would change no number.

The blocks without exchange cannot serve as the equal gang: a slow GPU is as slow in them.

A rank must be the latest in most steps, not in most collectives: once it has held one up, the next
ones of that step may follow back to back on all ranks, and which is last in them is chance.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.contracts import GangTrace, Straggler, TracedRank

SPREADS = 3.0
"""Spreads of single steps that a rank's median lateness must exceed."""
LEAST = 0.005
"""Share of a step below which nobody is a straggler."""
LAUNCHES = 2
"""Launches that must name the same rank, at least."""
_NORMAL = 1.4826
"""Standard deviation over median absolute deviation, of a normal distribution."""


def straggler(traces: Sequence[GangTrace]) -> Straggler | None:
    """Return the rank that each of at least two launches finds late; None if there is none.

    ``traces`` are of the launches of one case; absent ones do not count.
    """
    launches = [trace.ranks for trace in traces if len(trace.ranks) > 1]
    latest = {_latest(ranks) for ranks in launches}
    rank = latest.pop() if len(latest) == 1 else None
    if rank is None or len(launches) < LAUNCHES:
        return None
    late = [ranks[rank].late_s for ranks in launches]
    resolution_s = _resolution_s(launches, rank)
    if min(late) <= resolution_s:
        return None
    return Straggler(
        rank=rank,
        late_s=statistics.median(late),
        resolution_s=resolution_s,
        launches=len(launches),
    )


def _latest(ranks: Sequence[TracedRank]) -> int | None:
    """The rank that is the latest in most steps of a launch."""
    steps = zip(*(rank.lateness_s for rank in ranks), strict=True)
    last = [max(range(len(ranks)), key=of_step.__getitem__) for of_step in steps]
    rank = statistics.mode(last)
    return rank if 2 * last.count(rank) > len(last) else None


def _resolution_s(launches: Sequence[Sequence[TracedRank]], rank: int) -> float:
    """The lateness of ``rank`` that its steps and launches cannot tell from none."""
    off: list[float] = []
    for ranks in launches:
        others = (one.lateness_s for number, one in enumerate(ranks) if number != rank)
        longest = map(max, zip(*others, strict=True))
        leads = [own - other for own, other in zip(ranks[rank].lateness_s, longest, strict=True)]
        middle = statistics.median(leads)
        off += [abs(lead - middle) for lead in leads]
    late = [ranks[rank].late_s for ranks in launches]
    step_s = statistics.median(ranks[rank].step_s for ranks in launches)
    spread_s = _NORMAL * statistics.median(off)
    return max(SPREADS * spread_s, max(late) - min(late), LEAST * step_s)
