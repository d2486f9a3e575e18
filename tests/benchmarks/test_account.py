"""The account of a gang's step: every part at the gang's clock, what the clock adds apart."""

import numpy as np
import pytest
from builders.measured import BATCH, a_pass, a_replicate, a_result

from benchmarks.contracts import Account, GangBlock, Result
from benchmarks.diagnosis.account import account
from benchmarks.measure.ranks import lowest

SLOPE, HZ = -0.7, 1.5e9
SINGLE_S, NEIGHBOURS_S, WRAPPER_S, EXCHANGE_S = 0.060, 0.001, 0.0005, 0.003
PARTS_S = (SINGLE_S, NEIGHBOURS_S, WRAPPER_S, EXCHANGE_S)


def blocks(step_s: float, hz: float, random: np.random.Generator, **more: bool) -> list[GangBlock]:
    """Twelve blocks of a step that takes ``step_s`` at `HZ`, with a clock that varies by 0.3 %."""
    clocks = hz * np.exp(random.normal(0.0, 0.003, 12))
    times = step_s * (clocks / HZ) ** SLOPE * np.exp(random.normal(0.0, 2e-4, 12))
    return [
        GangBlock(step_s=time, sm_clock_hz=clock, **more)
        for time, clock in zip(times.tolist(), clocks.tolist(), strict=True)
    ]


def part(
    told: list[GangBlock], in_turn: list[GangBlock] | None = None, *, clocks: bool = True
) -> Result:
    """One part of a launch, which took as long as its blocks."""
    if not clocks:
        told = [one.model_copy(update={"sm_clock_hz": None}) for one in told]
    timed = a_pass(float(np.mean([one.step_s for one in told])))
    timed = timed.model_copy(update={"blocks": tuple(told)})
    replicate = a_replicate(timed, timed)
    replicate = replicate.model_copy(update={"exchange_blocks": tuple(in_turn or ())})
    return a_result(replicate).model_copy(update={"batch_items": BATCH})


def drawn_up(*, clocks: bool = True, wrapped: bool = True) -> Account:
    """The account of a launch whose gang runs at 97 % of `HZ`, and each part at a clock of its
    own."""
    random = np.random.default_rng(5)
    beside_s = SINGLE_S + NEIGHBOURS_S
    apart_s = beside_s + WRAPPER_S
    gang_s = apart_s + EXCHANGE_S
    in_turn = [
        *blocks(gang_s, 0.97 * HZ, random),
        *blocks(apart_s, 0.98 * HZ, random, exchanges=False),
    ]
    return account(
        part(blocks(gang_s, 0.97 * HZ, random), in_turn if wrapped else None, clocks=clocks),
        part(blocks(SINGLE_S, HZ, random), clocks=clocks),
        part(blocks(beside_s, 0.99 * HZ, random), clocks=clocks),
        part(blocks(apart_s, 1.01 * HZ, random), clocks=clocks) if wrapped else None,
    )


def test_each_part_is_told_at_the_clock_of_the_gang() -> None:
    told = drawn_up()
    slower = 0.97**SLOPE
    assert told.clock_s == pytest.approx((slower - 1) * SINGLE_S, rel=0.1)
    parts = (told.single_s, told.neighbours_s, told.wrapper_s, told.exchange_s)
    for measured, planted in zip(parts[1:], PARTS_S[1:], strict=True):
        assert measured == pytest.approx(planted * slower, abs=1e-4)
    assert abs(told.residual_s) < 1e-4


def test_without_clocks_the_parts_stand_as_measured_and_the_residual_says_so() -> None:
    told = drawn_up(clocks=False)
    assert told.clock_s is None
    assert abs(told.residual_s) > 5e-4


def test_a_slope_that_may_be_chance_moves_no_part() -> None:
    """Clocks that hardly move within the parts say nothing of clocks that are 3 % apart."""
    random = np.random.default_rng(7)
    for _ in range(20):
        parts = [
            [
                GangBlock(step_s=SINGLE_S * float(time), sm_clock_hz=hz * float(clock))
                for time, clock in np.exp(random.normal(0.0, (3e-3, 6e-4), (12, 2)))
            ]
            for hz in (0.97 * HZ, HZ, 0.99 * HZ)
        ]
        told = account(*(part(blocks) for blocks in parts), None)
        assert told.clock_s is None


def test_a_block_has_the_lowest_clock_of_its_ranks() -> None:
    assert lowest([1.6e9, 1.5e9]) == 1.5e9
    assert lowest([1.6e9, None]) is None


def test_where_nothing_runs_without_exchange_sharing_is_one_part() -> None:
    told = drawn_up(wrapped=False)
    assert told.wrapper_s is None
    assert told.exchange_s == pytest.approx((WRAPPER_S + EXCHANGE_S) * 0.97**SLOPE, abs=1e-4)
    assert told.residual_s == pytest.approx(0.0, abs=1e-12)
