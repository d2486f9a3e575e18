"""Finds the copies that a step could do without, in what reaches the dispatcher.

A copy is needless if nothing wrote to it or to its source from then on, and it was gone when the
step ended: the source could have stood in for it. Whoever reads memory behind the dispatcher's
back, such as a kernel launched by hand, is not seen. Copies of a backward pass count only as part
of a round trip: no line asks for the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from benchmarks.contracts import NeedlessCopy

LEAST = 0.01
"""Share of the step from which a copy is told."""
MOST = 20
"""As many as a profile keeps."""
_COPYING = ("aten.clone", "aten._to_copy")
_TURNS = ("aten.t", "aten.transpose", "aten.permute")
_ANY_LAYOUT = frozenset(
    f"aten.{name}"
    for name in (
        *("mm", "bmm", "addmm", "baddbmm", "sum", "mean", "amax", "amin", "var", "std"),
        *("linalg_vector_norm", "_softmax", "_log_softmax", "t", "transpose", "permute", "detach"),
        *("select", "slice", "expand", "unsqueeze", "squeeze", "alias"),
    )
)
"""Operations that, as pointwise ones do, read a transposed tensor as well as one in order."""
Kind = Literal["clone", "contiguous", "layout", "round_trip"]
_WHAT: Mapping[Kind, str] = {
    "clone": "a clone of a value that nothing changes afterwards",
    "contiguous": "contiguous() for readers that take any layout",
    "layout": "a transposed value, copied into the order that the next operation needs",
}


@dataclass(frozen=True)
class Asked:
    """The place in the measured code that asked for an operation."""

    line: str
    directly: bool
    """No library lies between the line and the operation."""
    backward: bool


@dataclass(frozen=True)
class _Copy:
    """One copy; ``number`` counts operations, and so tells what came before and after it."""

    number: int
    asked: Asked
    kind: Kind
    """A cast, or a move to another device, can be half of a round trip."""
    source: int
    made: int
    moved_b: int
    lossless: bool
    before: tuple[torch.dtype, torch.device]
    after: tuple[torch.dtype, torch.device]


class CopyWatch:
    """Follows the storages of copies through one step."""

    def __init__(self) -> None:
        self._copies: list[_Copy] = []
        self._storages: dict[int, StorageWeakRef] = {}
        """Holds the address of each copied storage, so that no later one gets the same."""
        self._written: dict[int, int] = {}
        self._turned: set[int] = set()
        """Storages of which the measured code itself made a transposed view."""
        self._readers: dict[int, list[tuple[str, bool]]] = defaultdict(list)
        """By copy: the operations that read it, and whether each made a view."""

    def note(
        self,
        number: int,
        func: Any,
        given: Sequence[Tensor],
        made: Sequence[Tensor],
        call: Any,
        asked: Asked,
    ) -> None:
        """Take note of operation ``number``: what it wrote and read, and whether it copied."""
        name, returns = str(func._overloadpacket), func._schema.returns
        written = {_storage(tensor) for tensor in _written_by(func, *call)}
        self._written.update(dict.fromkeys(written, number))
        is_view = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
        layout_free = name in _ANY_LAYOUT or torch.Tag.pointwise in func.tags
        for tensor in given:
            if (key := _storage(tensor)) in self._storages:
                self._readers[key].append((name if not layout_free else "", is_view))
        if name in _TURNS and asked.directly:
            self._turned.add(_storage(given[0]))
        if name in _COPYING and len(given) == len(made) == 1:
            self._note_copy(number, given[0], made[0], asked)

    def _note_copy(self, number: int, source: Tensor, made: Tensor, asked: Asked) -> None:
        before, after = (source.dtype, source.device), (made.dtype, made.device)
        kind = _kind(source, made) if before == after else "round_trip"
        turned = kind != "layout" or _storage(source) in self._turned
        keys = _storage(source), _storage(made)
        if not asked.line or 0 in keys or not turned or kind is None:
            return
        for tensor in (source, made):
            if _storage(tensor) not in self._storages:
                ref = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
                self._storages[ref.cdata] = ref
        moved_b = sum(tensor.numel() * tensor.element_size() for tensor in (source, made))
        lossless = _lossless(source.dtype, made.dtype)
        self._copies.append(_Copy(number, asked, kind, *keys, moved_b, lossless, before, after))

    def needless(self, seconds: Mapping[int, float]) -> tuple[NeedlessCopy, ...]:
        """Return the copies that the finished step could have done without, per line.

        ``seconds`` are of each copy, by its number.
        """
        alike: dict[tuple[Kind, str, str], list[tuple[_Copy, ...]]] = defaultdict(list)
        for copies in (*self._single(), *self._round_trips()):
            alike[self._words(copies)].append(copies)
        found = [
            NeedlessCopy(
                kind=kind,
                what=what[:500],
                source=source[:500],
                calls=len(calls),
                moved_b=float(sum(copy.moved_b for copies in calls for copy in copies)),
                self_s=sum(seconds.get(copy.number, 0.0) for copies in calls for copy in copies),
            )
            for (kind, what, source), calls in alike.items()
        ]
        return tuple(sorted(found, key=lambda copy: -copy.self_s))

    def _single(self) -> Iterable[tuple[_Copy, ...]]:
        for copy in self._copies:
            forward = copy.asked.directly and not copy.asked.backward
            alone = copy.kind != "round_trip"
            if alone and forward and self._stands_in(copy.source, copy.made, copy.number):
                yield (copy,)

    def _round_trips(self) -> Iterable[tuple[_Copy, ...]]:
        """Casts or moves without loss whose one reader undoes them."""
        halves = [copy for copy in self._copies if copy.kind == "round_trip"]
        casts = {copy.made: copy for copy in halves}
        for back in halves:
            there = casts.get(back.source)
            if there is None or there.before != back.after or not there.lossless:
                continue
            same_pass = there.asked.backward == back.asked.backward and there.asked.directly
            readers = [name for name, is_view in self._readers[there.made] if not is_view]
            ends = self._stands_in(there.source, back.made, there.number)
            unchanged = self._stands_in(there.source, there.made, there.number)
            if same_pass and ends and unchanged and len(readers) == 1:
                yield there, back

    def _stands_in(self, source: int, made: int, number: int) -> bool:
        """Return True if neither was written after operation ``number`` and the copy is gone."""
        last = max(self._written.get(source, -1), self._written.get(made, -1))
        gone: bool = self._storages[made].expired()  # type: ignore[no-untyped-call]
        return gone and last <= number

    def _words(self, copies: Sequence[_Copy]) -> tuple[Kind, str, str]:
        """Kind, words and line of a copy, or of a round trip."""
        first = copies[0]
        if len(copies) == 1:
            free = all(not name for name, _ in self._readers[first.made])
            kind = "contiguous" if first.kind == "layout" and free else first.kind
            return kind, _WHAT[kind], first.asked.line
        # A backward pass goes through the same two lines the other way round.
        first, second = reversed(copies) if first.asked.backward else copies
        here, there = (str(copies[0].before[0]), str(copies[0].after[0]))
        if here == there:
            here, there = (str(copies[0].before[1]), str(copies[0].after[1]))
        what = f"from {here} to {there} and back unchanged".replace("torch.", "")
        if second.asked.line != first.asked.line:
            what += f" at {second.asked.line}"
        return "round_trip", what, first.asked.line


def _storage(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # a wrapper without storage of its own
        return 0


def _written_by(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors that an operation writes to."""
    written: list[Tensor] = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            values = value if isinstance(value, list | tuple) else (value,)
            written += [one for one in values if isinstance(one, Tensor)]
    return written


def _kind(source: Tensor, made: Tensor) -> Kind | None:
    """Return clone or layout; None where the copy also gathers scattered or repeated values."""
    if source.layout is not torch.strided:
        return None
    whole = source.numel() * source.element_size() == source.untyped_storage().nbytes()
    strides = [
        stride for size, stride in zip(source.shape, source.stride(), strict=True) if size > 1
    ]
    if 0 in strides:
        return None
    if source.stride() == made.stride():
        return "clone" if whole else None
    permuted = any(outer < inner for outer, inner in pairwise(strides))
    return "layout" if permuted and made.is_contiguous() else None


def _lossless(before: torch.dtype, after: torch.dtype) -> bool:
    if before.is_floating_point != after.is_floating_point:
        return False
    try:
        return torch.promote_types(before, after) == after
    except RuntimeError:  # float8 and unsigned integers beyond bytes have no promotion
        return False
