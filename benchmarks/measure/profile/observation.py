"""One eager step, watched operation by operation: FLOPs, bytes, lines, waits and copies.

`Observer` sees what reaches the dispatcher, forward and backward, on any device. A backward
operation is put down to the line of its forward, which autograd's sequence numbers join to it.
"""

from __future__ import annotations

import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from benchmarks.contracts import Demand, NeedlessCopy, Synchronization
from benchmarks.measure.profile.copies import Asked, CopyWatch
from benchmarks.measure.profile.forwards import Forwards
from benchmarks.measure.profile.origins import AT, Call

_ALLOCATES = ("aten.empty", "aten.new_empty", "aten.detach", "aten.lift_fresh", "profiler.")
_NO_COPY = ("aten._unsafe_view", "aten._reshape_alias", "aten.alias")
_READS_BACK = {
    "aten._local_scalar_dense": ".item(), or a tensor used as a Python number or condition",
    "aten.nonzero": "nonzero, or indexing by a mask: its size is read on the host",
    "aten.masked_select": "masked_select: its size is read on the host",
    "aten._unique2": "unique: its size is read on the host",
    "aten.unique_dim": "unique: its size is read on the host",
    "aten.equal": "equal: its answer is read on the host",
}
_COPIES = ("aten._to_copy", "aten.copy_")
_WAITING = "called a synchronizing CUDA operation"
"""Prefix of CUDA's own warning; another warning says that the mode is a prototype."""
_SHORT = {torch.float32: "fp32", torch.float64: "fp64", torch.bfloat16: "bf16"}
_SHORT |= {torch.float16: "fp16"}


@dataclass
class Observation:
    """The demands and the waits of one step."""

    demands: Counter[tuple[str, str, int, int, bool]] = field(default_factory=Counter)
    """How often: name, arithmetic, FLOPs, bytes, fusable."""
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often: what, and its line."""
    copies: tuple[NeedlessCopy, ...] = ()
    every: dict[tuple[str, str], int] = field(default_factory=dict)
    """Waits that come every few steps: the number of steps from one to the next."""
    notes: list[str] = field(default_factory=list)

    def stored(self) -> tuple[tuple[Demand, ...], tuple[Synchronization, ...]]:
        """Both as they are stored; equal operations are added up."""
        demands = tuple(
            Demand(
                name=name,
                arithmetic=arithmetic,
                flops=float(flops * calls),
                moved_b=float(moved_b * calls),
                calls=calls,
                fusable=fusable,
            )
            for (name, arithmetic, flops, moved_b, fusable), calls in self.demands.items()
        )
        waits = tuple(
            Synchronization(
                what=what, source=source, calls=calls, every=self.every.get((what, source), 1)
            )
            for (what, source), calls in self.waits.items()
        )
        return demands, waits


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches every operation while entered; too slow for a timed pass."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.observed = Observation()
        self.calls: dict[int, Call] = {}
        """By their number in the step."""
        self.copies = CopyWatch()
        self._device = device
        self._forwards: Forwards[Asked] = Forwards()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run ``func`` within an annotation that numbers it, and note what it asked for."""
        asked, number = self._asked(sys._getframe(1)), len(self.calls)
        with torch.profiler.record_function(f"{AT}{number}"):
            out = func(*args, **(kwargs or {}))
        given, made = _tensors((args, kwargs)), _tensors(out)
        call = Call(str(func._overloadpacket), asked.line)
        self.calls[number] = self._demanding(call, func, given, made, (args, kwargs or {}, out))
        self._note_wait(func, given, made, (args, kwargs or {}), asked.line)
        self.copies.note(number, func, given, made, (args, kwargs or {}), asked)
        return out

    def _asked(self, frame: FrameType) -> Asked:
        """The workload's line behind the present operation, through autograd where need be."""
        node = torch._C._current_autograd_node()
        if node is not None:
            forward = self._forwards.behind(node) or Asked("", directly=False, backward=True)
            return replace(forward, backward=True)
        line = line_of(frame)
        directly = bool(line) and nearest(frame, _PASSES_ON) == line
        asked = Asked(line, directly, backward=False)
        if line:
            self._forwards.note(asked)
        return asked

    def _demanding(
        self,
        call: Call,
        func: Any,
        given: Sequence[Tensor],
        made: Sequence[Tensor],
        values: tuple[Any, Any, Any],
    ) -> Call:
        """``call`` with its demands, which are noted."""
        if call.name.startswith((*_ALLOCATES, *_NO_COPY)) or _is_view(func):
            return call
        moved_b = sum(_size_b(tensor) for tensor in (*given, *made) if self._is_here(tensor))
        if moved_b == 0:
            return call
        args, kwargs, out = values
        count = flop_registry.get(func._overloadpacket)
        flops = int(count(*args, **kwargs, out_val=out)) if count else 0
        dtype = next((t.dtype for t in (*made, *given) if t.is_floating_point()), torch.float32)
        arithmetic, fusable = _arithmetic(dtype), torch.Tag.pointwise in func.tags
        self.observed.demands[call.name, arithmetic, flops, moved_b, fusable] += 1
        return replace(call, arithmetic=arithmetic, flops=flops, moved_b=moved_b)

    def _is_here(self, tensor: Tensor) -> bool:
        return tensor.device.type == self._device.type

    def _note_wait(
        self,
        func: Any,
        given: Sequence[Tensor],
        made: Sequence[Tensor],
        call: tuple[tuple[Any, ...], Mapping[str, Any]],
        line: str,
    ) -> None:
        name = str(func._overloadpacket)
        what = _READS_BACK.get(name)
        if what is None and name in _COPIES:
            what = _copied_back(given, made, call)
        if what is None or not any(self._is_here(tensor) for tensor in (*given, *made)):
            return
        if self._device.type == "cpu" and not line:
            return  # an optimizer reads its step count, which lies on the host on purpose
        self.observed.waits[what, line or nearest(sys._getframe(2))] += 1


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


