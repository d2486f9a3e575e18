"""Stands in for `python -m benchmarks` where a test is not about measuring: the same protocol on
its pipes, a Result in a tenth of a second. The environment variable SCRIPT says how it goes: ok
(default), oom (in bf16), crash, segfault (with seed 2), leaves
(without a word), garbage, slow, caches (says which)."""

import argparse
import gzip
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.contracts import (
    Case,
    Environment,
    Event,
    Pass,
    Progress,
    Protocol,
    Replicate,
    Result,
    Status,
    StopReason,
    Trace,
    Warmup,
    Window,
)
from benchmarks.diagnosis.merge import samples
from benchmarks.diagnosis.verdict import judge

RATES = {"resnet50": 120.0, "nanogpt": 4_000.0, "unet": 60.0}


def main() -> None:
    arguments = _arguments()
    script = os.environ.get("SCRIPT", "ok")
    if arguments.workload not in RATES:
        sys.exit(_refuse(f"There is no workload {arguments.workload!r}."))
    _report(arguments.events_fd, "build", 0.0)
    if script == "caches":
        sys.stderr.write(f"caches: {os.environ['TORCHINDUCTOR_CACHE_DIR']}\n")
    if script == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if script == "segfault" and arguments.seed == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if script == "leaves":
        os._exit(0)
    if script == "garbage":
        sys.stdout.write("this is no Result\n")
        return
    for step in range(600 if script == "slow" else 3):
        _report(arguments.events_fd, "full", step / 600, step, RATES[arguments.workload])
        time.sleep(0.05)
    if arguments.trace is not None:
        arguments.trace.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    printed = _result(arguments, script).model_dump_json()
    if script == "nan":
        printed = printed.replace('"values":[', '"values":[NaN,', 1)
    sys.stdout.write(printed + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--device")
    parser.add_argument("--protocol", default="{}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-root")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--events-fd", type=int)
    return parser.parse_intermixed_args()


def _refuse(sentence: str) -> int:
    sys.stderr.write(sentence + "\n")
    return 2


def _report(
    fd: int | None, phase: str, fraction: float, step: int = 0, rate: float | None = None
) -> None:
    if fd is None:
        return
    progress = Progress(phase=phase, fraction=fraction, step=step, throughput=rate, unit="img/s")
    event = Event(at_s=time.monotonic(), progress=progress)
    os.write(fd, event.model_dump_json().encode() + b"\n")


def _result(arguments: argparse.Namespace, script: str) -> Result:
    axes = dict(setting.split("=") for setting in arguments.settings)
    device = (arguments.device or "cpu").partition(":")[0]
    preset = "tiny" if arguments.preset == "auto" else arguments.preset
    common = {
        "case": Case(workload=arguments.workload, preset=preset, axes=axes),
        "measured_at": datetime.now(UTC),
        "protocol": Protocol.model_validate_json(arguments.protocol),
        "environment": Environment(facts={"hw.device": device, "hw.cpu.model": "a test's CPU"}),
    }
    if script == "oom" and axes.get("precision") == "bf16":
        reason = "The batch does not fit into 4.0 GiB: choose a smaller batch."
        return Result(status=Status.OOM, reason=reason, **common)
    rate = RATES[arguments.workload] * (2 if axes.get("precision") == "bf16" else 1)
    replicate = _replicate(rate, arguments.seed)
    return Result(
        status=Status.OK,
        samples=samples(replicate, "img"),
        replicates=(replicate,),
        verdict=judge([replicate]),
        **common,
    )


def _replicate(rate: float, seed: int) -> Replicate:
    now_s = time.monotonic()
    timed = Pass(
        window=Window(start_s=now_s - 1, end_s=now_s),
        steps=3,
        block_steps=1,
        rate=rate,
        half_width=rate / 100,
        lag1=0.0,
        n_eff=3.0,
        stop=StopReason.STEPS,
        wall_s=24 / rate,
        step_trace=Trace.of([8 / rate] * 3),
        stall_trace=Trace.of([0.0] * 3),
        copy_trace=Trace.of([0.0] * 3),
        work_trace=Trace.of([8 / rate] * 3),
        work_s=8 / rate,
        enqueue_s=0.001,
        **dict.fromkeys(("p50_s", "p90_s", "p99_s", "max_s"), 8 / rate),
        **dict.fromkeys(("stall_s", "copy_s"), 0.0),
    )
    return Replicate(
        seed=seed,
        import_s=0.1,
        build_s=0.1,
        warmup=Warmup(steps=1, s=0.1, reason="steady", first_step_s=0.1),
        full=timed,
        synth=timed,
        peak_memory_b=3 * 2**30,
    )


if __name__ == "__main__":
    main()
