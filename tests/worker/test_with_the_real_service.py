"""Worker and service together, over a real socket and a real database."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from functools import partial

import httpx2
import pytest
import uvicorn
from builders import repository

from service.app import create_app
from service.database.migrate import upgrade
from service.settings import Settings as ServiceSettings
from tests.worker.miniature import eventually
from worker.startup import run
from worker.stop import Stop


@contextmanager
def serving(settings, listener: socket.socket):
    config = uvicorn.Config(create_app(settings), log_config=None, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        eventually(lambda: server.started)
        yield
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def real(tmp_path, settings):
    """A migrated SQLite database, the service over it, and a client."""
    chosen = ServiceSettings(
        state_dir=tmp_path / "db", lease_s=20.0, heartbeat_s=0.2, access="open"
    )
    upgrade(chosen.url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with (
            serving(chosen, listener),
            httpx2.Client(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=20) as client,
        ):
            yield client


@pytest.fixture
def worker(settings, real):
    @contextmanager
    def running(**change):
        url = str(real.base_url).removesuffix("/api/v1/")
        chosen = settings.model_copy(update={"url": url, **change})
        stop = Stop()
        thread = threading.Thread(target=run, args=(chosen, stop))
        thread.start()
        try:
            yield stop
        finally:
            stop.ask()
            thread.join(30)

    return running


@pytest.fixture
def submit(real):
    """Submit a real case whose child is the script: the catalog checks the name."""

    def post(**more) -> str:
        case = {"workload": "resnet50", "preset": "tiny"}
        answer = real.post("/jobs", json={"case": case, "revision": "abc", **more})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    return post


def state_of(real, job: str) -> str:
    return real.get(f"/jobs/{job}").json()["state"]


def test_a_job_is_stored_and_counted_once(real, worker, submit, acting):
    job = submit()
    with worker(child_command=acting("ok")):
        eventually(lambda: state_of(real, job) == "succeeded")
    (result,) = real.get("/results").json()["items"]
    assert result["job_id"] == job
    assert result["counted"]


def test_a_crash_is_stored_with_its_reason(real, worker, submit, acting):
    job = submit(protocol={"replicates": 2})
    with worker(child_command=acting("failsecond")):
        eventually(lambda: real.get("/jobs", params={"state": "failed"}).json()["items"])
    assert state_of(real, job) == "succeeded"
    (failed,) = real.get("/results", params={"status": "crashed"}).json()["items"]
    assert "SIGSEGV" in failed["reason"]


def test_a_running_job_can_be_cancelled(real, worker, submit, acting, living, pids):
    job = submit()
    with worker(child_command=acting("endless")):
        eventually(lambda: len(pids()) == 2)
        assert real.post(f"/jobs/{job}/cancel").status_code == 200
        eventually(lambda: state_of(real, job) == "cancelled")
        eventually(lambda: not living())


def test_an_aborted_job_is_queued_again(real, worker, submit, acting, pids):
    job = submit()
    with worker(child_command=acting("endless")) as stop:
        eventually(lambda: len(pids()) == 2)
        stop.ask()
    assert state_of(real, job) == "queued"


def test_a_job_for_another_device_is_left_alone(real, worker, submit, acting):
    other = submit(requires={"device": "cuda"})
    mine = submit(requires={"device": "cpu"})
    with worker(child_command=acting("ok")):
        eventually(lambda: state_of(real, mine) == "succeeded")
    assert state_of(real, other) == "queued"


def test_replicates_of_several_cases_are_measured_in_rounds(real, worker, acting):
    cases = [{"workload": name} for name in ("resnet50", "unet")]
    body = {"cases": cases, "revision": "r", "replicates": 2}
    made = real.post("/submissions", json=body).json()
    with worker(child_command=acting("ok")):
        address = f"/submissions/{made['id']}"
        eventually(lambda: real.get(address).json()["finished"])
    jobs = [real.get(f"/jobs/{job['id']}").json() for job in made["jobs"]]
    assert [job["state"] for job in jobs] == ["succeeded"] * 4
    ends = [job["finished_at"] for job in jobs]
    assert [sorted(ends).index(end) + 1 for end in ends] == [1, 4, 2, 3]
    for number, job in enumerate(jobs):
        result = real.get(f"/results/{job['result_id']}").json()["result"]
        assert [one["seed"] for one in result["replicates"]] == [number % 2]


def test_a_second_worker_of_one_name_ends_and_takes_no_job(
    worker, settings, real, tmp_path, caplog
):
    with worker():
        eventually(lambda: real.get("/workers").json()["items"])
        url = str(real.base_url).removesuffix("/api/v1/")
        elsewhere = settings.model_copy(update={"url": url, "state_dir": tmp_path / "elsewhere"})
        assert run(elsewhere, Stop()) == 1
        assert "Another worker named w1 works on" in caplog.text


def test_a_schedule_follows_a_ref_that_the_worker_fetches(real, worker, acting, tmp_path):
    origin = tmp_path / "origin"

    git = partial(repository.git, origin)
    origin.mkdir()
    git("init", "--quiet", "--initial-branch=main")
    (origin / "link").symlink_to("/etc/passwd")
    git("add", "--all")
    git("commit", "--quiet", "--message", "one")
    file = tmp_path / "targets.toml"
    file.write_text(f'[targets.ours]\ngit = "{origin}"\n')
    body = {"cron": "0 0 1 1 *", "suite": "smoke", "revision_rule": "ref:ours:main"}
    assert real.put("/schedules/s", json=body).status_code == 200
    assert real.post("/schedules/s/fire").status_code == 409
    with worker(child_command=(), targets=file):
        eventually(lambda: real.post("/schedules/s/fire").status_code == 201, 60)
        (fired,) = real.get("/submissions").json()["items"]
        assert fired["revision"] == git("rev-parse", "HEAD")
        eventually(lambda: real.get(f"/submissions/{fired['id']}").json()["finished"], 60)
    results = real.get("/results").json()["items"]
    assert {one["status"] for one in results} == {"unbuildable"}
    assert all("its link link leads out of it" in one["reason"] for one in results)
    assert real.get("/series").json()["items"] == []
