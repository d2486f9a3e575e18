"""The holders of compute contexts on the device: processes of our own child, and others."""

from __future__ import annotations

from dataclasses import dataclass

from worker.child import process_tree
from worker.child.process_tree import Tree
from worker.device.nvml import Gauge


@dataclass(frozen=True)
class Holders:
    """Process ids, as the driver numbers them."""

    own: frozenset[int] = frozenset()
    foreign: frozenset[int] = frozenset()


class Occupancy:
    """Remembers which of the device's processes were ours, for they outlast their place in a tree.

    A process is ours once it was seen to belong to the tree, for as long as the driver names it and
    nobody else has got its number: a context may be there for a while after its process has gone.
    In a container the driver may use numbers that mean nothing here; then none is known as ours.
    """

    def __init__(self, gauge: Gauge | None) -> None:
        """Without a gauge there is no device, and nobody holds it."""
        self._gauge = gauge
        self._tree: Tree | None = None
        self._ours: dict[int, int] = {}

    def expect(self, tree: Tree) -> None:
        """From now on ``tree`` is ours, beside what was ours and is still there."""
        self._tree = tree

    def look(self) -> Holders:
        """Ask the driver once."""
        if self._gauge is None:
            return Holders()
        listed = self._gauge.processes()
        own = frozenset(pid for pid in listed if self._is_ours(pid))
        self._ours = {pid: started for pid, started in self._ours.items() if pid in own}
        return Holders(own, listed - own)

    def _is_ours(self, pid: int) -> bool:
        found = process_tree.identity(pid)
        if pid in self._ours and (found is None or found[1] == self._ours[pid]):
            return True
        if found is None or self._tree is None or not process_tree.belongs(pid, self._tree):
            return False
        self._ours[pid] = found[1]
        return True
