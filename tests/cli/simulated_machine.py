"""Stands in for `python -m benchmarks`: a simulated GPU machine that answers at once.

The environment variable MACHINE says what works on it: ok (default), oom (bf16 does not fit),
broken (what uses two loader processes crashes), hangs (in bf16), doubtful (bf16 is held against a
reference that does not repeat itself, on a device that held itself back). The file HEARD is told
which rates each case was to beat.
"""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from builders.machines import Machine

from benchmarks.contracts import Case, Parity, ParityStatus, Status

FACTORS = {"precision=bf16": 0.5, "layout=channels_last": 0.8, "compile=default": 1.3}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--device")
    parser.add_argument("--protocol", default="{}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beat", default="")
    arguments = parser.parse_intermixed_args()
    script = os.environ.get("MACHINE", "ok")
    axes = dict(setting.split("=") for setting in arguments.settings)
    if script == "hangs" and axes.get("precision") == "bf16":
        time.sleep(60)
    fails = {"oom": {"precision=bf16": Status.OOM}, "broken": {"workers=2": Status.CRASHED}}
    machine = Machine(
        read_s=0.3,
        step_s=0.2,
        factors=FACTORS,
        fails=fails.get(script, {}),
    )
    if heard := os.environ.get("HEARD"):
        with Path(heard).open("a") as file:
            file.write(f"{arguments.beat}\n")
    case = Case(workload=arguments.workload, preset="full", axes=axes)
    result = machine.measure(case)
    if script == "doubtful" and axes.get("precision") == "bf16":
        unsure = Parity(status=ParityStatus.NONDETERMINISTIC, reason="Two runs differ by 1e-3.")
        result = result.model_copy(update={"parity": unsure, "flags": ("throttled",)})
    sys.stdout.write(result.model_dump_json() + "\n")


if __name__ == "__main__":
    main()
