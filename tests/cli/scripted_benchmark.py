"""Stands in for `python -m benchmarks` where a test is not about measuring: the same protocol on
its pipes, a Result in a tenth of a second. It imports no pydantic, so that hundreds of them start
in milliseconds. The environment variable SCRIPT says how it goes: ok (default), oom (in bf16),
crash, segfault (with seed 2), leaves (without a word), garbage, slow, caches (says which), flags
(as many as one process may have)."""

import base64
import gzip
import json
import os
import signal
import sys
import time
import zlib
from array import array
from datetime import UTC, datetime
from pathlib import Path

RATES = {"resnet50": 120.0, "nanogpt": 4_000.0, "unet": 60.0}


def main() -> None:
    spec = json.load(sys.stdin)
    script, workload = os.environ.get("SCRIPT", "ok"), spec["case"]["workload"]
    if workload not in RATES:
        sys.exit(_refuse(f"There is no workload {workload!r}."))
    _report(spec.get("events_fd"), "build", 0.0)
    if script == "caches":
        sys.stderr.write(f"caches: {os.environ['TORCHINDUCTOR_CACHE_DIR']}\n")
    if script == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if script == "segfault" and spec.get("seed", 0) == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if script == "leaves":
        os._exit(0)
    if script == "garbage":
        sys.stdout.write("this is no Result\n")
        return
    for step in range(600 if script == "slow" else 3):
        _report(spec.get("events_fd"), "full", step / 600, step, RATES[workload])
        time.sleep(0.05)
    if spec.get("trace") is not None:
        Path(spec["trace"]).write_bytes(gzip.compress(b'{"traceEvents": []}'))
    printed = json.dumps(result(spec, script))
    if script == "nan":
        printed = printed.replace('"values": [', '"values": [NaN,', 1)
    sys.stdout.write(printed + "\n")


def _refuse(sentence: str) -> int:
    sys.stderr.write(sentence + "\n")
    return 2


def _report(
    fd: int | None, phase: str, fraction: float, step: int = 0, rate: float | None = None
) -> None:
    if fd is None:
        return
    progress = {"phase": phase, "fraction": fraction, "step": step, "unit": "img/s"}
    event = {"at_s": time.monotonic(), "progress": progress | {"throughput": rate}}
    os.write(fd, json.dumps(event).encode() + b"\n")


def result(spec: dict, script: str) -> dict:
    case = spec["case"]
    device = (spec.get("device") or "cpu").partition(":")[0]
    preset = "tiny" if case.get("preset", "auto") == "auto" else case["preset"]
    common = {
        "case": case | {"preset": preset},
        "measured_at": datetime.now(UTC).isoformat(),
        "protocol": spec.get("protocol", {}),
        "environment": {"facts": {"hw.device": device, "hw.cpu.model": "a test's CPU"}},
    }
    if script == "oom" and case.get("axes", {}).get("precision") == "bf16":
        reason = "The batch does not fit into 4.0 GiB: choose a smaller batch."
        return {"status": "oom", "reason": reason, **common}
    rate = RATES[case["workload"]] * (2 if case.get("axes", {}).get("precision") == "bf16" else 1)
    replicate = _replicate(rate, spec.get("seed", 0))
    if script == "flags":
        replicate["flags"] = [f"process{spec.get('seed', 0)}.flag{number}" for number in range(100)]
    if spec.get("protocol", {}).get("profile"):
        kernel = {"name": "gemm", "self_s": 0.09, "range_s": 0.001, "calls": 12.0}
        replicate["profile"] = {"steps": 5, "step_s": 0.1, "busy_s": 0.09, "kernel_times": [kernel]}
    samples, verdict = _samples(rate), _verdict(rate)
    return {
        "status": "ok",
        "samples": samples,
        "replicates": [replicate],
        "verdict": verdict,
        **common,
    }


def _samples(rate: float) -> list[dict]:
    (step_s,) = array("f", [8 / rate])  # as the trace of the steps keeps it
    loaded = [
        _sample("throughput", "img/s", "higher", rate),
        _sample("step_time", "s", "lower", step_s),
    ]
    exact = (
        ("input_stall", "1", 0.0),
        ("first_step_time", "s", 0.1),
        ("peak_memory", "B", 3 * 2**30),
    )
    return [
        *(one | {"metric": one["metric"] + more} for one in loaded for more in ("", "_synth")),
        *(
            {"metric": name, "unit": unit, "direction": "lower", "values": [float(value)]}
            for name, unit, value in exact
        ),
    ]


def _sample(metric: str, unit: str, direction: str, value: float) -> dict:
    half = {"half_widths": [value / 100]}
    return {"metric": metric, "unit": unit, "direction": direction, "values": [value], **half}


def _verdict(rate: float) -> dict:
    shares = dict.fromkeys(("input_stall", "stall", "copy", "contention"), 0.0)
    return {
        "bottleneck": "device",
        "confidence": "high",
        "sentence": "The device works without waiting: the loader accounts for 0.0% of the step.",
        "evidence": {**shares, "enqueue": 0.001 / (8 / rate), "noise": 0.01 * 2**0.5},
        "bounds": {"without_input_stall": 1.0},
    }


def _trace(step_s: float) -> dict:
    raw = array("f", [step_s] * 3).tobytes()
    return {"n": 3, "data": base64.b64encode(zlib.compress(raw)).decode()}


def _replicate(rate: float, seed: int) -> dict:
    now_s, step_s = time.monotonic(), 8 / rate
    timed = {
        "window": {"start_s": now_s - 1, "end_s": now_s},
        "steps": 3,
        "block_steps": 1,
        "rate": rate,
        "half_width": rate / 100,
        "lag1": 0.0,
        "n_eff": 3.0,
        "stop": "steps",
        "wall_s": 3 * step_s,
        "step_trace": _trace(step_s),
        "stall_trace": _trace(0.0),
        "copy_trace": _trace(0.0),
        "work_trace": _trace(step_s),
        "work_s": step_s,
        "enqueue_s": 0.001,
        **dict.fromkeys(("p50_s", "p90_s", "p99_s", "max_s"), step_s),
        **dict.fromkeys(("stall_s", "copy_s"), 0.0),
    }
    return {
        "seed": seed,
        "import_s": 0.1,
        "build_s": 0.1,
        "warmup": {"steps": 1, "s": 0.1, "reason": "steady", "first_step_s": 0.1},
        "full": timed,
        "synth": timed,
        "peak_memory_b": 3 * 2**30,
    }


if __name__ == "__main__":
    main()
