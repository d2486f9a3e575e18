"""Joins each backward operation to its forward, by the sequence numbers of autograd's nodes."""

from typing import Any, Generic, TypeVar

import torch

Origin = TypeVar("Origin")


class Forwards(Generic[Origin]):
    """Remembers the origin of each forward operation, such as its line or its module."""

    def __init__(self) -> None:
        self._origins: dict[int, Origin] = {}

    def note(self, origin: Origin) -> None:
        """Note the origin of the forward operation that has just reached the dispatcher."""
        # Autograd made its node just before, and gave it the last number. One without a node, such
        # as a frozen teacher's, finds that number taken.
        last = torch.autograd._get_sequence_nr() - 1  # type: ignore[attr-defined]
        self._origins.setdefault(last, origin)

    def behind(self, node: Any) -> Origin | None:
        """Return the origin of a backward node's forward; None if it is not known."""
        return self._origins.get(node._sequence_nr())
