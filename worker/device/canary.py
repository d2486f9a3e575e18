"""A node's canary readings, remembered and compared, to notice a node that has changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from pydantic import ValidationError

from benchmarks.contracts import Canary
from worker.state_dir import write_durably

log = logging.getLogger(__name__)

ARGUMENTS = ("-m", "benchmarks.measure.canary")
LIMIT_S = 60.0
"""A canary that takes longer gives no reading."""
REMEMBERED = 40
NEEDED = 5
"""Fewer earlier readings are no median to leave."""
DEVICE_MOVED, HOST_MOVED = 0.01, 0.05
"""Relative difference from the node's median from which a reading has moved."""
_UNSTEADY = frozenset({"all_reduce_1mib_b_s"})
"""Readings of microseconds of work: equal ones differ by half, so none has moved."""
_OF_THE_DEVICE = frozenset({"gemm_flop_s", "copy_b_s"})
"""Readings by the device's clock alone; those that involve the host vary more."""


class NodeHistory:
    """A node's canaries, in a file of the worker's own folder."""

    def __init__(self, folder: Path, every_s: float) -> None:
        """``every_s`` is how long a reading stands for the node; 0 takes none."""
        self._file = folder / "canary.jsonl"
        self._every_s = every_s
        self._taken_at_s = -float("inf")
        self._newest: Canary | None = None

    def now(self, take: Callable[[], Canary | None]) -> Canary | None:
        """The reading that stands for the node; ``take`` makes one if the last is too old."""
        if not self._every_s:
            return None
        if time.monotonic() - self._taken_at_s >= self._every_s:
            self._taken_at_s = time.monotonic()
            self._newest = self._compared(take())
        return self._newest

    def _compared(self, taken: Canary | None) -> Canary | None:
        if taken is None:
            return None
        earlier = self._earlier()
        on_cpu = "launch_s" not in taken.readings
        differences = moved([one.readings for one in earlier], taken.readings, on_cpu=on_cpu)
        if differences:
            listed = ", ".join(f"{name} {by:+.1%}" for name, by in differences.items())
            log.warning("This node is not what it was: %s against its median.", listed)
        self._remember([*earlier, taken][-REMEMBERED:])
        return taken.model_copy(update={"moved": differences})

    def _earlier(self) -> list[Canary]:
        try:
            lines = self._file.read_bytes().splitlines()
        except OSError:
            return []
        canaries = []
        for line in lines:
            try:
                canaries.append(Canary.model_validate_json(line))
            except ValidationError:  # another version's, or half a line
                continue
        return canaries

    def _remember(self, canaries: Sequence[Canary]) -> None:
        content = "".join(one.model_dump_json() + "\n" for one in canaries)
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_durably(self._file, content.encode())
        except OSError as error:
            log.error("The node's canary could not be kept: %s. Free some disk.", error)


def moved(
    earlier: Sequence[Mapping[str, float]], now: Mapping[str, float], *, on_cpu: bool
) -> dict[str, float]:
    """Relative difference of each reading that left the median of the earlier ones. Pure."""
    differences = {}
    for name, value in now.items():
        known = [readings[name] for readings in earlier if name in readings]
        if len(known) < NEEDED or name in _UNSTEADY:
            continue
        usual = median(known)
        allowed = DEVICE_MOVED if name in _OF_THE_DEVICE and not on_cpu else HOST_MOVED
        if usual > 0 and abs(value / usual - 1) > allowed:
            differences[name] = value / usual - 1
    return differences
