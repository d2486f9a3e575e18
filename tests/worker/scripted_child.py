"""Stands in for ``python -m benchmarks``: a real process whose workload's name says what it does.

It builds its Result by hand, without pydantic, so that it starts in milliseconds and so that the
worker reads what another program wrote.
"""

# ruff: noqa: T201 - printing is what a child does

import base64
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from array import array
from contextlib import suppress
from pathlib import Path

FOREVER_S = 600


def trace(values):
    raw = array("f", values).tobytes()
    return {"n": len(values), "data": base64.b64encode(zlib.compress(raw)).decode()}


def timed_pass(start_s, end_s, rate):
    zeros = dict.fromkeys(("stall_s", "copy_s", "work_s", "enqueue_s"), 0.0)
    steps = dict.fromkeys(("p50_s", "p90_s", "p99_s", "max_s"), 0.1)
    traces = {f"{name}_trace": trace([0.1] * 4) for name in ("step", "stall", "copy", "work")}
    return {
        "window": {"start_s": start_s, "end_s": end_s},
        "steps": 4,
        "block_steps": 2,
        "rate": rate,
        "half_width": None,
        "lag1": None,
        "n_eff": None,
        "stop": "precise",
        "wall_s": end_s - start_s,
        **zeros,
        **steps,
        **traces,
    }


def result(asked, status="ok", **more):
    seed, now = asked["seed"], time.monotonic()
    rate = 100.0 + seed
    return {
        "case": {"workload": asked["workload"], "preset": "tiny", "axes": asked["axes"]},
        "status": status,
        "measured_at": "2026-11-20T10:00:00Z",
        "protocol": asked["protocol"],
        "environment": {"facts": {"sw.data": "scripted"}},
        "samples": [
            {"metric": "throughput", "unit": "img/s", "direction": "higher", "values": [rate]}
        ],
        "replicates": [
            {
                "seed": seed,
                "import_s": 0.1,
                "build_s": 0.1,
                "warmup": {"steps": 10, "s": 1.0, "reason": "steady", "first_step_s": 0.5},
                "full": timed_pass(now - 0.4, now - 0.2, rate),
                "synth": timed_pass(now - 0.2, now, rate),
                "peak_memory_b": 1000,
            }
        ],
        **more,
    }


def event(asked, phase, step=0):
    line = {"at_s": time.monotonic(), "progress": {"phase": phase, "step": step}}
    os.write(asked["events"], json.dumps(line).encode() + b"\n")


def succeed(asked, **more):
    event(asked, "full", 3)
    print(json.dumps(result(asked, **more)))


