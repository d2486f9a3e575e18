"""A tier says in how many processes and how long; a quick look makes no history."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from benchmarks.catalog.precision_tiers import Tier, timed
from benchmarks.catalog.suites import suite
from benchmarks.contracts import JobSpec, Protocol, Purpose
from service.jobs.expand import expand
from service.jobs.requests import SubmissionRequest

CASE = {"case": {"workload": "unet"}, "revision": "r1"}


def spec(**asked: Any) -> JobSpec:
    (found,) = expand(SubmissionRequest.model_validate({**CASE, **asked}))
    return found


@pytest.mark.parametrize(("tier", "processes"), [("quick", 1), ("standard", 3), ("gate", 5)])
def test_a_tier_has_its_number_of_processes(tier: str, processes: int) -> None:
    assert spec(tier=tier).protocol.replicates == processes
    assert spec(tier=tier, replicates=2).protocol.replicates == 2


def test_a_quick_look_is_no_point_in_a_series_unless_that_is_asked() -> None:
    assert spec(tier="quick").purpose is Purpose.COMPARISON
    assert spec(tier="quick", purpose="history").purpose is Purpose.HISTORY
    assert spec(tier="standard").purpose is Purpose.HISTORY
    assert spec().purpose is Purpose.HISTORY


def test_a_tier_leaves_the_passes_beside_timing_as_the_suite_has_them() -> None:
    ladder = suite("ladder").protocol
    told = timed(Tier.GATE, ladder)
    assert (told.parity, told.efficiency, told.replicates) == (True, True, 5)
    assert told.window_min_s > ladder.window_min_s
    standard = {"window_min_blocks": 6, "window_min_steps": 12, "block_min_steps": 2}
    standard |= {"replicates": 3, "window_max_s": 8.0, "settle_max_s": 8.0}
    assert timed(Tier.STANDARD) == Protocol(**standard)


@pytest.mark.parametrize("tier", [None, "standard"])
def test_a_kernel_of_its_own_is_held_against_eager_before_it_makes_history(tier: str) -> None:
    eager = {"workload": "mypkg.bench:build", "axes": {"precision": "bf16"}}
    own = {"workload": "mypkg.bench:build", "axes": {"kernel": "triton"}}
    told = [spec(case=case, tier=tier).protocol.parity for case in (eager, own)]
    assert told == [False, True]
    assert not spec(case=own, protocol={"replicates": 2}).protocol.parity


def test_a_tier_beside_a_protocol_is_refused(client: TestClient) -> None:
    answer = client.post(
        "/api/v1/submissions", json={**CASE, "tier": "quick", "protocol": {"replicates": 2}}
    )
    assert answer.status_code == 422
    assert "a tier is a protocol: give one of the two" in answer.text


def test_an_unknown_tier_is_refused_with_the_choices(client: TestClient) -> None:
    answer = client.post("/api/v1/submissions", json={**CASE, "tier": "best"})
    assert answer.status_code == 422
    assert "standard" in answer.text
