"""Traces of simulated gangs: where a step goes, and which rank the others wait for."""

from __future__ import annotations

import io
import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from builders.long_forms import long_but
from builders.measured import a_pass, a_replicate, a_result

from benchmarks.contracts import GangTrace
from benchmarks.diagnosis.straggler import straggler
from benchmarks.measure.profile.collectives import RankSteps, paired, rank_steps
from benchmarks.measure.profile.reading import Unreadable
from benchmarks.measure.profile.timeline import STEP, Collective, Event
from cli.output import result_panel
from cli.output.console import Console

STEPS, LEAD = 10, 2
FORWARD_S, BUCKETS, BACKWARD_S, UPDATE_S, TRANSFER_S = 0.020, 8, 0.036, 0.002, 0.0004
STEP_S = FORWARD_S + BACKWARD_S + TRANSFER_S + UPDATE_S
"""A step of equal ranks without noise: its last bucket's transfer is exposed."""


def event(name: str, at_s: float, until_s: float, cat: str = "kernel", **args: object) -> Event:
    span = {"ts": at_s * 1e6, "dur": (until_s - at_s) * 1e6}
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": cat, "args": args, **span}


def launch(
    delays: Sequence[float],
    seed: int = 0,
    noise_s: float = 50e-6,
    launch_noise_s: float = 0.0,
    backward_s: float = BACKWARD_S,
) -> GangTrace:
    """One launch of ddp over NCCL: each rank computes, each bucket waits for its last rank.

    Rank ``r`` computes ``delays[r]`` longer in each step, each by its own noise, and tells times of
    a clock of its own.
    """
    draw = random.Random(seed)
    events: list[list[Event]] = [[] for _ in delays]
    bias = [draw.gauss(0, launch_noise_s) for _ in delays]
    zeros = [draw.uniform(0, 1000) for _ in delays]
    now = [draw.uniform(0, 0.003) for _ in delays]
    ended = 0.0
    for step in range(LEAD + STEPS + 1):
        parts = [[now[rank]] for rank in range(len(delays))]
        for rank, delay in enumerate(delays):
            more = max(0.0, delay + bias[rank] + abs(draw.gauss(0, noise_s)))
            lasts = [FORWARD_S + more, *[backward_s / BUCKETS] * BUCKETS]
            for last in lasts:
                parts[rank].append(parts[rank][-1] + last)
        for bucket in range(BUCKETS):
            ready = [ends[2 + bucket] for ends in parts]
            begins = [max(ended, at) for at in ready]
            ended = max(begins) + TRANSFER_S
            for rank, begin in enumerate(begins):
                events[rank].append(event("ncclDevKernel_AllReduce", begin, ended))
        for rank, ends in enumerate(parts):
            done = max(ended, ends[-1])
            spans = [*pairwise(ends), (done, done + UPDATE_S)]
            for number, (start, end) in enumerate(spans):
                call = f"{step}.{number}"
                events[rank].append(event("gemm", start, end, correlation=call))
                launched = event("cudaLaunchKernel", start, start, "cuda_runtime", correlation=call)
                events[rank].append(launched)
            now[rank] = done + UPDATE_S
            whole = event(f"{STEP}{step}", ends[0], now[rank], "user_annotation")
            events[rank].append(whole)
    traces = [
        [{**one, "ts": one["ts"] + zero} for one in of_rank]
        for of_rank, zero in zip(events, zeros, strict=True)
    ]
    return paired([rank_steps(trace, LEAD) for trace in traces])