def beat_for(asked, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        event(asked, "warmup")
        time.sleep(0.02)


def note(asked, *pids):
    """Tell the test which processes there are, in the folder that it gave as data_root."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat").read_text()
        started = stat[stat.rindex(")") + 2 :].split()[19]
        (asked["folder"] / f"pid-{pid}-{namespace}-{started}").touch()


def grandchild(new_session):
    sleep = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    return subprocess.Popen(
        [sys.executable, "-S", "-c", sleep],
        start_new_session=new_session,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ).pid


def ok(asked):
    succeed(asked)


def traced(asked):
    """Writes a trace where one is asked for; the second process of a job is not to be asked."""
    if "trace" in asked:
        assert asked["seed"] == 0
        assert "trace" not in asked["protocol"], "a file says it all"
        Path(asked["trace"]).write_bytes(gzip.compress(b'{"traceEvents": []}', mtime=0))
    succeed(asked)


def badtrace(asked):
    os.mkfifo(asked["trace"])
    succeed(asked)


def unprofiled(asked):
    found = result(asked)
    found["replicates"][0]["profile"] = {"absent": "The driver recorded no kernel."}
    print(json.dumps(found))


def bomb(asked):
    """Traces that are packed small and would be large: a million zeros each."""
    found = result(asked)
    for name in ("full", "synth"):
        for part in ("step", "stall", "copy", "work"):
            found["replicates"][0][name][f"{part}_trace"] = trace([0.0] * 1_000_000)
    print(json.dumps(found))


def verbose(asked):
    """Two MiB of text, each piece of which may be there."""
    breaks = {f"{n} " + "x" * 480: 1 for n in range(90)}
    found = result(asked)
    found["replicates"][0]["compilation"] = {"graphs": 1, "breaks": breaks, "recompiles": breaks}
    profile = {"demands": [demand(n) for n in range(1_900)]}
    found["replicates"][0]["profile"] = profile
    print(json.dumps(found))


def demand(number):
    name = f"{number} " + "x" * 480
    return {"name": name, "arithmetic": "fp32", "flops": 1.0, "moved_b": 1.0, "calls": 1}


def longunit(asked):
    found = result(asked)
    found["samples"][0]["unit"] = "x" * 65
    print(json.dumps(found))


def manyfacts(asked):
    facts = {f"sw.env.N{n}": "x" * 400 for n in range(200)}
    print(json.dumps(result(asked, environment={"facts": facts})))


def nosteps(asked):
    """A pass of no steps, whose mean step time nobody can know."""
    beat_for(asked, 0.6)
    found = result(asked)
    found["replicates"][0]["synth"]["steps"] = 0
    print(json.dumps(found))


def clockless(asked):
    beat_for(asked, 0.6)
    facts = {"hw.gpu.max_sm_clock_hz": "as fast as it can"}
    print(json.dumps(result(asked, environment={"facts": facts})))


def slow(asked):
    beat_for(asked, 0.6)
    succeed(asked)


def slowonce(asked):
    """Runs until it is stopped the first time, and well the second time."""
    if any(asked["folder"].glob("pid-*")):
        succeed(asked)
    else:
        note(asked, os.getpid(), grandchild(new_session=True))
        beat_for(asked, FOREVER_S)


def endless(asked):
    note(asked, os.getpid(), grandchild(new_session=True))
    beat_for(asked, FOREVER_S)


def hang(asked):
    event(asked, "warmup", 7)
    print("about to hang", file=sys.stderr, flush=True)
    note(asked, os.getpid())
    time.sleep(FOREVER_S)


def stubborn(asked):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(asked, os.getpid(), grandchild(new_session=False), grandchild(new_session=True))
    event(asked, "warmup")
    time.sleep(FOREVER_S)


def litter(asked):
    note(asked, grandchild(new_session=False), grandchild(new_session=True))
    succeed(asked)


def die(asked):
    print("last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), int(asked["axes"]["signal"]))
    time.sleep(FOREVER_S)


def garbage(asked):
    print("this is no result")


def newer(asked):
    succeed(asked, schema_version=2, of_the_next_version=True)


def verbatim(asked):
    print((asked["folder"] / "verbatim").read_text())


def json_of_its_own(asked):
    print(json.dumps({"loss": 1.25, "status": "ok"}))


def nothing(asked):
    pass


def chatty(asked):
    for _ in range(160):
        print("x" * 65_535)
    succeed(asked)


def flood(asked):
    while True:
        print("x" * 65_535, flush=True)


def refuse(asked):
    print("There is no workload 'refuse'; choose one of: ok.", file=sys.stderr)
    sys.exit(2)


def nodevice(asked):
    print("cuda:0 cannot be used: torch sees 0 GPUs.", file=sys.stderr)
    sys.exit(69)


def fail(asked):
    raise RuntimeError("the sentence at the end")


def dirty(asked):
    sys.stderr.buffer.write(b"first \xff\x00 line\n" + "é".encode() * 30_000 + b"\x00\nend\n")
    sys.stderr.flush()
    sys.exit(3)


def failsecond(asked):
    if asked["seed"] == 0:
        succeed(asked)
    else:
        os.kill(os.getpid(), signal.SIGSEGV)


def oom(asked):
    print("CUDA out of memory, said the log", file=sys.stderr)
    print(json.dumps(result(asked, status="oom", reason="It does not fit.", samples=[])))


def environment(asked):
    names = ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "OMP_NUM_THREADS")
    names += ("CUDA_DEVICE_ORDER", "THROUGHLINE_CACHE_DIR")
    told = {name: os.environ.get(name) for name in names}
    stamp = Path(told["TRITON_CACHE_DIR"]) / "kernel"
    told["names"] = sorted(os.environ)
    told["warm"] = stamp.exists()
    stamp.touch()
    told["spec"] = asked["spec"]
    (asked["folder"] / f"environment-{asked['seed']}.json").write_text(json.dumps(told))
    succeed(asked)


def daemon(asked):
    """Leave a process behind as a daemon does it: no parent, session, signal or mark in common."""
    told, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.setsid()
            note(asked, os.getpid())
            os.close(tell)
            sleep = "import time; time.sleep(600)"
            os.execve(sys.executable, [sys.executable, "-S", "-c", sleep], {})
        os._exit(0)
    os.close(tell)
    os.read(told, 1)


def daemons(asked):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(3):
        daemon(asked)
    note(asked, os.getpid())
    time.sleep(FOREVER_S)  # without a word: a broken pipe must not be what ends it


def daemonthenok(asked):
    daemon(asked)
    succeed(asked)


def daemonthencrash(asked):
    daemon(asked)
    os.kill(os.getpid(), signal.SIGKILL)


def forks(asked):
    """A fork bomb, though one that ends at 600."""
    with suppress(BlockingIOError):
        for _ in range(600):
            if os.fork() == 0:
                time.sleep(FOREVER_S)
    beat_for(asked, FOREVER_S)


def longline(asked):
    """2 GiB without a newline, then an end as if all were well."""
    chunk = b"x" * 2**20
    for _ in range(2048):
        os.write(1, chunk)


def legalline(asked):
    """Nearly all that may be printed, on one line that is no Result."""
    os.write(1, b"[" * int(asked["axes"]["bytes"]))


def junkevents(asked):
    junk = b"\n" * 65_536
    while True:
        os.write(asked["events"], junk)


def mute(asked):
    for number in (0, 1, 2, asked["events"]):
        os.close(number)
    time.sleep(FOREVER_S)


def stopped(asked):
    note(asked, os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)


def hoard(asked):
    """64 MiB of temporary files, twice what the test allows."""
    with open(os.environ["TMPDIR"] + "/big", "wb") as file:  # noqa: PTH123
        for _ in range(64):
            file.write(b"x" * 2**20)
            event(asked, "warmup")
    beat_for(asked, FOREVER_S)


def labyrinth(asked):
    """Folders that Python cannot remove: too deep for its stack, and closed to their owner."""
    os.chdir(os.environ["TMPDIR"])
    for _ in range(2000):
        Path("d").mkdir()
        os.chdir("d")
    Path("file").touch()
    os.chdir("..")
    Path("d").chmod(0)
    Path("elsewhere").symlink_to(asked["folder"])
    succeed(asked)


def warming(asked):
    """Warms up until the test says that the next job's process was thought of."""
    note(asked, os.getpid())
    with (asked["folder"] / "sides").open("a") as sides:
        sides.write("ahead\n" if "--await" in sys.argv else "fresh\n")
    with (asked["folder"] / "caches").open("a") as caches:
        caches.write(os.environ["TRITON_CACHE_DIR"] + "\n")
    event(asked, "warmup")
    number = len((asked["folder"] / "sides").read_text().split())
    while not (asked["folder"] / f"go-{number}").exists():
        time.sleep(0.01)
    succeed(asked)


def turned(asked, **more):
    """Measures in turn where that is asked for, and passes the baton as the real one does."""
    part = asked["spec"].get("duet")
    if part is None:
        succeed(asked)
        return
    note(asked, os.getpid())
    with (asked["folder"] / "sides").open("a") as sides:
        sides.write("ahead\n" if "--await" in sys.argv else "fresh\n")
        sides.write("compiles\n" if "--compiles" in sys.argv else "")
    end = socket.socket(fileno=part["socket_fd"])
    end.sendall(b"h")
    assert end.recv(1), "the other side is gone"
    turns = []
    for _ in range(part["turns"]):
        now = time.monotonic()
        window = {"start_s": now, "end_s": now + 0.01}
        turns.append({"window": window, "steps": 2, "step_s": 0.1 if part["first"] else 0.2})
    (asked["folder"] / f"cache-{part['first']}").write_text(os.environ["TRITON_CACHE_DIR"])
    print(json.dumps(result(asked, turns=turns, replicates=[], batch_items=8, **more)))


def lingering(asked):
    """Goes on with its turns until the test lets it end."""
    event(asked, "turns")
    while not (asked["folder"] / "end").exists():
        time.sleep(0.01)
    turned(asked)


def tight(asked):
    """Both sides fit together, and only just."""
    turned(asked, flags=["turns.short_of_memory"])


def restless(asked):
    """It works on while the other side is measured."""
    turned(asked, flags=["turns.busy_while_waiting"])


def untrue(asked):
    """It computes something else."""
    turned(asked, status="parity_fail", reason="The losses differ.", samples=[])


def exclusive(asked):
    """The device takes one process at a time."""
    if "duet" in asked["spec"]:
        nodevice(asked)
    succeed(asked)


def crowded(asked):
    """Both sides do not fit together."""
    if "duet" in asked["spec"]:
        oom(asked)
    else:
        succeed(asked)


def unturned(asked):
    """Code of a time before duets refuses what it does not know."""
    if "duet" in asked["spec"]:
        print("duet: Extra inputs are not permitted", file=sys.stderr)
        sys.exit(2)
    succeed(asked)


def onesidedies(asked):
    part = asked["spec"].get("duet")
    if part and part["first"]:
        os.kill(os.getpid(), signal.SIGKILL)
    turned(asked)


def onesidehangs(asked):
    part = asked["spec"].get("duet")
    if part and part["first"]:
        note(asked, os.getpid())
        time.sleep(FOREVER_S)
    turned(asked)


def ranks(asked):
    told = {"own": Path("/proc/self/oom_score_adj").read_text()}
    told["pid"] = Path("/proc/self").resolve().name == str(os.getpid())
    told["uid"] = os.getuid()
    (asked["folder"] / "ranks.json").write_text(json.dumps(told))
    succeed(asked)


def wait_ahead():
    """Say that it was started ahead, and wait for the job."""
    events = {"events": int(sys.argv[sys.argv.index("--await") + 1])}
    event(events, "build")
    began = json.loads(sys.stdin.readline())
    assert began["at_s"] <= time.monotonic()
    os.environ.update(began["environment"])


def read():
    """What is asked, as the worker writes it to standard input."""
    spec = json.load(sys.stdin)
    asked = {name: spec[name] for name in ("seed", "protocol", "trace") if name in spec}
    asked |= {"workload": spec["case"]["workload"], "axes": spec["case"]["axes"], "spec": spec}
    return asked | {"events": spec["events_fd"], "folder": Path(spec["data_root"])}


def main():
    if "--await" in sys.argv and "--deaf" not in sys.argv:
        wait_ahead()
    asked = read()
    part = sys.argv[2] if sys.argv[1:2] == ["--part"] else asked["workload"]
    event(asked, "build")
    globals()[part](asked)


if __name__ == "__main__":
    main()
