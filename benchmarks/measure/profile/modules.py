"""A few eager steps with an annotation around each module's call: time, FLOPs and memory of each.

A first step counts, without a clock; the profiled ones carry nothing but the annotations.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from benchmarks.contracts import Layers, Profile
from benchmarks.measure import compilation
from benchmarks.measure.profile import layers, recording, timeline
from benchmarks.measure.profile.forwards import Forwards
from benchmarks.measure.profile.layers import MODULE, CountedModule
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

STEPS = 3
MOST = 500
"""Modules that are told apart, as many as a result keeps."""
_COMPILED = "_orig_mod"
"""The name under which `torch.compile` keeps the module that it wraps."""

Names = Mapping[nn.Module, str]


def with_layers(profile: Profile, trainer: Trainer, ring: Sequence[Batch]) -> Profile:
    """``profile`` with its layers, or with a note that says why it has none."""
    if profile.absent:
        return profile
    try:
        return profile.model_copy(update={"layers": measure(trainer, ring)})
    except Exception as error:  # such as too little memory for an eager step
        return recording.noted(profile, "The modules could not be told apart", error)


def measure(trainer: Trainer, ring: Sequence[Batch]) -> Layers:
    """Take the steps over batches on the device; the model keeps no hook."""
    watched = Trainer(recording.eager(trainer.recipe), trainer.device)
    names = told_apart(watched.model)
    with recording.tuned_before(trainer.recipe), _uncompiled(trainer.recipe):
        counted = _counted(watched, names, ring[0])
        events = _traced(watched, names, ring)
    return layers.read(events, counted, _of(trainer.recipe))


def _of(recipe: Recipe) -> Literal["step", "eager"]:
    # FlexAttention stays compiled in these steps too.
    own = recipe.attention != "flex" and compilation.graphs() > 0
    return "eager" if recipe.compile_options is not None or own or recipe.graphs else "step"


def _uncompiled(recipe: Recipe) -> AbstractContextManager[Any]:
    """Let whatever a workload compiled by itself run eagerly; FlexAttention needs its compiler."""
    if "torch._dynamo" not in sys.modules or recipe.attention == "flex":
        return nullcontext()
    eager: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return eager


def told_apart(model: nn.Module) -> dict[nn.Module, str]:
    """Name the modules down to the deepest level at which there are no more than `MOST`.

    Lists of modules are never called, and a wrapper of the compiler is not a module of the model's:
    neither counts.
    """
    found = {module: _name(path) for path, module in model.named_modules() if _is_called(module)}
    levels = Counter(_level(name) for name in found.values())
    within = 0
    for level in sorted(levels):
        within += levels[level]
        if within > MOST:
            return {module: name for module, name in found.items() if _level(name) < level}
    return found


def _name(path: str) -> str:
    return ".".join(part for part in path.split(".") if part != _COMPILED)


def _level(name: str) -> int:
    return len(name.split(".")) if name else 0


def _is_called(module: nn.Module) -> bool:
    if _COMPILED in vars(module)["_modules"]:
        return False
    return "forward" in vars(module) or type(module).forward is not nn.Module.forward


@contextmanager
def hooked(
    names: Names, enter: Callable[[str], object], leave: Callable[[], object]
) -> Iterator[None]:
    """Call ``enter`` with its name before each module's forward and ``leave`` after it.

    ``leave`` is called whatever the forward raises: checkpointing ends a forward by an exception.
    """

    def before(name: str, *_: Any) -> None:
        enter(name)

    def after(*_: Any) -> None:
        leave()

    with ExitStack() as hooks:
        for module, name in names.items():
            hooks.callback(module.register_forward_pre_hook(partial(before, name)).remove)
            hooks.callback(module.register_forward_hook(after, always_call=True).remove)
        yield


def _counted(watched: Trainer, names: Names, batch: Batch) -> dict[str, CountedModule]:
    """Count one step, which also allocates the optimizer's state."""
    counter = _ModuleCounter(watched.model)
    with (
        hooked(names, counter.enter, counter.leave),
        saved_tensors_hooks(counter.keep, counter.give_back),
        counter,
    ):
        watched.step(batch)
    weights_b = _weights_b(watched.model, names)
    return {
        name: CountedModule(
            class_name=type(module).__name__,
            calls=counter.calls[name],
            flops=counter.flops[name],
            kept_b=counter.kept_b[name],
            weights_b=weights_b[name],
        )
        for module, name in names.items()
        if counter.calls[name] or weights_b[name]
    }


class _ModuleCounter(TorchDispatchMode):
    """Counts calls, FLOPs, and bytes kept for the backward by the innermost module at that time."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[str] = Counter()
        self.flops: Counter[str] = Counter()
        self.kept_b: Counter[str] = Counter()
        self._inside: list[str] = []
        self._forwards: Forwards[str] = Forwards()
        self._seen = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
        self._in_backward = False

    def enter(self, name: str) -> None:
        """Begin a call; what checkpointing computes again inside the backward is none."""
        self._inside.append(name)
        self.calls[name] += torch._C._current_autograd_node() is None

    def leave(self) -> None:
        self._inside.pop()

    def keep(self, tensor: Tensor) -> Tensor:
        """Count the tensor's memory once; of accumulated gradients, the first part's forward."""
        if self._inside and not self._in_backward:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._seen:
                self._seen.add(storage.data_ptr())
                self.kept_b[self._inside[-1]] += storage.nbytes()
        return tensor

    def give_back(self, tensor: Tensor) -> Tensor:
        """Note that the backward has begun; a gradient within a module's forward is none."""
        self._in_backward = self._in_backward or not self._inside
        return tensor

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        out = func(*args, **given)
        count = flop_registry.get(func._overloadpacket)
        if count is not None and (name := self._module()) is not None:
            self.flops[name] += int(count(*args, **given, out_val=out))
        return out

    def _module(self) -> str | None:
        node = torch._C._current_autograd_node()
        if self._inside:
            if node is None:
                self._forwards.note(self._inside[-1])
            return self._inside[-1]
        return None if node is None else self._forwards.behind(node)


def _weights_b(model: nn.Module, names: Names) -> Counter[str]:
    """Bytes of parameters by the module that is told apart around them."""
    known, sizes = set(names.values()), Counter[str]()
    for path, weight in model.named_parameters():
        owner = _name(path).rpartition(".")[0]
        while owner and owner not in known:  # a model need not be called itself
            owner = owner.rpartition(".")[0]
        sizes[owner] += weight.numel() * weight.element_size()
    return sizes


def _traced(watched: Trainer, names: Names, ring: Sequence[Batch]) -> list[dict[str, Any]]:
    """The trace events of some steps with an annotation around each step and each module."""
    open_: list[record_function] = []

    def enter(name: str) -> None:
        open_.append(record_function(MODULE + name))
        open_[-1].__enter__()  # type: ignore[no-untyped-call]

    def leave() -> None:
        open_.pop().__exit__(None, None, None)

    def steps() -> None:
        with hooked(names, enter, leave):
            for number in range(STEPS):
                with record_function(f"{timeline.STEP}{number}"):
                    watched.step(ring[number % len(ring)])

    return recording.traced(watched.device, steps)
