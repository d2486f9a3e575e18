"""Real processes: what `throughline up` and `bench` start does not outlive them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from builders.long_forms import long_but

from cli.local.processes import Child, stop, wait_for

STUBBORN = (
    "import signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('up', flush=True)\n"
    "time.sleep(99)\n"
)
ASKED_TWICE = (
    "import signal, time\n"
    "asked = []\n"
    "signal.signal(signal.SIGTERM, lambda *_: asked.append(1))\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
    "print('up', flush=True)\n"
    "time.sleep(0.3)\n"
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])\n"
    "while len(asked) < 2: time.sleep(0.01)\n"
    "raise SystemExit(7)\n"
)
"""As a worker does, it gives its case back when it is asked twice."""
WITH_GRANDCHILD = (
    "import subprocess, sys, time\n"
    "grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'],"
    " start_new_session=True)\n"
    "print(grandchild.pid, flush=True)\n"
    "time.sleep(99)\n"
)


def eventually(is_so: Callable[[], bool], limit_s: float = 15.0) -> None:
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def start(code: str, folder: Path) -> Child:
    return Child("child", [sys.executable, "-c", code], folder / "child.log", os.environ)


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    child = start(STUBBORN, tmp_path)
    eventually(lambda: child.last_lines() == ["up"])
    stop([child], 0.2)
    assert child.returncode == -9


def test_two_requests_that_came_as_one_are_made_good(tmp_path: Path) -> None:
    child = start(ASKED_TWICE, tmp_path)
    eventually(lambda: child.last_lines() == ["up"])
    child.ask_to_stop()
    stop([child], 10.0)
    assert child.returncode == 7


def test_a_grandchild_in_its_own_session_is_killed_too(tmp_path: Path) -> None:
    child = start(WITH_GRANDCHILD, tmp_path)
    eventually(lambda: bool(child.last_lines()))
    grandchild = int(child.last_lines()[0])
    stop([child], 5.0)
    eventually(lambda: not is_alive(grandchild))


def test_the_last_lines_are_those_of_this_start(tmp_path: Path) -> None:
    for word in ("first", "second"):
        child = start(f"print({word!r})", tmp_path)
        assert wait_for([child], 15.0)
    assert child.last_lines() == ["second"]


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path; from cli.local.processes import Child\n"
        f"child = Child('c', ['sleep', '99'], Path({str(tmp_path)!r}) / 'c.log', os.environ)\n"
        "print(child.pid, flush=True); time.sleep(99)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    eventually(lambda: not is_alive(pid))


@pytest.mark.parametrize("patience_s", [0.0, 5.0])
def test_stopping_what_has_ended_already_is_no_error(tmp_path: Path, patience_s: float) -> None:
    child = start("pass", tmp_path)
    assert wait_for([child], 15.0)
    stop([child], patience_s)
    assert child.returncode == 0


def sleeping(seconds: str) -> list[int]:
    """The processes that sleep so long: ids that a child tells mean nothing outside of it."""
    found = psutil.process_iter(["cmdline"])
    return [one.pid for one in found if (one.info["cmdline"] or [])[:2] == ["sleep", seconds]]


@pytest.mark.parametrize(
    ("command", "numbers"),
    long_but(
        [("bench", "INT"), ("bench", "TERM"), ("bench", "HUP HUP"), ("diagnose", "HUP")], 0, 3
    ),
)
def test_an_interrupt_ends_a_measurement_with_all_that_its_child_started(
    tmp_path: Path, environment: dict[str, str], command: str, numbers: str
) -> None:
    temp, began, seconds = tmp_path / "t", tmp_path / "began", f"99.{os.getpid()}"
    temp.mkdir()
    script = f"setsid sleep {seconds} >/dev/null 2>&1 & touch {began}; exec sleep {seconds}"
    child = json.dumps(["sh", "-c", script, "child"])
    measuring = subprocess.Popen(
        [sys.executable, "-m", "cli", command, "resnet50"],
        cwd=tmp_path,
        env=environment | {"THROUGHLINE_CHILD_COMMAND": child, "TMPDIR": str(temp)},
        stderr=subprocess.DEVNULL,
    )
    eventually(lambda: began.exists() and len(sleeping(seconds)) == 2)
    began_s = time.monotonic()
    for name in numbers.split():
        measuring.send_signal(signal.Signals[f"SIG{name}"])
    assert measuring.wait(15.0) == 130
    assert time.monotonic() - began_s < 3.0
    assert sleeping(seconds) == []
    assert list(temp.iterdir()) == []


def test_under_nohup_the_end_of_the_terminal_is_no_interrupt() -> None:
    code = (
        "import os, signal; from cli import interrupts\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN); interrupts.as_ctrl_c()\n"
        "os.kill(os.getpid(), signal.SIGHUP); print('goes on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"goes on\n"


def test_bench_waits_for_its_child_and_for_nobody_who_holds_its_output(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """A process that a model has started inherits standard output; much may be printed before."""
    benchmark, seconds = Path(__file__).with_name("scripted_benchmark.py"), f"99.{os.getpid()}"
    script = (
        f"setsid sleep {seconds} & head -c 9000000 /dev/zero | tr '\\0' x; echo; "
        f"{sys.executable} {benchmark}"
    )
    done = subprocess.run(
        [sys.executable, "-m", "cli", "bench", "resnet50", "--json"],
        cwd=tmp_path,
        env=environment | {"THROUGHLINE_CHILD_COMMAND": json.dumps(["sh", "-c", script, "child"])},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert json.loads(done.stdout)["status"] == "ok"
    assert sleeping(seconds) == []
