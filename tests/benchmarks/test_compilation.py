"""What the compiler did is told by its own counters."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.contracts import Compilation
from benchmarks.measure import compilation


@pytest.fixture(autouse=True)
def _a_compiler_that_has_done_nothing() -> Iterator[None]:
    forget()
    yield
    forget()


def line_of(words: str) -> str:
    """Where this file says ``words`` first."""
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(text, 1) if words in line)
    return f"{Path(__file__).name}:{place}"


def forget() -> None:
    """Let the compiler of this process have done nothing, whatever other tests compiled."""
    from torch._dynamo.utils import clear_compilation_metrics, counters  # seconds to import

    torch._dynamo.reset()
    counters.clear()
    clear_compilation_metrics()


def test_a_whole_graph_has_no_breaks_and_no_recompiles() -> None:
    torch.compile(lambda x: x.sin().cos(), backend="eager")(torch.zeros(3))
    assert compilation.read() == Compilation(graphs=1)


def test_a_break_is_told_with_its_reason() -> None:
    def reads_a_number(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > 0 else x * 3

    torch.compile(reads_a_number, backend="eager")(torch.ones(3))
    compiled = compilation.read()
    assert compiled is not None
    assert compiled.graphs == 2
    (reason,) = compiled.breaks
    assert ".item()" in reason
    assert "\n" not in reason
    assert reason.endswith(line_of("x.sum().item()"))


def test_a_new_shape_is_told_as_a_recompile_with_the_guard_that_failed() -> None:
    doubled = torch.compile(lambda x: x * 2, backend="eager")
    for size in (3, 4):
        doubled(torch.zeros(size))
    compiled = compilation.read()
    assert compiled is not None
    assert sum(compiled.recompiles.values()) == 1
    (reason,) = compiled.recompiles
    assert "size mismatch" in reason
    assert reason.endswith(line_of("torch.compile(lambda x: x * 2"))


def test_nothing_compiled_is_told_as_nothing() -> None:
    assert compilation.read() is None


def test_equal_reasons_are_counted_together_and_odd_ones_do_not_fail() -> None:
    metrics = [
        SimpleNamespace(compile_id=name, recompile_reason=reason)
        for name, reason in (
            ("0/0", None),
            ("0/0_1", None),  # the same compilation, restarted
            ("0/1", None),  # an event of the compilation that the next one tells the reason of
            ("0/1", "0/0: size mismatch"),
            ("0/1", None),  # its backward pass
            ("3/2", "3/1: size mismatch"),
            ("!0/1", None),
            (None, None),
        )
    ]
    assert compilation._again(metrics) == {"size mismatch": 2, "no reason given": 1}
    assert compilation._counted({"\n\tA\n  hint": 1, "A": 2, "": 1}) == {
        "A": 3,
        "no reason given": 1,
    }
