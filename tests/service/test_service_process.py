"""The service as a process: it starts, says what is wrong in one sentence, and stops in order."""

import signal
import socket
import time
from pathlib import Path

import httpx2
import pytest
from builders.service_program import outcome, run, serving

from benchmarks.contracts import Case

pytestmark = pytest.mark.both_databases


def test_it_serves_and_stops_in_order_when_asked(database_url: str) -> None:
    with serving(database_url) as (address, process):
        assert httpx2.get(f"{address}/api/v1/health").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_an_answer_in_the_making_survives_the_stop(sqlite_url: str) -> None:
    with serving(sqlite_url) as (address, process), httpx2.Client(base_url=address) as client:
        client.put("/api/v1/workers/w", json={"name": "w"})
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_leases_expire_by_themselves_and_a_restart_forgives(database_url: str) -> None:
    body = {"case": Case(workload="unet").model_dump(), "revision": "r"}
    quick = {"LEASE_S": "1", "HEARTBEAT_S": "0.2", "SWEEP_S": "0.1"}
    with serving(database_url, **quick) as (address, process):
        with httpx2.Client(base_url=f"{address}/api/v1") as client:
            client.put("/workers/w", json={"name": "w"})
            job = client.post("/jobs", json=body).json()["id"]
            claim = {"worker": "w", "claim_id": "a" * 32}
            assert client.post("/leases", json=claim).status_code == 200
            wait_for(client, job, "queued")
            lease = client.post("/leases", json={"worker": "w", "claim_id": "b" * 32}).json()
        process.kill()
        process.wait()
    time.sleep(1.2)  # the lease runs out while nobody is there to hear its worker
    with serving(database_url, **quick) as (address, _):
        path = f"{address}/api/v1/jobs/{job}/attempts/{lease['attempt']}/heartbeat"
        beat = httpx2.post(path, json={}, headers={"Lease-Secret": lease["secret"]})
        assert beat.status_code == 200


def wait_for(client: httpx2.Client, job: str, state: str) -> None:
    deadline = time.monotonic() + 20
    while client.get(f"/jobs/{job}").json()["state"] != state:
        assert time.monotonic() < deadline, f"the job did not become {state}"
        time.sleep(0.05)


def test_a_port_in_use_is_said_in_one_sentence(sqlite_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = outcome(run("--port", port, DATABASE_URL=sqlite_url))
    assert code == 4
    (sentence,) = [line for line in said.splitlines() if port in line]
    assert "choose another port with --port" in sentence


def test_an_address_that_others_reach_is_refused_until_an_administrator_has_a_token(
    sqlite_url: str, tmp_path: Path
) -> None:
    everywhere = {"HOST": "0.0.0.0", "STATE_DIR": str(tmp_path), "ACCESS": "auto"}
    code, said = outcome(run("--port", "0", DATABASE_URL=sqlite_url, **everywhere))
    assert code == 2
    assert "throughline token create --kind admin" in said
    with serving(sqlite_url, **everywhere, PUBLISHED_AT="127.0.0.1") as (address, _):
        jobs = f"http://127.0.0.1:{address.rpartition(':')[2]}/api/v1/jobs"
        assert httpx2.get(jobs).status_code == 200
        assert httpx2.post(jobs, json={}).status_code == 401


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"DATABASE_URL": "sqlite:////none/such.sqlite3"}, 3, "throughline migrate"),
        ({"DATABASE_URL": "mysql://x"}, 3, "THROUGHLINE_DATABASE_URL"),
        ({"PORT": "many"}, 2, "THROUGHLINE_PORT"),
        ({"LEASE_S": "-1"}, 2, "THROUGHLINE_LEASE_S"),
        ({"ACCESS_KEY": "short"}, 2, "64 hexadecimal digits"),
        ({"PINNED": "4f1c"}, 2, "THROUGHLINE_PINNED is wrong: must be at most 100 ids"),
    ],
)
def test_a_wrong_setting_is_said_in_one_sentence(
    settings: dict[str, str], code: int, words: str
) -> None:
    found, said = outcome(run(**settings))
    assert found == code
    assert words in said
    assert "Traceback" not in said
