"""Wastes that are planted in a user's own model are found with their line and their seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.contracts import Case, ProcessSpec, Profile, Protocol, Result
from benchmarks.diagnosis import conclude, room
from benchmarks.measure import session
from benchmarks.measure.device import choose
from benchmarks.measure.progress import Reporter
from trials import planted_waste

pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute"),  # of the compiler's own
    pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores"),
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty"),
]
ON_GPU = pytest.mark.gpu
_SHORT = {"window_min_steps": 30, "window_max_s": 3.0, "window_min_s": 0.5, "warmup_min_s": 0.1}
PROTOCOL = Protocol.model_validate({**_SHORT, "settle_max_s": 0.0, "profile": True})


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(tmp_path))


def measured(preset: str, device: str, **axes: str) -> tuple[Result, Profile]:
    case = Case(workload="trials.planted_waste:build", preset=preset, axes=axes)
    spec = ProcessSpec(case=case, protocol=PROTOCOL)
    result = conclude.concluded(session.measure(spec, choose(device), Reporter(None, preset)))
    assert result.replicates, result.reason
    profile = result.replicates[0].profile
    assert profile is not None
    assert not profile.absent
    return result, profile


def line_of(words: str) -> str:
    """Where the planted model says ``words``."""
    text = Path(planted_waste.__file__).read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(text, 1) if words in line]
    return f"planted_waste.py:{found[0]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "preset"), [("cpu", "tiny-break"), pytest.param("cuda", "break", marks=ON_GPU)]
)
def test_a_graph_break_is_told_with_its_line_and_what_runs_outside_of_the_graphs(
    device: str, preset: str
) -> None:
    result, profile = measured(preset, device, compile="default")
    compilation = result.replicates[0].compilation
    assert compilation is not None
    reasons = [one for one in compilation.breaks if line_of("graph_break()") in one]
    assert len(reasons) == 1
    assert profile.step_s is not None
    assert profile.uncaptured_host_s is not None
    assert profile.uncaptured_idle_s is not None
    assert 0 <= profile.uncaptured_idle_s < profile.step_s
    assert profile.uncaptured_host_s > 0
    assert profile.uncaptured_s > 0.02 * profile.step_s, "products, eagerly"


@pytest.mark.gpu
def test_of_a_compiled_step_without_a_break_nothing_of_the_device_runs_outside() -> None:
    _, profile = measured("clean", "cuda", compile="default")
    assert profile.uncaptured_s == 0.0


@pytest.mark.gpu
@pytest.mark.parametrize(
    "axes",
    [
        {"compile": "default"},
        {"compile": "default", "graphs": "on"},
        {"compile": "reduce-overhead"},
    ],
)
def test_a_fused_kernel_tells_the_bytes_that_it_moves(axes: dict[str, str]) -> None:
    """The ReLU of [64, 1024, 1024] floats; its forward reads and writes them, or more."""
    _, profile = measured("clean", "cuda", **axes)
    fused = [one for one in profile.operations if one.name.startswith("triton_poi")]
    assert fused
    for one in fused:
        assert one.moved_b is not None
        least_b = 64 * 1_024 * 1_024 * 4
        assert least_b < one.moved_b / one.calls < 8 * least_b
        assert 1e12 < one.moved_b / one.self_s < 4.8e12, "as fast as its memory, and no faster"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "preset"), [("cpu", "tiny"), pytest.param("cuda", "wait", marks=ON_GPU)]
)
def test_a_wait_every_tenth_step_is_told_so(device: str, preset: str) -> None:
    _, profile = measured(preset, device)
    (wait,) = profile.synchronizations
    assert wait.source.endswith(line_of("loss.item()"))
    assert (wait.every, wait.calls) == (10, 1)


@pytest.mark.gpu
def test_a_wait_that_only_cuda_knows_of_is_told_with_its_line() -> None:
    _, profile = measured("hidden", "cuda")
    waits = {(wait.what, wait.source.rpartition("/")[2]) for wait in profile.synchronizations}
    assert ("a call that waits for the device", line_of("torch.bincount(")) in waits


@pytest.mark.gpu
def test_fragments_are_told_as_memory_that_is_held_and_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "FULL", 0.05)  # as on a device that this model nearly fills
    result, profile = measured("fragments", "cuda")
    assert profile.memory is not None
    assert profile.memory.fragmentation > 0.1
    assert result.verdict is not None
    assert ("allocator", "expandable") in {
        (one.axis, one.value) for one in result.verdict.suggestions
    }


@pytest.mark.gpu
def test_a_module_that_works_twice_takes_twice_as_long_as_its_neighbour() -> None:
    _, profile = measured("module", "cuda")
    assert profile.layers is not None
    seconds = {one.name: one.forward_s + one.backward_s for one in profile.layers.modules}
    slow, other = (seconds[f"blocks.{n}.product"] for n in (planted_waste.SLOW, 5))
    assert 1.8 < slow / other < 2.2
