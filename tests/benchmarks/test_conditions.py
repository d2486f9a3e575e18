"""What warm-up watches beside the step times."""

import subprocess
import sys

import pytest
import torch

from benchmarks.measure import conditions

CPU = torch.device("cpu")


def test_a_compiled_graph_is_counted() -> None:
    read = conditions.reader(CPU)
    before = read().counters
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    compiled(torch.ones(2))
    assert read().counters[0] == before[0] + 1


@pytest.mark.slow
def test_the_first_compiled_graph_of_a_process_is_counted() -> None:
    code = (
        "import torch; from benchmarks.measure import conditions as c; d = torch.device('cpu');"
        "before = c.reader(d)().counters;"
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2));"
        "after = c.reader(d)().counters; assert after[0] == before[0] + 1, (before, after)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_reading_the_conditions_does_not_load_the_compiler() -> None:
    code = (
        "import sys, torch; from benchmarks.measure import conditions as c;"
        "c.reader(torch.device('cpu'))(); sys.exit('torch._dynamo.utils' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_cpu_has_no_temperature_to_wait_for() -> None:
    assert conditions.reader(CPU)().temperature_c is None


def test_peak_memory_of_a_cpu_is_what_the_process_held() -> None:
    peak_b, reserved_b = conditions.peak_memory(CPU)
    assert peak_b > 10 * 2**20
    assert reserved_b == 0
