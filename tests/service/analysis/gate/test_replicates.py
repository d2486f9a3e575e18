"""Recorded processes as gates take them: equal ones only, each GPU's by itself, in their order."""

import json
from pathlib import Path

import numpy as np
import pytest

from trials.gate import replicates

FIRST, SECOND = "GPU-11111111-aaaa", "GPU-22222222-bbbb"


def line(step_s: float, gpu: str = FIRST, side: str = "A", status: str = "ok") -> str:
    fields = {"name": "unet", "tier": "gate", "side": side, "gpu": gpu, "status": status}
    return json.dumps(fields | ({"step_s": step_s} if status == "ok" else {}))


def recorded(folder: Path, *lines: str) -> dict[str, list[float]]:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return {name: times.tolist() for name, times in replicates.read(file).items()}


def test_each_gpu_has_its_own_and_what_had_more_to_do_is_left_out(tmp_path: Path) -> None:
    lines = line(0.5), line(0.6, SECOND), line(0.7, side="B"), line(0.4), line(0, status="crashed")
    levels = recorded(tmp_path, *lines)
    assert levels == {"unet on GPU-11111111": [0.5, 0.4], "unet on GPU-22222222": [0.6]}


def test_a_file_without_gpus_is_read_by_name(tmp_path: Path) -> None:
    assert recorded(tmp_path, '{"name": "resnet", "ms": 250.0}') == {"resnet": [0.25]}


def test_a_line_without_a_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2 has neither"):
        recorded(tmp_path, line(0.5), '{"name": "unet"}')


def test_neighbours_are_taken_in_their_order() -> None:
    times = np.arange(20.0)
    for some in replicates.in_a_row(times, 200, 10, 14, np.random.default_rng(1)):
        assert 10 <= len(some) <= 14
        assert np.diff(some).tolist() == [1.0] * (len(some) - 1)


def test_few_are_taken_whole() -> None:
    (some,) = replicates.in_a_row(np.arange(6.0), 1, 10, 14, np.random.default_rng(1))
    assert some.tolist() == list(range(6))
