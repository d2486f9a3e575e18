"""A worker offers several devices together: who gets a gang's job, and who is its neighbour."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from benchmarks.contracts import Case, Duet, JobSpec, meets
from tests.worker.miniature import eventually
from tests.worker.test_with_the_real_service import (  # noqa: F401 - fixtures
    real,
    state_of,
    submit,
    worker,
)
from worker.child.containment import Containment
from worker.device import gpu_lock
from worker.settings import Settings
from worker.startup import introduce
from worker.state_dir import Occupied

ROOT = Path(__file__).parents[2]
GANG = {"gpus": "2", "parallel": "ddp"}
SMALL = "trials.chaos.two_layers"
"""A model whose ranks take no longer than they have to."""
REAL = {"child_command": (), "gpus": "0,1", "silence_s": 60.0, "data_root": None, "models": SMALL}
BRIEF = {
    "warmup_min_steps": 4,
    "warmup_min_s": 0.05,
    "warmup_max_steps": 6,
    "window_min_s": 0.1,
    "window_min_steps": 4,
    "window_min_blocks": 2,
    "window_max_blocks": 2,
    "window_max_s": 20.0,
    "block_min_steps": 1,
    "block_min_s": 0.01,
    "settle_max_s": 0.0,
}
ENDLESS = BRIEF | {"window_min_s": 500.0, "window_max_s": 600.0, "window_max_blocks": 60}


def gang(**more: object) -> dict[str, object]:
    return {"case": {"workload": f"{SMALL}:build", "preset": "tiny", "axes": GANG}, **more}


def test_a_gangs_job_goes_only_to_a_worker_that_offers_as_many_gpus(real, worker, submit, acting):  # noqa: F811
    of_two, single = submit(**gang()), submit()
    of_four = submit(**gang() | {"case": {"workload": "unet", "axes": {**GANG, "gpus": "4"}}})
    with worker(child_command=acting("ok")):
        eventually(lambda: state_of(real, single) == "succeeded")
    assert state_of(real, of_two) == "queued"
    another = submit()
    with worker(child_command=acting("ok"), gpus="0,1", worker_name="w2", models=SMALL):
        eventually(lambda: state_of(real, of_two) == "succeeded")
        eventually(lambda: state_of(real, another) == "succeeded")
    assert state_of(real, of_four) == "queued"
    (labels,) = (w["labels"] for w in real.get("/workers").json()["items"] if w["name"] == "w2")
    assert labels["gpus"] == "2"


def phase_of(real, job: str) -> str:  # noqa: F811
    attempts = real.get(f"/jobs/{job}").json()["attempts"]
    return (attempts[-1]["progress"] or {}).get("phase", "") if attempts else ""


def ranks() -> list[psutil.Process]:
    below = psutil.Process().children(recursive=True)
    return [one for one in below if "RANK" in _environment(one) and "benchmarks" in one.cmdline()]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except psutil.Error:
        return {}


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each rank: there are as many as cores."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_gang_is_measured_for_a_service_contained_as_others_are(real, worker, submit):  # noqa: F811
    job = submit(**gang(protocol=BRIEF))
    with worker(**REAL):
        eventually(lambda: state_of(real, job) in ("succeeded", "failed"), 150)
    (result,) = real.get("/results").json()["items"]
    assert result["status"] == "ok", result["reason"]
    whole = real.get(f"/results/{result['id']}").json()
    assert len(whole["result"]["replicates"][0]["full"]["ranks"]) == 2
    assert not ranks()


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_pair_of_gangs_is_measured_in_turn_for_a_service(real, worker, tmp_path):  # noqa: F811
    (tmp_path / "code").mkdir()
    for revision in ("old", "new"):
        (tmp_path / "code" / revision).symlink_to(ROOT)
    asked = {"baseline": "old", "contender": "new", "protocol": BRIEF, "probe": 0, **gang()}
    with worker(**REAL, worker_target=f"{tmp_path}/code/{{revision}}"):
        eventually(lambda: real.get("/workers").json()["items"])
        answer = real.post("/comparisons", json=asked)
        assert answer.status_code == 201, answer.text
        eventually(lambda: real.get("/results").json()["items"], 150)
    (listed,) = real.get("/results").json()["items"]
    result = real.get(f"/results/{listed['id']}").json()["result"]
    assert (result["status"], result["flags"]) == ("ok", []), result["reason"]
    assert len(result["turns"]) == len(result["baseline"]["turns"]) == Duet(baseline="old").turns
    assert not ranks()


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("whom", ["a rank", pytest.param("the lead", marks=pytest.mark.slow)])
def test_a_gang_that_is_struck_leaves_no_rank_and_no_half_result(real, worker, submit, whom):  # noqa: F811
    job = submit(**gang(protocol=ENDLESS))
    with worker(**REAL):
        eventually(lambda: phase_of(real, job) == "full", 150)
        second = next(one for one in ranks() if _environment(one)["RANK"] == "1")
        os.kill(second.pid if whom == "a rank" else second.ppid(), signal.SIGKILL)
        eventually(lambda: state_of(real, job) == "failed", 30)
    (result,) = real.get("/results").json()["items"]
    assert result["status"] == "crashed"
    assert "killed by SIGKILL" in result["reason"]
    assert result["reason"].startswith("Rank 1 of 2") == (whom == "a rank")
    assert not ranks()


def test_more_gpus_than_a_job_needs_will_do() -> None:
    needs = JobSpec(case=Case(workload="unet", axes=GANG), revision="abc").needs
    assert needs == {"gpus": "2"}
    assert [meets({"gpus": n}, needs) for n in ("1", "2", "8")] == [False, True, True]
    assert not meets({}, needs)
    assert meets({"gpus": "8"}, {}), "a job of one GPU"
    assert not meets({"gpus": "8"}, {"gpus": "2", "host": "a"})


def test_a_worker_names_its_devices_and_itself() -> None:
    settings = Settings(gpus="2,3").on_machine(has_gpu=True)
    assert (settings.device, settings.devices) == ("cuda:2", ("cuda:2", "cuda:3"))
    assert settings.name.endswith("-cuda2-x2")
    on_cpu = Settings(device="cpu", gpus="0,1").on_machine(has_gpu=False)
    assert on_cpu.devices == ("cpu", "cpu")
    me = introduce(on_cpu, None, Containment.PROCESS_GROUP, "folder")
    assert me.labels["gpus"] == "2"
    with pytest.raises(ValidationError, match="names one of them twice"):
        Settings(gpus="0,0")


def hold(uuids: list[str], name: str) -> None:
    with gpu_lock.held(uuids, name):
        pass


def test_a_gangs_gpus_are_its_own_and_the_holder_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pair, single = ["GPU-a", "GPU-b"], ["GPU-b"]
    with gpu_lock.held(pair, "pair"), pytest.raises(Occupied) as refused:
        hold(single, "single")
    assert re.match(r"The worker pair \(process \d+\) .* the GPU GPU-b", str(refused.value))
    neighbours = gpu_lock.held(single, "single"), gpu_lock.held(single, "another")
    with neighbours[0], neighbours[1], pytest.raises(Occupied, match="The worker another"):
        hold(pair, "pair")
    hold(pair, "pair")
