"""``python -m trials.slurm``: jobs measured by workers inside a real Slurm's allocations.

One controller and two node daemons with made-up GPUs run as processes on loopback, as root, from
Debian's slurm-wlm and munge. The service and the workers are real, their child is a script. Some
allocations are requeued or told that their time is up. Each job must have exactly one result.
Prints one row as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
from builders.commands import free_port

from benchmarks.contracts import FINAL_STATES
from service.database.migrate import upgrade
from service.database.session import Database
from service.maintenance.verify import verify
from trials.chaos.crew import CHILD
from trials.chaos.replica import Replica, environment

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "integrations" / "slurm" / "worker.sbatch"
CASE = {"workload": "nanogpt", "preset": "tiny", "axes": {"gpus": "2", "parallel": "ddp"}}
LIMIT_S = 600.0
CONFIGURATION = """
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
GresTypes=gpu
KillWait=5
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=1 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=1 Gres=gpu:2
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Cluster:
    """A Slurm of two nodes that lives in a folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        """Start it; ``stack`` ends it."""
        for name in ("munge", "state", "spool-n1", "spool-n2"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        folder.chmod(0o755)
        ports = {name: free_port() for name in ("port", "first", "second")}
        text = CONFIGURATION.format(host=platform.node(), folder=folder, **ports)
        (folder / "slurm.conf").write_text(text)
        (folder / "gpu0").touch()
        (folder / "gpu1").touch()
        gres = f"NodeName=n[1-2] Name=gpu File={folder}/gpu[0-1]\n"
        (folder / "gres.conf").write_text(gres)
        self.environment = environment(SLURM_CONF=str(folder / "slurm.conf"))
        munge = ("munged", "--foreground", "--force", f"--key-file={key}")
        places = {"socket": "munge/munge.socket", "pid-file": "m.pid", "log-file": "m.log"}
        places["seed-file"] = "m.seed"
        self._start(stack, *munge, *(f"--{name}={folder}/{at}" for name, at in places.items()))
        until((folder / "munge" / "munge.socket").exists)
        self._start(stack, "slurmctld", "-D", "-c")
        for node in ("n1", "n2"):
            self._start(stack, "slurmd", "-D", "-N", node)
        until(lambda: self.told("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2")

    def _start(self, stack: ExitStack, *words: str) -> None:
        process = subprocess.Popen(
            [f"/usr/sbin/{words[0]}", *words[1:]],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.send_signal, signal.SIGTERM)

    def told(self, *words: str, **more: str) -> str:
        """What a command of Slurm prints; empty if it fails."""
        done = subprocess.run(
            words, env=self.environment | more, capture_output=True, text=True, check=False
        )
        return done.stdout if done.returncode == 0 else ""

    def submit(self, folder: Path, url: str) -> str:
        """Submit a worker as the template has it; returns Slurm's number of it."""
        child = [sys.executable, "-S", str(CHILD), "--part", "slow"]
        return self.told(
            *("sbatch", "--parsable", "--gpus-per-node=2", f"--output={folder}/%j.out"),
            str(SCRIPT),
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            THROUGHLINE_URL=url,
            THROUGHLINE_DEVICE="cpu",
            THROUGHLINE_STATE_DIR=str(folder / "workers"),
            THROUGHLINE_CONTAINMENT="process_group",
            THROUGHLINE_CHILD_COMMAND=json.dumps(child),
            THROUGHLINE_DATA_ROOT=str(folder / "notes"),
            THROUGHLINE_CANARY_EVERY_S="0",
            THROUGHLINE_COOL_LIMIT_S="0",
            THROUGHLINE_FINISH_S="1",
        ).strip()


def until(true: Callable[[], bool]) -> None:
    """Wait until it is so."""
    until_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < until_s, "it did not come to be"
        time.sleep(0.2)


class Trial:
    """Jobs, and an allocation for each."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        """Start service and cluster; ``stack`` ends them."""
        self.told = Counter[str]()
        self.jobs: list[str] = []
        self._folder, self._url = folder, f"sqlite:///{folder}/throughline.sqlite3"
        upgrade(self._url)
        self._service = Replica(self._url, folder, LEASE_S="10", HEARTBEAT_S="0.5", SWEEP_S="0.2")
        stack.callback(self._service.kill)
        self._service.start()
        self._service.wait()
        self._address = f"http://127.0.0.1:{self._service.port}"
        base = f"{self._address}/api/v1"
        self._client = stack.enter_context(httpx2.Client(base_url=base, timeout=30))
        for name in ("slurm", "notes"):
            (folder / name).mkdir()
        self._cluster = Cluster(folder / "slurm", stack)

    def submit(self, number: int) -> None:
        """Submit a job and an allocation; every fifth of these is disturbed while a job runs."""
        body = {"case": CASE, "revision": "abc", "protocol": {"settle_max_s": 0.0}}
        answer = self._client.post("/jobs", json=body).raise_for_status()
        self.jobs.append(answer.json()["id"])
        allocation = self._cluster.submit(self._folder, self._address)
        if number % 5 != 4:
            return
        until(lambda: any(self._state(job) == "running" for job in self.jobs))
        running = self._cluster.told("squeue", "-h", "-t", "running", "-o", "%i").split()
        chosen = running[0] if running else allocation
        if number % 2:
            self._cluster.told("scontrol", "requeue", chosen)
            self.told["requeued"] += 1
        else:
            self._cluster.told("scancel", "--batch", "--signal=TERM", chosen)
            self.told["told that time is up"] += 1

    def finish(self) -> None:
        """Wait for all jobs; where no allocation is left, as after a requeue, submit another."""
        until_s = time.monotonic() + LIMIT_S
        while missing := [job for job in self.jobs if self._state(job) not in FINAL_STATES]:
            if not self._cluster.told("squeue", "-h", "-t", "running,pending"):
                self.told["more allocations"] += 1
                self._cluster.submit(self._folder, self._address)
            assert time.monotonic() < until_s, f"{len(missing)} jobs did not end"
            time.sleep(1.0)

    def checked(self) -> list[str]:
        """What must not be: a job without one good result, a broken promise."""
        results = self._client.get("/results", params={"limit": 500}).json()["items"]
        good = Counter(one["job_id"] for one in results if one["counted"] and one["status"] == "ok")
        self.told["results"] = len(results)
        workers = self._client.get("/workers").json()["items"]
        self.told |= Counter({one["name"]: 1 for one in workers})
        self._service.kill()
        database = Database(self._url)
        broken = [one for one in verify(database).findings if one.breaches]
        database.close()
        wrong = [f"{job}: {good[job]} results" for job in self.jobs if good[job] != 1]
        return wrong + [f"promise {one.number}: {one.sentence}" for one in broken]

    def _state(self, job: str) -> str:
        return str(self._client.get(f"/jobs/{job}").raise_for_status().json()["state"])


def run(count: int) -> dict[str, Any]:
    """Have ``count`` jobs measured by as many allocations."""
    began_s = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tl-slurm-")))
        folder.chmod(0o755)
        trial = Trial(folder, stack)
        for number in range(count):
            trial.submit(number)
        trial.finish()
        violations = trial.checked()
    wall_s = round(time.monotonic() - began_s, 1)
    return {"jobs": count, **trial.told, "wall_s": wall_s, "violations": violations}


if __name__ == "__main__":
    options = argparse.ArgumentParser(prog="python -m trials.slurm", description=__doc__)
    options.add_argument("--jobs", type=int, default=20)
    row = run(options.parse_args().jobs)
    sys.stdout.write(json.dumps(row) + "\n")
    sys.exit(1 if row["violations"] else 0)
