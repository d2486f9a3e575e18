"""Copies that a step could do without are found with their line; copies that it needs are not."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, NeedlessCopy
from benchmarks.measure import batch_source, compilation, session
from benchmarks.measure.profile import copies, periodic, recording
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Context, Recipe

B, N = 8, 256
CPU = torch.device("cpu")
VALUE_B = B * N * N * 4
"""Bytes of the value that is copied."""
Inside = Callable[[nn.Module, Tensor], Tensor]


class Net(nn.Module):
    """Copies ``inside`` two layers; ``kept`` outlives the step."""

    def __init__(self, inside: Inside) -> None:
        super().__init__()
        self.first, self.last, self.inside = nn.Linear(N, N), nn.Linear(N, N), inside
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.inside(self, self.first(x)))
        return out


def trainer_of(inside: Inside) -> Trainer:
    recipe = Recipe(
        model=Net(inside),
        loss=lambda model, batch: model(batch[0]).pow(2).mean(),
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=TensorDataset(torch.randn(B, N, N)),
        batch=B,
        optimizer_options={"lr": 1e-3},
    )
    return Trainer(recipe, CPU)


def found(inside: Inside) -> tuple[NeedlessCopy, ...]:
    """The copies of one observed step, however little they cost."""
    return recording.observe(trainer_of(inside), [(torch.randn(B, N, N),)])[1].copies


def line_of(function: object, place: int) -> str:
    """``file:line`` of a line of ``function``, counted from its ``def``."""
    _, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    return f"{Path(__file__).name}:{first + place}"


def cloned(_: nn.Module, x: Tensor) -> Tensor:
    for _ in range(3):
        x = x.clone().relu()
    return x


def contiguous(_: nn.Module, x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().relu().amax((1, 2), keepdim=True) + x


def normed(_: nn.Module, x: Tensor) -> Tensor:
    return nn.functional.group_norm(x.transpose(1, 2), 4)


def normed_in_order(_: nn.Module, x: Tensor) -> Tensor:
    return nn.functional.group_norm(x, 4)


def forced(_: nn.Module, x: Tensor) -> Tensor:
    return x.transpose(1, 2).reshape(B, N * N).view(B, N, N)


def handed_on(_: nn.Module, x: Tensor) -> Tensor:
    layer = nn.Linear(N, N, bias=False)
    out: Tensor = layer(x.transpose(1, 2))
    return out


def there_and_back(_: nn.Module, x: Tensor) -> Tensor:
    wide = x.double()
    return wide.float()


@pytest.fixture(autouse=True)
def _one_step_is_watched_and_nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "graphs", lambda: 0)
    monkeypatch.setattr(periodic, "MOST_S", 0.0)


@pytest.mark.parametrize(
    ("inside", "kind", "place", "calls", "moved_b"),
    [
        (cloned, "clone", 2, 3, 2 * VALUE_B),
        (contiguous, "contiguous", 1, 1, 2 * VALUE_B),
        (forced, "layout", 1, 1, 2 * VALUE_B),
        (handed_on, "layout", 2, 1, 2 * VALUE_B),
    ],
)
def test_a_planted_copy_is_found_with_its_line_its_count_and_its_bytes(
    inside: Inside, kind: str, place: int, calls: int, moved_b: int
) -> None:
    (copy,) = found(inside)
    assert (copy.kind, copy.calls, copy.moved_b) == (kind, calls, calls * moved_b)
    assert copy.source.endswith(line_of(inside, place))
    assert copy.self_s > 0


def test_a_cast_that_comes_back_unchanged_is_found_forward_and_backward() -> None:
    (copy,) = found(there_and_back)
    assert (copy.kind, copy.calls) == ("round_trip", 2)
    assert copy.moved_b == 2 * 2 * 3 * VALUE_B  # either way reads and writes 4 and 8 bytes a value
    assert copy.source.endswith(line_of(there_and_back, 1))
    assert copy.what.startswith("from float32 to float64 and back unchanged at ")
    assert copy.what.endswith(line_of(there_and_back, 2))


def written_to(_: nn.Module, x: Tensor) -> Tensor:
    return x.clone().add_(1)


def written_through_a_view(_: nn.Module, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 0].zero_()
    return y


def source_written(_: nn.Module, x: Tensor) -> Tensor:
    y = x.detach().clone()
    with torch.no_grad():
        x.detach().mul_(0.5)
    return x + y


def kept(model: nn.Module, x: Tensor) -> Tensor:
    model.kept[:] = [x.detach().clone()]  # type: ignore[index, operator]
    return x


def weights_before(model: nn.Module, x: Tensor) -> Tensor:
    """The optimizer writes to the source."""
    before = model.first.weight.detach().clone()  # type: ignore[union-attr, operator]
    return x + before.sum() * 0


def repeated(_: nn.Module, x: Tensor) -> Tensor:
    return x[:1].expand(B, N, N).transpose(1, 2).contiguous()


def compacted(_: nn.Module, x: Tensor) -> Tensor:
    in_order = x.transpose(1, 2).transpose(1, 2)
    return x + x[:4].clone().sum() + in_order[:, :4].contiguous().sum()


def rounded(_: nn.Module, x: Tensor) -> Tensor:
    return x.bfloat16().float()


def computed_wider(_: nn.Module, x: Tensor) -> Tensor:
    return x.double().softmax(-1).float()


def used_wide_too(_: nn.Module, x: Tensor) -> Tensor:
    wide = x.double()
    return wide.float() + wide.mean().float()


def by_a_library(_: nn.Module, x: Tensor) -> Tensor:
    out: Tensor = nn.MultiheadAttention(N, 4, batch_first=True)(x, x, x)[0]
    return out


def cloned_by_a_library(_: nn.Module, x: Tensor) -> Tensor:
    inside: dict[str, Any] = {}
    exec(compile("def run(x): return x.clone()", f"{torch.__path__[0]}/any.py", "exec"), inside)
    out: Tensor = inside["run"](x)
    return out


def packed_for_the_backward_pass(_: nn.Module, x: Tensor) -> Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.double(), lambda t: t.float()):
        return x.pow(2)


def narrowed(_: nn.Module, x: Tensor) -> Tensor:
    """Of a type that torch promotes to no other."""
    return x + x.detach().to(torch.float8_e4m3fn).to(torch.float32)


def in_order(_: nn.Module, x: Tensor) -> Tensor:
    return x.contiguous().to(torch.float32).reshape(B, N * N).view(B, N, N)


@pytest.mark.parametrize(
    "inside",
    [
        *(written_to, written_through_a_view, source_written, kept, weights_before),
        *(repeated, compacted, rounded, computed_wider, used_wide_too, by_a_library, in_order),
        *(cloned_by_a_library, packed_for_the_backward_pass, narrowed),
    ],
)
def test_copies_that_a_step_needs_or_does_not_make_are_not_told(inside: Inside) -> None:
    assert found(inside) == ()


def test_only_what_costs_enough_is_told_and_nothing_of_a_compiled_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trainer, ring = trainer_of(cloned), [(torch.randn(B, N, N),)]
    monkeypatch.setattr(copies, "LEAST", 1e-6)
    (told,) = recording.profile(trainer, ring).copies
    assert told.calls == 3
    monkeypatch.setattr(copies, "LEAST", told.self_s * 1e6)
    assert recording.profile(trainer, ring).copies == ()
    monkeypatch.setattr(copies, "LEAST", 1e-6)
    monkeypatch.setattr(compilation, "graphs", lambda: 1)
    assert recording.profile(trainer, ring).copies == ()


def test_a_copy_that_an_operator_makes_of_a_transposed_input_is_found_with_its_line() -> None:
    (copy,) = (copy for copy in found(normed) if copy.kind == "memory_format")
    assert copy.source.endswith(line_of(normed, 1))
    assert copy.what == "group_norm needs its input in another memory format"
    assert copy.self_s > 0
    assert found(normed_in_order) == ()


@pytest.mark.parametrize(
    "workload", ["nanogpt", pytest.param("resnet50", marks=pytest.mark.slow), "unet"]
)
def test_our_own_workloads_make_no_needless_copy(workload: str, tmp_path: Path) -> None:
    context = Context(CPU, tmp_path)
    case = catalog.normalise(Case(workload=workload, preset="tiny"), "cpu")
    trainer = Trainer(session.build(case, context), CPU)
    ring = [trainer.place(batch_source.first(trainer.recipe, 2))]
    copies = recording.observe(trainer, ring)[1].copies
    assert not [copy for copy in copies if copy.kind != "memory_format"], "those torch makes itself"