@pytest.mark.parametrize(
    ("delay_s", "ranks"),
    long_but(itertools.product([0.0005, 0.001, 0.005, 0.02], [2, 4]), 0, 6),
)
def test_a_planted_delay_is_found_on_its_rank_with_its_size(delay_s: float, ranks: int) -> None:
    for seed in range(20):
        late = seed % ranks
        delays = [delay_s if rank == late else 0.0 for rank in range(ranks)]
        found = straggler([launch(delays, 100 * seed + number) for number in range(2)])
        assert found is not None
        assert (found.rank, found.launches) == (late, 2)
        assert found.late_s == pytest.approx(delay_s, rel=0.05, abs=50e-6)
        assert found.resolution_s < found.late_s


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_of_a_hundred_equal_gangs_none_has_a_straggler(ranks: int) -> None:
    """Also where the launches differ as much as the steps of one."""
    noises = ((50e-6, 0.0), (2e-3, 0.0), (50e-6, 50e-6), (1e-3, 1e-3))
    for gang in range(100):
        step, of_launch = noises[gang % len(noises)]
        seeds = range(1000 * gang, 1000 * gang + 3)
        traces = [launch([0.0] * ranks, seed, step, of_launch) for seed in seeds]
        assert straggler(traces) is None, gang


def test_a_step_is_divided_among_compute_transfer_wait_and_idle() -> None:
    late, early = launch([0.003, 0.0], noise_s=0.0).ranks
    for rank in (late, early):
        parts = rank.compute_s + rank.transfer_s + rank.wait_s + rank.idle_s
        assert parts == pytest.approx(rank.step_s)
        assert rank.step_s == pytest.approx(STEP_S + 0.003)
        assert rank.transfer_s == pytest.approx(TRANSFER_S)
        assert rank.idle_s == pytest.approx(0.0, abs=1e-9)
    assert late.compute_s - early.compute_s == pytest.approx(0.003)
    assert (late.wait_s, early.wait_s) == pytest.approx((0.0, 0.003), abs=1e-9)
    assert (late.late_s, early.late_s) == pytest.approx((0.003, 0.0), abs=1e-9)


def test_hidden_communication_is_not_exposed_though_its_collectives_wait() -> None:
    """A delay in the forward pass holds up each bucket, and costs the others once."""
    slowly = launch([0.001, 0.0], noise_s=0.0, backward_s=0.2)
    assert slowly.collectives == BUCKETS
    assert slowly.ranks[1].wait_s == pytest.approx(0.001)
    assert slowly.ranks[1].transfer_s == pytest.approx(TRANSFER_S)


def test_one_launch_names_nobody_and_launches_that_disagree_neither() -> None:
    first, second = launch([0.005, 0.0], 1), launch([0.0, 0.005], 2)
    assert straggler([first]) is None
    assert straggler([first, second]) is None
    assert straggler([first, first, second]) is None
    assert straggler([first, GangTrace(absent="It failed."), launch([0.005, 0.0], 3)]) is not None


def test_a_rank_that_was_late_in_a_few_steps_is_none() -> None:
    trace = launch([0.0, 0.0], noise_s=0.0)
    early, late = trace.ranks
    hiccup = late.model_copy(update={"lateness_s": (0.05,) * 4 + (0.0,) * 6})
    other = early.model_copy(update={"lateness_s": (0.0,) * 4 + (1e-6,) * 6})
    assert straggler([trace.model_copy(update={"ranks": (other, hiccup)})] * 3) is None


def test_contention_is_what_the_same_kernels_take_longer_than_without_exchange() -> None:
    def steps(product_s: float, *, exchanges: bool) -> list[Event]:
        told = []
        for number in range(4):
            at = float(number)
            parts = [("gemm", product_s), ("gemm", product_s)]
            parts += [("ncclDevKernel_AllReduce", 0.1), ("copy", 0.1)] if exchanges else []
            told.append(event(f"{STEP}{number}", at, at + 0.9, "user_annotation"))
            for place, (name, seconds) in enumerate(parts):
                start, call = at + 0.2 * place, f"{number}.{place}"
                told.append(event(name, start, start + seconds, correlation=call))
                told.append(event("cudaLaunch", start, start, "cuda_runtime", correlation=call))
        return told

    gang, apart = steps(0.15, exchanges=True), steps(0.1, exchanges=False)
    assert rank_steps(gang, 1, apart).contention_s == pytest.approx([0.1] * 2)
    assert rank_steps(gang, 1).contention_s is None


