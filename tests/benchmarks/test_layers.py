"""Device time, FLOPs and memory are put down to the modules that cause them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from builders.traces import Event, kernel, launch, span, step
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.contracts import Layer, Layers, Profile
from benchmarks.diagnosis import module_times
from benchmarks.measure import checkpointing, compilation
from benchmarks.measure.profile import layers, modules, timeline
from benchmarks.measure.profile.layers import MODULE, CountedModule
from benchmarks.measure.profile.reading import Unreadable
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

B, WIDE = 32, 64
ENGINE = "autograd::engine::evaluate_function: "
MAIN, DEVICE_THREAD = 1, 2


def module(name: str, ts: float, dur: float, tid: int = MAIN) -> Event:
    return span("user_annotation", MODULE + name, ts, dur, tid)


def operation(name: str, ts: float, dur: float, sequence: int, forward_thread: int = 0) -> Event:
    tid = DEVICE_THREAD if forward_thread else MAIN
    args: dict[str, Any] = {"Sequence number": sequence, "Fwd thread id": forward_thread}
    return span("cpu_op", name, ts, dur, tid, **args)


def arrow(link: int, start: float, end: float) -> list[Event]:
    both = {"cat": "fwdbwd", "name": "fwdbwd", "id": link, "pid": 1}
    return [
        {**both, "ph": "s", "tid": MAIN, "ts": start},
        {**both, "ph": "f", "tid": DEVICE_THREAD, "ts": end},
    ]


def a_step(number: int, **seconds: float) -> list[Event]:
    """A step on a GPU: a module within another, their backwards on autograd's thread, an update.

    ``seconds`` are lengths of kernels in us, by where they are launched.
    """
    at, first = 1_000.0 * number, 100 * number
    us = {"a": 10.0, "ab": 20.0, "back_a": 30.0, "back_ab": 40.0, "again_ab": 5.0} | seconds
    us |= {"gradient": 3.0, "loss": 2.0, "update": 60.0} | seconds
    places = {
        "a": (10, MAIN), "ab": (30, MAIN), "loss": (75, MAIN),
        "back_ab": (112, DEVICE_THREAD), "again_ab": (126, DEVICE_THREAD),
        "back_a": (142, DEVICE_THREAD), "gradient": (161, DEVICE_THREAD), "update": (210, MAIN),
    }  # fmt: skip
    kernels = [
        event
        for place, (name, (ts, tid)) in enumerate(places.items())
        for event in (
            launch(first + place, at + ts, tid=tid),
            kernel(first + place, at + 300 + 70 * place, us[name]),
        )
    ]
    return [
        step(number, at, 950.0),
        module("a", at + 5, 60),
        operation("aten::mul", at + 8, 12, first),
        module("a.b", at + 25, 30),
        # Two operations peek at the same number; the later one made the node.
        operation("aten::linear", at + 26, 20, first + 1),
        operation("aten::addmm", at + 28, 10, first + 1),
        operation(f"{ENGINE}AddmmBackward0", at + 110, 20, first + 1, 1),
        operation("AddmmBackward0", at + 111, 18, first + 1, 1),
        module("a.b", at + 125, 4, DEVICE_THREAD),
        operation(f"{ENGINE}MulBackward0", at + 140, 12, first, 1),
        operation("MulBackward0", at + 141, 10, first, 1),
        span("cpu_op", f"{ENGINE}torch::autograd::AccumulateGrad", at + 160, 5, DEVICE_THREAD),
        *arrow(2 * number, at + 28, at + 111),
        *arrow(2 * number + 1, at + 8, at + 141),
        *kernels,
    ]


KNOWN = {name: CountedModule("Net", 1, 7, 8, 9) for name in ("a", "a.b")}


def read(*steps: list[Event]) -> dict[str, Layer]:
    found = layers.read([event for events in steps for event in events], KNOWN, "step")
    return {layer.name: layer for layer in found.modules}


def test_work_belongs_to_the_innermost_module_and_a_backward_to_that_of_its_forward() -> None:
    found = layers.read([*a_step(0), *a_step(1), *a_step(2)], KNOWN, "step")
    own = {layer.name: (layer.forward_s, layer.backward_s) for layer in found.modules}
    assert own == {
        "a": (pytest.approx(10e-6), pytest.approx(30e-6)),
        # What checkpointing computes again inside the backward counts there.
        "a.b": (pytest.approx(20e-6), pytest.approx(45e-6)),
    }
    assert found.outside_s == pytest.approx(65e-6)  # loss, gradient, update
    assert (found.steps, found.of, found.noise) == (3, "step", pytest.approx(0.0))


def test_own_times_and_what_lies_outside_are_the_whole_device_time() -> None:
    events = [*a_step(0), *a_step(1), *a_step(2)]
    whole = sum(item.self_s for item in timeline.read(events).work) / 3
    found = layers.read(events, KNOWN, "step")
    assert module_times.step_s(found) == pytest.approx(whole, abs=1e-9)
    assert whole == pytest.approx(170e-6)


def test_a_step_that_was_disturbed_moves_no_time_and_is_told_as_noise() -> None:
    found = layers.read([*a_step(0), *a_step(1, ab=50.0), *a_step(2)], KNOWN, "step")
    assert found.modules[1].forward_s == pytest.approx(20e-6)
    assert found.noise == pytest.approx(30 / 170)


def test_work_outside_of_the_steps_does_not_count() -> None:
    late = [launch(900, 2_990.0), kernel(900, 2_995.0, 500.0)]
    assert read(a_step(0), a_step(1), a_step(2), late) == read(a_step(0), a_step(1), a_step(2))


@pytest.mark.parametrize(
    ("events", "why"), [([], "no step"), ([step(0, 0.0, 10.0)], "no work of the device")]
)
def test_a_trace_without_steps_or_work_says_so(events: list[Event], why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        layers.read(events, KNOWN, "step")


# Real steps on a CPU


class Block(nn.Module):
    def __init__(self, times: int) -> None:
        super().__init__()
        self.times, self.mix = times, nn.Linear(WIDE, WIDE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            x = self.mix(x)
        return x.relu()


class Net(nn.Module):
    def __init__(self, *times: int) -> None:
        super().__init__()
        self.h = nn.ModuleList(Block(each) for each in times)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.h:
            x = block(x)
        return x


def trainer(model: nn.Module, device: str = "cpu", **options: Any) -> Trainer:
    recipe = Recipe(
        model=model,
        loss=lambda model, batch: model(batch[0]).pow(2).mean(),
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=TensorDataset(torch.randn(B, WIDE)),
        batch=B,
        optimizer_options={"lr": 1e-3},
    )
    return Trainer(replace(recipe, **options), torch.device(device))


def ring(size: int = B, device: str = "cpu") -> list[Batch]:
    return [(torch.randn(size, WIDE, device=device),)]


def measured(model: nn.Module, **options: Any) -> dict[str, Layer]:
    found = modules.measure(trainer(model, **options), ring())
    assert no_hooks(model)
    return {layer.name: layer for layer in found.modules}


def no_hooks(model: nn.Module) -> bool:
    return not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())


PRODUCT = 2 * B * WIDE * WIDE


@pytest.mark.parametrize(
    ("device", "size"), [("cpu", 4_096), pytest.param("cuda", 2**20, marks=pytest.mark.gpu)]
)
def test_a_block_that_does_its_work_eight_times_is_found_in_real_steps(
    device: str, size: int
) -> None:
    model = Net(1, 1, 8, 1).to(device)
    found = modules.measure(trainer(model, device), ring(size, device))
    quiet = found.model_copy(update={"noise": 0.0})  # other tests may share the machine
    odd = module_times.odd_one(quiet)
    assert odd is not None
    # Of the first block no gradient of the input is asked for: two do the same arithmetic.
    assert (odd.name, odd.siblings, odd.flops) == ("h.2", 2, 8.0)
    assert odd.times > 2


def test_modules_have_their_calls_flops_and_weights() -> None:
    found = measured(Net(1, 2))
    assert list(found) == ["", "h.0", "h.0.mix", "h.1", "h.1.mix"]  # no list of modules
    assert [layer.class_name for layer in found.values()][:3] == ["Net", "Block", "Linear"]
    assert (found["h.0.mix"].calls, found["h.1.mix"].calls) == (1, 2)
    assert found["h.0.mix"].flops == 2 * PRODUCT  # forward and the weights' gradient
    assert found["h.1.mix"].flops == 2 * 3 * PRODUCT
    assert found["h.1.mix"].weights_b == WIDE * WIDE * 4
    assert all(found[name].forward_s > 0 and found[name].backward_s > 0 for name in ("h.0", "h.1"))
    assert (found["h.0"].flops, found[""].flops, found[""].weights_b) == (0, 0, 0)


class Taught(nn.Module):
    """A frozen teacher runs after its student."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = (nn.Linear(WIDE, WIDE, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        learnt: Tensor = self.student(x)
        with torch.no_grad():
            shown: Tensor = self.teacher(x)
        return learnt - shown


