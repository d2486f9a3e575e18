"""Real parts for the worker's tests: a scripted child, a service over HTTP, processes to watch."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.contracts import JobSpec, Progress
from tests.worker.miniature import Miniature, serving
from worker.child.containment import Containment, choose, obstacle_to_namespaces
from worker.heartbeat import Cause
from worker.settings import ContainmentSetting, Settings
from worker.startup import run
from worker.stop import Stop

CHILD = Path(__file__).parent / "scripted_child.py"


class Onlooker:
    """A watch with nothing to object, unless told so."""

    def __init__(self) -> None:
        self.why: Cause | None = None
        self.told: list[Progress] = []
        self.heard = b""
        self.trace = b""

    def cause(self) -> Cause | None:
        return self.why

    def left_s(self) -> float:
        return 1.0

    def tell(self, progress: Progress) -> None:
        self.told.append(progress)

    def hear(self, text: bytes) -> None:
        self.heard += text

    def keep(self, trace: bytes) -> None:
        self.trace = trace


@pytest.fixture
def onlooker() -> Onlooker:
    return Onlooker()


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Where children write down their process ids."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith("THROUGHLINE_")]:
        monkeypatch.delenv(name)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return Settings(
        state_dir=tmp_path / "state",
        worker_name="w1",
        device="cpu",
        child_command=(sys.executable, "-S", str(CHILD)),
        data_root=notes,
        cache_dir=tmp_path / "cache",
        claim_wait_s=0.05,
        request_timeout_s=2.0,
        backoff_first_s=0.05,
        backoff_limit_s=0.1,
        silence_s=20.0,
        tick_s=0.02,
        kill_grace_s=0.3,
        drain_delivery_s=0.2,
        cool_limit_s=0.0,
        canary_every_s=0.0,
        output_limit_b=20 * 2**20,
    )


@pytest.fixture(scope="session")
def without_namespaces() -> str:
    """Why this machine gives a child no PID namespace; "" if it does."""
    return obstacle_to_namespaces()


@pytest.fixture(autouse=True)
def _only_what_this_machine_can_do(request: pytest.FixtureRequest) -> None:
    """Skip, with the reason, a test that asks for a containment that cannot be had here."""
    asked = getattr(request.node, "callspec", None)
    if asked is None or asked.params.get("containment") is not Containment.PID_NAMESPACE:
        return
    if why := request.getfixturevalue("without_namespaces"):
        pytest.skip(f"no PID namespace can be had here: {why}")


@pytest.fixture(scope="session")
def strongest() -> Containment:
    """The strongest containment that this machine has."""
    return choose(ContainmentSetting.AUTO, "cpu")[0]


@pytest.fixture
def contained(strongest: Containment) -> Containment:
    return strongest


@pytest.fixture
def service() -> Iterator[Miniature]:
    with serving(Miniature()) as running:
        yield running


@pytest.fixture
def job() -> Callable[..., JobSpec]:
    def make(workload: str, replicates: int = 1, **more: object) -> JobSpec:
        axes = more.pop("axes", {})
        return JobSpec.model_validate(
            {
                "case": {"workload": workload, "axes": axes},
                "revision": "abc",
                "protocol": {"replicates": replicates},
                **more,
            }
        )

    return make


Noted = tuple[int, int, int]
"""A process id, the PID namespace in which it means something, and the start in ticks since boot.

The kernel gives a namespace's number away again as soon as the namespace is gone, and tests that
run beside this one make namespaces too: without its start another process would be taken for it.
"""


def running() -> set[Noted]:
    """Every process of this machine, under each of the ids that it has."""
    found = set()
    for process in psutil.process_iter(["status"]):
        if process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        with suppress(OSError):
            folder = Path(f"/proc/{process.pid}")
            told = (folder / "status").read_text()
            own = next(line for line in told.splitlines() if line.startswith("NSpid:"))
            stat = (folder / "stat").read_text()
            started = int(stat[stat.rindex(")") + 2 :].split()[19])
            found.add((int(own.split()[-1]), (folder / "ns/pid").stat().st_ino, started))
    return found


@pytest.fixture
def pids(notes: Path) -> Callable[[], list[Noted]]:
    """The processes that children noted."""

    def read(path: Path) -> Noted:
        pid, namespace, started = map(int, path.name.split("-")[1:])
        return pid, namespace, started

    return lambda: [read(path) for path in notes.glob("pid-*")]


@pytest.fixture
def living(pids: Callable[[], list[Noted]]) -> Callable[[], list[Noted]]:
    """Which of the processes that children noted still run."""
    return lambda: sorted(running() & set(pids()))


@pytest.fixture
def acting() -> Callable[[str], tuple[str, ...]]:
    """A child that plays one part whatever workload it is asked for."""
    return lambda part: (sys.executable, "-S", str(CHILD), "--part", part)


@pytest.fixture
def worker(settings, service):
    """Run a worker in a thread while the block lasts; ends it and gives its exit code."""

    @contextmanager
    def running(**change):
        chosen = settings.model_copy(update={"url": service.url, **change})
        stop, codes = Stop(), []
        thread = threading.Thread(target=lambda: codes.append(run(chosen, stop)))
        thread.start()
        try:
            yield stop
        finally:
            stop.ask()
            thread.join(20)
            if thread.is_alive():
                stop.ask()
                thread.join(20)
        stop.codes = codes

    return running
