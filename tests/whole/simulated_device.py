"""Stands in for `python -m benchmarks`: it runs the steps of the code where it runs, and times them
by the clock of a simulated device, which no load of the machine disturbs. It needs no package, so
it starts at once.
"""

# ruff: noqa: T201 - printing is what a child does

import hashlib
import json
import random
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

STEPS, BATCH = 40, 32
PROCESS_NOISE, STEP_NOISE = 0.0015, 0.005
"""Standard deviations, as a share: of a whole process, and of each step."""


class Device:
    """Runs work, each time as long as its noise says, and has a clock."""

    def __init__(self, noise: random.Random) -> None:
        self.clock_s = 0.0
        self._noise = noise
        self._pace = noise.gauss(1.0, PROCESS_NOISE)

    def run(self, work_s: float) -> None:
        self.clock_s += work_s * self._pace * self._noise.gauss(1.0, STEP_NOISE)


def main() -> None:
    spec = json.load(sys.stdin)
    if "duet" in spec:
        sys.exit("This benchmark takes no turns: let one side follow the other.")
    import training  # type: ignore[import-not-found]  # of the checkout

    case = spec["case"]
    name = " ".join((Path.cwd().parent.name, case["workload"], *map(str, case["axes"].items())))
    run = _run(Path(spec["data_root"]), name)
    device = Device(random.Random(f"{name} {run}"))
    for _ in range(STEPS):
        training.step(device, case["workload"])
    print(json.dumps(_result(spec, device.clock_s / STEPS)))


def _run(folder: Path, what: str) -> int:
    """Which run of the same this is: its noise is like no other's, and the same in each test."""
    kept = folder / "runs.json"
    runs = json.loads(kept.read_text()) if kept.exists() else {}
    runs[what] = runs.get(what, 0) + 1
    kept.write_text(json.dumps(runs))
    return int(runs[what])


def _result(spec: dict[str, Any], step_s: float) -> dict[str, object]:
    code = Path("training.py").read_bytes()
    facts = {
        "hw.device": "cpu",
        "hw.cpu.model": "a simulated device",
        "hw.host": "a node",
        "sw.driver": "580.1",
        "sw.python": "3.12.11",
        "sw.torch": "2.13.0",
        "sw.model": hashlib.sha256(code).hexdigest()[:16],
    }
    return {
        "case": spec["case"] | {"preset": "tiny"},
        "status": "ok",
        "measured_at": datetime.now(UTC).isoformat(),
        "protocol": spec["protocol"],
        "item": "img",
        "environment": {"facts": facts},
        "samples": [
            _sample("throughput", "img/s", "higher", BATCH / step_s),
            _sample("step_time", "s", "lower", step_s),
        ],
    }


def _sample(metric: str, unit: str, direction: str, value: float) -> dict[str, object]:
    return {"metric": metric, "unit": unit, "direction": direction, "values": [value]}


if __name__ == "__main__":
    main()