def test_the_backward_of_a_student_is_not_its_teachers() -> None:
    found = measured(Taught())
    assert (found["student"].flops, found["teacher"].flops) == (2 * PRODUCT, PRODUCT)


class Penalised(nn.Module):
    """Takes a gradient within its forward, as a penalty or a force does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (Block(1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad(self.first(x).sum(), x, create_graph=True)
        out: Tensor = self.second(slope)
        return out


def test_a_gradient_within_the_forward_does_not_end_what_is_kept() -> None:
    found = measured(Penalised())
    assert found["second.mix"].kept_b + found["second"].kept_b > 0


def test_memory_that_is_kept_counts_once_and_weights_do_not() -> None:
    found = measured(Net(1, 2))
    activation = B * WIDE * 4
    # The input; what relu made, which the next layer keeps too; what lies between two products.
    kept = {name: layer.kept_b / activation for name, layer in found.items() if layer.kept_b}
    assert kept == {"h.0.mix": 1, "h.0": 1, "h.1.mix": 1, "h.1": 1}


def test_of_what_is_computed_again_only_the_input_is_kept() -> None:
    model = Net(1, 2)
    checkpointing.recompute(model, (Block,))
    found = measured(model)
    assert found["h.1.mix"].calls == 2
    assert found["h.1.mix"].flops == 2 * 4 * PRODUCT  # once more than without
    kept = {name: layer.kept_b / B / WIDE / 4 for name, layer in found.items() if layer.kept_b}
    assert kept == {"h.0": 1, "h.1": 1}


def test_parts_of_a_batch_are_calls_of_one_step() -> None:
    found = measured(Net(1, 1), accumulation=2)
    assert found["h.1.mix"].calls == 2
    assert found["h.1.mix"].flops == 3 * PRODUCT
    assert found["h.1"].kept_b == B * WIDE * 4 / 2


def test_modules_beyond_the_most_count_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "MOST", 4)
    found = measured(Net(1, 2))
    assert list(found) == ["", "h.0", "h.1"]
    assert found["h.1"].flops == 2 * 3 * PRODUCT
    assert found["h.1"].weights_b == WIDE * WIDE * 4


def compiled_block(model: Net) -> nn.Module:
    model.h[0] = torch.compile(model.h[0], backend="eager")  # type: ignore[assignment]
    return model


def compiled_whole(model: Net) -> nn.Module:
    compiled = torch.compile(model, backend="eager")
    assert isinstance(compiled, nn.Module)
    return compiled


def compiled_in_place(model: Net) -> nn.Module:
    model.compile(backend="eager")
    return model


def compiled_forward(model: Net) -> nn.Module:
    model.forward = torch.compile(model.forward, backend="eager")  # type: ignore[method-assign]
    return model


@pytest.mark.parametrize(
    "compiled", [compiled_block, compiled_whole, compiled_in_place, compiled_forward]
)
def test_a_compiled_module_is_unwrapped(compiled: Callable[[Net], nn.Module]) -> None:
    made = trainer(compiled(Net(1, 2)))
    made.step(ring()[0])
    found = modules.measure(made, ring())
    assert found.of == "eager"
    assert [layer.name for layer in found.modules] == ["", "h.0", "h.0.mix", "h.1", "h.1.mix"]
    assert found.modules[-1].calls == 2
    assert no_hooks(made.model)


@pytest.mark.parametrize("options", [{"compile_options": {}}, {"graphs": True}])
def test_a_compiled_step_is_told_apart_eagerly(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "graphs", lambda: 0)  # other tests may have compiled
    made = trainer(Net(1, 1))
    made.recipe = replace(made.recipe, **options)
    assert modules.measure(made, ring()).of == "eager"
    assert modules.measure(trainer(Net(1, 1)), ring()).of == "step"


class Failing(Net):
    """Fails in its third forward: in the second profiled step."""

    def forward(self, x: Tensor) -> Tensor:
        self.left = getattr(self, "left", 3) - 1
        out = super().forward(x)
        if self.left == 0:
            raise RuntimeError("not again")
        return out


def test_a_failure_is_a_note_and_leaves_no_hook() -> None:
    model, profile = Failing(1, 1), Profile(steps=5, busy_s=0.1, notes=("before",))
    told = modules.with_layers(profile, trainer(model), ring())
    why = "The modules could not be told apart: RuntimeError: not again"
    assert told == profile.model_copy(update={"notes": ("before", why)})
    assert no_hooks(model)


def test_a_profile_gets_its_layers_and_an_absent_one_none() -> None:
    told = modules.with_layers(Profile(steps=5), trainer(Net(1, 1)), ring())
    assert isinstance(told.layers, Layers)
    absent = Profile(absent="refused")
    assert modules.with_layers(absent, trainer(Net(1, 1)), ring()) is absent
