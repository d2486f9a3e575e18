"""A gang's launch: ranks with times of their own, an account, traced steps."""

from __future__ import annotations

from builders.measured import a_pass, a_replicate

from benchmarks.contracts import Account, GangTrace, RankTimes, Replicate, TracedRank

STEP_S = 0.1


def traced(transfer_s: float, wait_s: float, contention_s: float | None) -> GangTrace:
    """Ten traced steps of two equal ranks."""
    rank = TracedRank(
        step_s=STEP_S,
        compute_s=STEP_S - transfer_s - wait_s,
        transfer_s=transfer_s,
        wait_s=wait_s,
        idle_s=0.0,
        contention_s=contention_s,
        lateness_s=(0.0,) * 10,
    )
    return GangTrace(ranks=(rank, rank), collectives=6)


def accounted(
    exchange_s: float,
    wrapper_s: float | None,
    trace: GangTrace | None,
    single_s: float | None = None,
) -> Replicate:
    """A launch of two ranks; the second waits for its input a millisecond longer."""
    account = Account(
        single_s=STEP_S - exchange_s if single_s is None else single_s,
        neighbours_s=0.0,
        wrapper_s=wrapper_s,
        exchange_s=exchange_s,
        gang_s=STEP_S,
    )
    ranks = (RankTimes(step_s=STEP_S, stall_s=0.0), RankTimes(step_s=STEP_S, stall_s=0.001))
    timed = a_pass(STEP_S).model_copy(update={"ranks": ranks})
    update = {"account": account, "gang_trace": trace}
    return a_replicate(timed, timed).model_copy(update=update)