class WaitObserver(Observer):  # type: ignore[no-untyped-call]
    """Watches only what waits for the device."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run ``func``, and note it if the host waits for it."""
        out = func(*args, **(kwargs or {}))
        if str(func._overloadpacket) in (*_READS_BACK, *_COPIES):
            line = self._asked(sys._getframe(1)).line
            call = args, kwargs or {}
            self._note_wait(func, _tensors((args, kwargs)), _tensors(out), call, line)
        return out


def _is_view(func: Any) -> bool:
    returns = func._schema.returns
    aliased = any(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    return aliased and not func._schema.is_mutable


def _size_b(tensor: Tensor) -> int:
    try:
        held = tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # a wrapper without storage of its own
        return tensor.numel() * tensor.element_size()
    return min(tensor.numel() * tensor.element_size(), held)


def _arithmetic(dtype: torch.dtype) -> str:
    if dtype is torch.float32 and torch.backends.cuda.matmul.allow_tf32:
        return "tf32"
    return _SHORT.get(dtype, str(dtype).removeprefix("torch.").lower())


def _copied_back(
    given: Sequence[Tensor], made: Sequence[Tensor], call: tuple[tuple[Any, ...], Mapping[str, Any]]
) -> str | None:
    """Name the wait of a copy between host and device; None if the host does not wait."""
    args, kwargs = call
    if kwargs.get("non_blocking") or (len(args) > 2 and args[2] is True):
        return None
    from_, to = (given[-1].device.type, made[0].device.type) if given and made else ("", "")
    if from_ == "cuda" and to == "cpu":
        return ".cpu(), or another copy to the host"
    if from_ == "cpu" and to == "cuda":
        return "a blocking copy of a host tensor to the device"
    return None


def note_implicit_waits(
    device: torch.device, steps: Sequence[Callable[[], object]], into: Observation
) -> None:
    """Have CUDA name each call that waits for the device, including calls that the dispatcher
    hides.

    Those of each of ``steps`` are noted: what comes in one of them alone is rare. On other devices
    nothing is watched.
    """
    if device.type != "cuda":
        return
    seen: list[Counter[tuple[str, str]]] = []
    for step in steps:
        reported: Counter[tuple[str, str]] = Counter()
        with _reporting(reported):
            step()
        seen.append(reported)
    known = {source for _, source in into.waits}
    for wait in set.intersection(*map(set, seen)):
        if wait[1] not in known:  # else the dispatcher has shown that place already
            into.waits[wait] = min(reported[wait] for reported in seen)


@contextmanager
def _reporting(into: Counter[tuple[str, str]]) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown = warnings.showwarning
        warnings.showwarning = lambda message, *_, **__: _take(str(message), into)
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(before)
            warnings.showwarning = shown


def _take(message: str, into: Counter[tuple[str, str]]) -> None:
    """Count a warning of CUDA's by its line."""
    if _WAITING in message:
        frame = sys._getframe(2)
        into["a call that waits for the device", line_of(frame) or nearest(frame)] += 1


_TORCH = str(Path(torch.__file__).parent) + "/"
_HARNESS = str(Path(__file__).parents[1]) + "/"
_LIBRARY = sysconfig.get_path("stdlib") + "/"
_SITE = "/site-packages/"
_PLUMBING = ("_python_dispatch.py", "torch/_compile.py", "_dynamo/eval_frame.py", "/warnings.py")
"""What lies between a call and what watches it."""
_HASH = 40
"""Characters of a name that is a hash, at least."""
Place = tuple[str, int]
"""A file and a line's number."""
_PASSES_ON = ("torch/nn/modules/module.py", "torch/nn/modules/linear.py")
"""Code of torch that only hands on its input, as it was given."""


def place_of(name: str, number: int) -> str:
    """``file:line`` if that file is of the measured code; else empty."""
    return f"{_short(name)}:{number}" if _may_be_of_workload(name) else ""


def line_of(frame: FrameType | None) -> str:
    """``file:line`` of the innermost frame that a workload wrote, as `line_among` chooses it."""
    return line_among(_walked(frame))


def nearest(frame: FrameType | None, without: tuple[str, ...] = ()) -> str:
    """``file:line`` of the innermost frame outside of the harness."""
    return nearest_among(_walked(frame), without)


def line_among(frames: Iterable[Place]) -> str:
    """``file:line`` of the first of ``frames``, innermost first, that a workload wrote.

    Empty where there is none. The harness's own callers do not count. Of a workload in a checkout,
    installed packages are libraries; without a checkout, as in a container, the workload is an
    installed package itself.
    """
    installed = ""
    for name, number in frames:
        if name.startswith(_HARNESS):
            break
        if found := place_of(name, number):
            if _SITE not in name:
                return found
            installed = installed or found
    return installed


def nearest_among(frames: Iterable[Place], without: tuple[str, ...] = ()) -> str:
    """``file:line`` of the first of ``frames`` outside of the harness, in torch or not.

    Files whose names end with one of ``without`` are passed over.
    """
    for name, number in frames:
        if not name.startswith(_HARNESS) and not name.endswith(_PLUMBING + without):
            return f"{_short(name)}:{number}"
    return ""


def is_generated(name: str) -> bool:
    """Return True for a file that Inductor wrote: a hash, in a folder of two of its letters."""
    path = Path(name)
    return len(path.stem) > _HASH and path.stem[1:3] == path.parent.name


def _walked(frame: FrameType | None) -> Iterator[Place]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


@cache
def _may_be_of_workload(name: str) -> bool:
    # Where pip installs into the interpreter itself, its packages lie within the standard library.
    standard = name.startswith(_LIBRARY) and _SITE not in name
    library = standard or name.startswith(_TORCH) or name.endswith(_PLUMBING) or is_generated(name)
    return not library and not name.startswith("<") and name.endswith(".py")


@cache
def _short(name: str) -> str:
    folders = (f"{Path(entry or '.').absolute()}/" for entry in sys.path)
    within = max((f for f in folders if name.startswith(f)), key=len, default="")
    return name[len(within) :]