def test_a_late_rank_is_told_where_the_others_compute_while_they_wait() -> None:
    """As two H200s did: kernels beside a waiting collective took longer, and nothing was exposed.

    A rank that was 0.46 ms late in steps of 17.45 ms cost the other 0.87 - 0.40 ms of contention.
    """
    spans = tuple((0.01745 * n, 0.01745 * (n + 1)) for n in range(STEPS))
    computed = (0.01727,) * STEPS
    late = RankSteps(spans, computed, (), (), (0.00040,) * STEPS)
    other = RankSteps(spans, computed, (), (), (0.00087,) * STEPS)
    some = Collective("0", 0.0, 0.00003)
    told = [replace(one, collectives=(some,)) for one in (late, other)]
    found = straggler([paired(told), paired(told)])
    assert found is not None
    assert found.rank == 0
    assert found.late_s == pytest.approx(0.00047)


def test_an_operator_of_a_cpu_does_not_compute_while_it_waits() -> None:
    def steps(arrives_s: float) -> list[Event]:
        told = []
        for number in range(4):
            at = float(number)
            told.append(event(f"{STEP}{number}", at, at + 0.95, "user_annotation"))
            told.append(event("aten::mm", at, at + 0.9, "cpu_op"))
            told.append(event("_c10d_functional::wait_tensor", at + 0.5, at + 0.8, "cpu_op"))
            told.append(event("gloo:all_reduce", at + arrives_s, at + 0.8, "user_annotation"))
        return told

    early, late = paired([rank_steps(steps(at_s), 1) for at_s in (0.5, 0.7)]).ranks
    assert early.compute_s == pytest.approx(0.6)
    assert (early.transfer_s, early.wait_s) == pytest.approx((0.1, 0.2))
    assert (late.wait_s, late.late_s) == pytest.approx((0.0, 0.2), abs=1e-9)


def test_a_result_prints_the_parts_of_an_exchange_and_who_is_late() -> None:
    def shown(*traces: GangTrace) -> str:
        one = a_replicate(a_pass(0.1), a_pass(0.1))
        parts = [one.model_copy(update={"gang_trace": trace}) for trace in traces]
        sink = io.StringIO()
        result = a_result(one).model_copy(update={"replicates": tuple(parts)})
        result_panel.show(result, Console(file=sink, width=200))
        return sink.getvalue()

    late = [launch([0.0, 0.005], seed) for seed in range(2)]
    told = shown(*late, GangTrace(absent="The profiler recorded no collective."))
    assert "The profiler recorded no collective." in told
    assert re.search(r"exchange +[\d.]+\sµs.* exposed transfer, .* exposed wait a step", told)
    assert re.search(r"straggler +rank 1 arrives [45][.\d]*\sms late in a step, in 2", told)
    assert re.search(r"straggler +none", shown(launch([0.0, 0.0], 1), launch([0.0, 0.0], 2)))
    assert "straggler" not in shown(late[0]), "one launch tells nothing"


def test_ranks_that_recorded_other_collectives_are_not_paired() -> None:
    def steps(buckets: int) -> list[Event]:
        told = []
        for number in range(4):
            at = float(number)
            told.append(event(f"{STEP}{number}", at, at + 0.9, "user_annotation"))
            told.append(event("gemm", at, at + 0.5, correlation=number))
            told.append(event("cudaLaunch", at, at, "cuda_runtime", correlation=number))
            for bucket in range(buckets):
                start = at + 0.1 * bucket
                told.append(event("ncclDevKernel_AllReduce", start, start + 0.1))
        return told

    few, more, none = (rank_steps(steps(buckets), 1) for buckets in (1, 2, 0))
    assert "did not record as many collectives" in paired([few, more]).absent
    assert "no collective" in paired([none, none]).absent
    assert paired([few, "Rank 1 recorded no step."]).absent == "Rank 1 recorded no step."
    with pytest.raises(Unreadable, match="no step"):
        rank_steps([one for one in steps(1) if not one["name"].startswith(STEP)], 1)
