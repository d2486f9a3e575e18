"""A gang on its run's page: a step's account as a waterfall, and a lane for each rank. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from markupsafe import Markup

from benchmarks.contracts import Account, GangTrace, RankTimes, Result
from benchmarks.diagnosis.straggler import LAUNCHES, straggler
from service.analysis.summary import summarise_values
from service.dashboard.sparkline import stacked_bar
from service.schemas.reports import Summary
from service.wording import formats

EXCHANGE = {
    "transfer_s": "exposed transfer",
    "wait_s": "exposed wait for another rank",
    "contention_s": "computation slowed beside it",
}
"""Parts of exchange in traced steps."""
LANE = {
    "compute": "computes",
    "transfer": "exposed transfer",
    "wait": "waits for another rank",
    "idle": "idle",
}
STEP = {"stall": "waits for input", "work": "the rest of its step"}


@dataclass(frozen=True, slots=True)
class ShownPart:
    """One part of the account, with its bar from where the parts before it end."""

    title: str
    value: str
    interval: str
    share: float
    """Of the gang's step; below zero where it takes time away."""
    bar: Markup
    within: bool = False
    """It splits the part above."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One rank's mean step."""

    rank: int
    step_s: float
    stall_s: float
    bar: Markup
    wait_s: float | None = None
    """Exposed wait of a traced step; None where none was traced."""


@dataclass(frozen=True, slots=True)
class ShownGang:
    """The account and the ranks of a gang."""

    parts: tuple[ShownPart, ...]
    launches: int
    lanes: tuple[Lane, ...]
    keys: dict[str, str]
    """Names of a lane's colours, each with its meaning."""
    straggler: str
    """The rank that is late, or that none is; empty where nobody knows."""
    absent: str
    """The reason why steps were not traced."""


def gang(result: Result) -> ShownGang | None:
    """Return what is shown of a gang; None for a run of one process."""
    ranks = [one.full.ranks for one in result.replicates if one.full.ranks]
    if not ranks:
        return None
    accounts = [one.account for one in result.replicates if one.account is not None]
    told = [one.gang_trace for one in result.replicates if one.gang_trace is not None]
    traces = [one for one in told if one.ranks]
    return ShownGang(
        parts=tuple(_waterfall(accounts, traces)) if accounts else (),
        launches=len(accounts),
        lanes=_lanes(ranks, traces),
        keys=LANE if traces else STEP,
        straggler=_late(traces),
        absent=next((one.absent for one in told if one.absent), ""),
    )


def _waterfall(accounts: Sequence[Account], traces: Sequence[GangTrace]) -> Iterator[ShownPart]:
    """One GPU alone, each part that the gang adds, the residual, the gang."""
    gang_s = fmean(one.gang_s for one in accounts)
    wrapped = all(one.wrapper_s is not None for one in accounts)
    clocked = any(one.clock_s is not None for one in accounts)
    parts: dict[str, Callable[[Account], float]] = {
        "one GPU alone": lambda one: one.single_s,
        **({"clock": lambda one: one.clock_s or 0.0} if clocked else {}),
        "neighbours": lambda one: one.neighbours_s,
        **({"wrapper": lambda one: one.wrapper_s or 0.0} if wrapped else {}),
        "exchange" if wrapped else "wrapper and exchange": lambda one: one.exchange_s,
        "residual": lambda one: one.residual_s,
    }
    ends = list(accumulate(fmean(map(of, accounts)) for of in parts.values()))
    whole = max(gang_s, *ends)
    at = 0.0
    for (title, of), end in zip(parts.items(), ends, strict=True):
        yield _part(title, [of(one) for one in accounts], (at, gang_s, whole))
        if title.endswith("exchange"):
            yield from _split(traces, (at, gang_s, whole))
        at = end
    yield _part("the gang", [one.gang_s for one in accounts], (0.0, gang_s, whole))


def _split(traces: Sequence[GangTrace], frame: tuple[float, float, float]) -> Iterator[ShownPart]:
    """The parts of exchange in traced steps, one after the other; what they do not explain is not
    told, as traced steps are other steps."""
    at, gang_s, whole = frame
    for name, title in EXCHANGE.items():
        values = [value for one in traces if (value := getattr(one, name)) is not None]
        if values:
            yield _part(title, values, (at, gang_s, whole), within=True)
            at += fmean(values)


def _part(
    title: str, values: Sequence[float], frame: tuple[float, float, float], *, within: bool = False
) -> ShownPart:
    at, gang_s, whole = frame
    summary = summarise_values(values)
    start, length = min(at, at + summary.value), abs(summary.value)
    shade = "none" if title == "residual" else ("transfer" if within else "work")
    shade = "stall" if summary.value < 0 else shade
    value = formats.quantity(summary.value, "s")
    return ShownPart(
        title=title,
        value=value,
        interval=_half_width(summary),
        share=summary.value / gang_s if gang_s else 0.0,
        bar=stacked_bar([("skip", start), (shade, length)], whole, f"{title}: {value}"),
        within=within,
    )


def _half_width(of: Summary) -> str:
    """As a time: a part may be zero."""
    if of.low is None or of.high is None:
        return ""
    return f"±{formats.NBSP}{formats.quantity((of.high - of.low) / 2, 's')}"


def _lanes(ranks: Sequence[Sequence[RankTimes]], traces: Sequence[GangTrace]) -> tuple[Lane, ...]:
    """Each rank's mean step over the launches, all on one scale; traced steps where there are."""
    number = min(map(len, ranks))
    means = [
        (fmean(one[rank].step_s for one in ranks), fmean(one[rank].stall_s for one in ranks))
        for rank in range(number)
    ]
    traced = [_traced(rank, traces) for rank in range(number)]
    parts = [
        told or {"stall": stall_s, "work": max(0.0, step_s - stall_s)}
        for told, (step_s, stall_s) in zip(traced, means, strict=True)
    ]
    whole = max(sum(one.values()) for one in parts)
    words = LANE | STEP
    return tuple(
        Lane(
            rank=rank,
            step_s=step_s,
            stall_s=stall_s,
            bar=stacked_bar(list(of.items()), whole, _said(rank, of, words)),
            wait_s=told["wait"] if (told := traced[rank]) else None,
        )
        for rank, ((step_s, stall_s), of) in enumerate(zip(means, parts, strict=True))
    )


def _traced(rank: int, traces: Sequence[GangTrace]) -> dict[str, float]:
    """A rank's parts of a traced step, means over launches; empty where none was traced."""
    known = [one.ranks[rank] for one in traces if rank < len(one.ranks)]
    if not known:
        return {}
    return {name: fmean(getattr(one, f"{name}_s") for one in known) for name in LANE}


def _said(rank: int, parts: dict[str, float], words: dict[str, str]) -> str:
    told = (f"{words[name]} {formats.quantity(s, 's')}" for name, s in parts.items())
    return f"Rank {rank}: {', '.join(told)}"


def _late(traces: Sequence[GangTrace]) -> str:
    if len(traces) < LAUNCHES:
        return ""
    late = straggler(traces)
    said = formats.straggler(late) if late else "no rank is later than equal ranks may be"
    return f"{said[0].upper()}{said[1:]}."
