"""Stands in for `python -m benchmarks` where a test is not about measuring: the same protocol on
its pipes, a Result in a tenth of a second. The environment variable SCRIPT says how it goes: ok
(default), oom (in bf16), crash, segfault (with seed 2), leaves
(without a word), garbage, slow, caches (says which), flags (as many as one process
may have)."""

import gzip
import os
import signal
import sys
import time
from datetime import UTC, datetime

from benchmarks.contracts import (
    Environment,
    Event,
    Pass,
    ProcessSpec,
    Progress,
    Replicate,
    Result,
    Status,
    StopReason,
    Trace,
    Warmup,
    Window,
)
from benchmarks.diagnosis.merge import samples
from benchmarks.diagnosis.verdict import diagnose

RATES = {"resnet50": 120.0, "nanogpt": 4_000.0, "unet": 60.0}


def main() -> None:
    spec = ProcessSpec.model_validate_json(sys.stdin.buffer.read())
    script, workload = os.environ.get("SCRIPT", "ok"), spec.case.workload
    if workload not in RATES:
        sys.exit(_refuse(f"There is no workload {workload!r}."))
    _report(spec.events_fd, "build", 0.0)
    if script == "caches":
        sys.stderr.write(f"caches: {os.environ['TORCHINDUCTOR_CACHE_DIR']}\n")
    if script == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if script == "segfault" and spec.seed == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if script == "leaves":
        os._exit(0)
    if script == "garbage":
        sys.stdout.write("this is no Result\n")
        return
    for step in range(600 if script == "slow" else 3):
        _report(spec.events_fd, "full", step / 600, step, RATES[workload])
        time.sleep(0.05)
    if spec.trace is not None:
        spec.trace.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    printed = _result(spec, script).model_dump_json()
    if script == "nan":
        printed = printed.replace('"values":[', '"values":[NaN,', 1)
    sys.stdout.write(printed + "\n")


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


def _result(spec: ProcessSpec, script: str) -> Result:
    case = spec.case
    device = (spec.device or "cpu").partition(":")[0]
    preset = "tiny" if case.preset == "auto" else case.preset
    common = {
        "case": case.model_copy(update={"preset": preset}),
        "measured_at": datetime.now(UTC),
        "protocol": spec.protocol,
        "environment": Environment(facts={"hw.device": device, "hw.cpu.model": "a test's CPU"}),
    }
    if script == "oom" and case.axes.get("precision") == "bf16":
        reason = "The batch does not fit into 4.0 GiB: choose a smaller batch."
        return Result(status=Status.OOM, reason=reason, **common)
    rate = RATES[case.workload] * (2 if case.axes.get("precision") == "bf16" else 1)
    replicate = _replicate(rate, spec.seed)
    if script == "flags":
        flags = tuple(f"process{spec.seed}.flag{number}" for number in range(100))
        replicate = replicate.model_copy(update={"flags": flags})
    return Result(
        status=Status.OK,
        samples=samples(replicate, "img"),
        replicates=(replicate,),
        verdict=diagnose([replicate]),
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
