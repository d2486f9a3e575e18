"""The load that `python -m trials.load` makes is answered and stored, in small."""

import zlib

import pytest

from benchmarks.contracts import Result, excess
from trials.chaos.__main__ import RESULTS
from trials.load import bodies, claims, latency, table, traffic
from trials.load.__main__ import DOCUMENT, commit
from trials.load.traffic import Plan, Shape


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about the memory that a service gives back."""
    monkeypatch.setattr(traffic, "REST_S", 0.0)


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_everything_that_is_sent_is_answered_and_stored(database: str) -> None:
    plan = Plan(results_per_s=5.0, seconds=1.0, shape=Shape.METRICS, workers=20, claims_per_s=4.0)
    row = traffic.measure(database, plan)
    # Heartbeats in three seconds: six.
    assert sum(row["answers"].values()) == plan.results + plan.claims + 6
    assert {answer.split()[1] for answer in row["answers"]} == {"200", "201"}
    assert row["stored"] == {"counted": plan.results, "points": 200 * plan.results}
    for kind in ("result", "heartbeat", "claim"):
        assert 0 < row[kind]["p50_s"] <= row[kind]["max_s"]
    assert len(row["result_p99_s_by_10_s"]) == 1
    assert 0 <= row["stolen"] <= 1


@pytest.mark.slow
def test_real_bodies_of_every_size_are_stored_each_under_its_own_case() -> None:
    plan = Plan(results_per_s=20.0, seconds=1.0, shape=Shape.REAL, workers=7, claims_per_s=1.0)
    row = traffic.measure("sqlite", plan)
    assert row["answers"]["result 201"] == 20
    assert row["stored"]["counted"] == plan.results
    assert row["bodies"] >= plan.results
    assert row["body_b"] > 15_000


def test_bodies_are_as_large_as_those_that_were_recorded_and_none_is_like_another() -> None:
    mix = bodies.mix()
    made = list(bodies.bodies(mix, 2 * len(mix)))
    assert len(set(made)) == len(made)
    for one, body in zip(mix, made, strict=False):
        assert len(body) == pytest.approx(one.size_b, rel=0.02)
        result = Result.model_validate_json(body)
        assert result.case == one.case
        assert excess(result, body, 1) == ""
    sizes = [len(body) for body in made]
    assert min(sizes) < 9_000
    assert any(18_000 < size < 22_000 for size in sizes)
    assert max(sizes) > 50_000
    # zlib, as the service stores them: what varies does not pack, and the rest packs as recorded.
    packed = [len(zlib.compress(body)) / len(body) for body in (made[0], mix[0].recorded)]
    assert packed[0] == pytest.approx(packed[1], rel=0.05)


def test_claims_are_timed() -> None:
    row = claims.measure("sqlite", 100, 5)
    assert (row["claims"], row["p50_s"] > 0) == (5, True)


def test_single_requests_are_timed_beside_those_of_a_bare_server() -> None:
    row = latency.measure("sqlite", 5)
    assert all(row[name]["p50_s"] > 0 for name in ("bare", "health", "page", "heartbeat"))


def test_the_document_shows_every_run_as_its_row_says() -> None:
    document = DOCUMENT.read_text()
    assert table.replaced(document, table.whole(RESULTS)) == document, (
        "run: python -m trials.load table --write"
    )
    rows = sum(map(len, map(table.rows_of, sorted(RESULTS.glob("traffic*.jsonl")))))
    shown = table.of_traffic(
        row for path in RESULTS.glob("traffic*.jsonl") for row in table.rows_of(path)
    )
    assert sum(int(line.split("|")[4]) for line in shown.splitlines()[2:]) == rows > 40


def test_a_bad_run_stands_beside_the_good_one_and_says_what_was_not_answered() -> None:
    bad = {"p50_s": 0.02, "p99_s": 2.5}
    row = {
        "at": "2026-11-23T10:00:00+00:00",
        "commit": "abc1234",
        "machine": {"cpus": 2},
        "database": "sqlite",
        "shape": "real",
        "body_b": 20_480,
        "replicas": 1,
        "workers": 20,
        "results_per_s": 200.0,
        "claims_per_s": 10.0,
        "seconds": 60.0,
        "wall_s": 62.0,
        "answers": {"result 201": 12_000},
        "result": {"p50_s": 0.005, "p99_s": 0.08},
        "result_p99_s_by_10_s": [0.05, 0.3],
        "heartbeat": bad,
        "claim": bad,
    }
    worse = row | {"result": bad, "answers": {"result 201": 11_990, "result 503": 10}}
    (line,) = table.of_traffic([row, worse]).splitlines()[2:]
    assert line == (
        "| 2026-11-23, abc1234 | 2 | sqlite: 200 results/s (real results, 20 KiB on average), "
        "heartbeats of 20 workers, 10 claims/s, 60 s | 2 | 5 ms, 20 ms | 80 ms, 2.5 s "
        "| 300 ms, 300 ms | 2.5 s, 2.5 s | 2.5 s, 2.5 s | all, as sent; 10 not |"
    )


def test_a_document_without_the_marks_is_not_written_over() -> None:
    with pytest.raises(ValueError, match="put them back"):
        table.replaced("no marks", "a table")


def test_the_code_that_is_measured_has_a_name() -> None:
    assert commit()
