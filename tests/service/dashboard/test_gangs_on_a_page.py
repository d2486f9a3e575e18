"""A gang on its run's page: where the scaling goes, and what each rank did."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from builders.ganged import STEP_S, accounted, traced
from builders.measured import a_result
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import Replicate
from service.dashboard.gangs import ShownGang, gang

Submit = Callable[..., dict[str, Any]]


def shown(*replicates: Replicate) -> ShownGang:
    result = a_result(replicates[0]).model_copy(update={"replicates": replicates})
    told = gang(result)
    assert told is not None
    return told


def bars(of: ShownGang) -> dict[str, tuple[float, float]]:
    """Where each part's bar begins and ends, as shares of the gang's step."""
    drawn = {}
    for one in of.parts:
        (x, width) = re.findall(r'x="([\d.]+)" y="0" width="([\d.]+)"', str(one.bar))[1]
        drawn[one.title] = (float(x) / 1000, (float(x) + float(width)) / 1000)
    return drawn


def test_each_part_begins_where_those_before_it_end_and_the_residual_closes_the_account() -> None:
    told = bars(shown(accounted(0.02, 0.005, None, single_s=0.07)))
    assert list(told) == [
        "one GPU alone",
        "neighbours",
        "wrapper",
        "exchange",
        "residual",
        "the gang",
    ]
    assert told["one GPU alone"] == pytest.approx((0.0, 0.7))
    assert told["wrapper"] == pytest.approx((0.7, 0.75))
    assert told["exchange"] == pytest.approx((0.75, 0.95))
    assert told["residual"] == pytest.approx((0.95, 1.0))
    assert told["the gang"] == pytest.approx((0.0, 1.0))


def test_what_the_clock_adds_is_a_part_where_a_launch_tells_it() -> None:
    known = accounted(0.02, 0.005, None, single_s=0.07)
    assert known.account is not None
    with_clock = known.account.model_copy(update={"clock_s": 0.004})
    clocked = known.model_copy(update={"account": with_clock})
    told = shown(clocked, known)
    titles = [one.title for one in told.parts]
    assert titles[:3] == ["one GPU alone", "clock", "neighbours"]
    assert told.parts[1].value == "2\u00a0ms", "a launch that does not tell it counts as none"
    assert bars(told)["residual"][1] == pytest.approx(1.0)


def test_traced_steps_split_exchange_below_it() -> None:
    told = shown(accounted(0.02, 0.0, traced(0.012, 0.005, 0.003)))
    place = [one.title for one in told.parts].index("exchange")
    within = told.parts[place + 1 : place + 4]
    assert [one.value for one in within] == ["12\u00a0ms", "5\u00a0ms", "3\u00a0ms"]
    assert all(one.within for one in within)
    assert bars(told)["exposed wait for another rank"] == pytest.approx((0.92, 0.97))


def test_a_negative_part_is_drawn_back_from_where_it_begins() -> None:
    told = shown(accounted(-0.01, 0.0, None))
    assert next(one.share for one in told.parts if one.title == "exchange") < 0
    (one, other) = bars(told)["one GPU alone"], bars(told)["exchange"]
    assert one == pytest.approx((0.0, 1.0))
    assert other == pytest.approx((0.1 / 0.11, 1.0), abs=1e-4)


def test_where_nothing_runs_without_exchange_both_are_one_part() -> None:
    titles = [one.title for one in shown(accounted(0.02, None, None)).parts]
    assert "wrapper and exchange" in titles
    assert "wrapper" not in titles


def test_each_rank_has_a_lane_with_its_own_times() -> None:
    plain, split = (
        shown(accounted(0.02, 0.0, None)),
        shown(accounted(0.0, 0.0, traced(0.01, 0.02, None))),
    )
    assert [(one.rank, one.step_s, one.stall_s, one.wait_s) for one in plain.lanes] == [
        (0, STEP_S, 0.0, None),
        (1, STEP_S, pytest.approx(0.001), None),
    ]
    assert [one.wait_s for one in split.lanes] == [0.02, 0.02]
    assert "waits for another rank 20" in str(split.lanes[0].bar)


def test_a_rank_is_told_to_be_late_or_not_from_two_traced_launches_on() -> None:
    launch = accounted(0.02, 0.0, traced(0.01, 0.01, 0.0))
    assert shown(launch).straggler == ""
    assert shown(launch, launch).straggler == "No rank is later than equal ranks may be."


def test_a_run_of_one_process_shows_no_gang(a_run: Callable[..., str]) -> None:
    assert 'id="gang"' not in a_run()


def test_the_page_has_the_account_and_the_lanes(a_run: Callable[..., str]) -> None:
    text = a_run(replicates=(accounted(0.02, 0.0, traced(0.01, 0.01, 0.0)),))
    assert "The gang: what sharing costs" in text
    assert "means over 1 launch<" in text
    assert "residual" in text
    assert re.search(r"Rank 1<br>", text)


@pytest.fixture
def a_run(client: TestClient, hand: Hand, submit: Submit) -> Callable[..., str]:
    """Store a result with what is given, and return the page of its run."""

    def page(**told: Any) -> str:
        submit("r1")
        lease = hand.must_claim()
        assert hand.start(lease).is_success
        stored = hand.post(lease, result_of(lease, **told))
        assert stored.status_code == 201, stored.text
        (run,) = client.get("/api/v1/results").json()["items"]
        return client.get(f"/runs/{run['id']}").text.replace("\u00a0", " ")

    return page
