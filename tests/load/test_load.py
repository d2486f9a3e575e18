"""The load that `python -m load` makes is answered and stored, in small."""

import pytest
from load import claims, latency, traffic
from load.traffic import Plan, Shape


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_everything_that_is_sent_is_answered_and_stored(database: str) -> None:
    plan = Plan(results_per_s=5.0, seconds=1.0, shape=Shape.METRICS, workers=20)
    row = traffic.measure(database, plan)
    assert sum(row["answers"].values()) == plan.results + 6  # heartbeats in three seconds
    assert {answer.split()[1] for answer in row["answers"]} == {"200", "201"}
    assert row["stored"] == {"counted": plan.results, "points": 200 * plan.results}
    assert 0 < row["result"]["p50_s"] <= row["result"]["max_s"]


def test_claims_are_timed() -> None:
    row = claims.measure("sqlite", 100, 5)
    assert (row["claims"], row["p50_s"] > 0) == (5, True)


def test_single_requests_are_timed_beside_those_of_a_bare_server() -> None:
    row = latency.measure("sqlite", 5)
    assert all(row[name]["p50_s"] > 0 for name in ("bare", "health", "page", "heartbeat"))
