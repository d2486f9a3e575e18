"""Stands in for `python -m benchmarks`: a simulated GPU machine that answers at once.

The environment variable MACHINE says what works on it: ok (default), oom (bf16 does not fit),
broken (what uses two loader processes crashes), hangs (in any case but the first), doubtful (bf16
is held against a reference that does not repeat itself, on a device that held itself back).
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from builders.machines import Machine

from benchmarks.contracts import Parity, ParityStatus, ProcessSpec, Result, Status

FACTORS = {"precision=bf16": 0.5, "layout=channels_last": 0.8, "compile=default": 1.3}


def measured(spec: ProcessSpec, script: str = "ok") -> Result:
    """What this machine makes of one process."""
    bf16 = spec.case.axes.get("precision") == "bf16"
    if script == "hangs" and spec.case.axes:
        time.sleep(60)
    fails = {"oom": {"precision=bf16": Status.OOM}, "broken": {"workers=2": Status.CRASHED}}
    machine = Machine(read_s=0.3, step_s=0.2, factors=FACTORS, fails=fails.get(script, {}))
    result = machine.measure(spec.case.model_copy(update={"preset": "full"}))
    if script == "doubtful" and bf16:
        unsure = Parity(status=ParityStatus.NONDETERMINISTIC, reason="Two runs differ by 1e-3.")
        result = result.model_copy(update={"parity": unsure, "flags": ("throttled",)})
    return result


if __name__ == "__main__":
    asked = ProcessSpec.model_validate_json(sys.stdin.buffer.read())
    result = measured(asked, os.environ.get("MACHINE", "ok"))
    sys.stdout.write(result.model_dump_json() + "\n")
