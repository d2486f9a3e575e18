"""A long history is read in seconds, and row by row."""

import json
import time
import tracemalloc
from pathlib import Path

import pytest

from cli.formats import begin, read
from cli.staging import Staging

ROWS = 20_000
POINT = {"benchmark": "b" * 100, "metric": "time", "unit": "s", "values": [1.5]}


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_hundreds_of_points_a_commit_are_read_in_seconds(tmp_path: Path, count: int) -> None:
    commits = [
        {
            "commit": {"id": f"{number:040x}", "timestamp": "2026-11-10T00:06:58+09:00"},
            "date": 1764000000000 + number,
            "tool": "go",
            "benches": [{"name": f"B{n}", "value": 1.5, "unit": "ns/op"} for n in range(100)],
        }
        for number in range(count)
    ]
    document = {"lastUpdate": 1, "repoUrl": "", "entries": {"Go": commits}}
    path = tmp_path / "data.js"
    path.write_text(f"window.BENCHMARK_DATA = {json.dumps(document)}", encoding="utf-8")
    began_s = time.process_time()
    found = read(path)
    assert len(found.points) == 100 * count
    assert time.process_time() - began_s < 10, "2 s on an idle machine"


@pytest.mark.parametrize("kind", ["csv", pytest.param("jsonl", marks=pytest.mark.slow)])
def test_rows_of_a_long_file_are_never_in_memory_together(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"long.{kind}"
    with path.open("w", encoding="utf-8") as file:
        if kind == "csv":
            file.write("benchmark,metric,unit,values,revision,direction\n")
        for number in range(ROWS):
            row = POINT | {"revision": f"{number:040x}", "direction": "lower"}
            if kind == "csv":
                file.write(f"{row['benchmark']},time,s,1.5,{row['revision']},lower\n")
            else:
                file.write(f"{json.dumps(row)}\n")
    tracemalloc.start()
    try:
        with Staging(begin(path).points) as staged:
            sent = sum(1 for _ in staged.in_order())
        _, peak_b = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sent == ROWS
    assert peak_b < path.stat().st_size / 2, "of one point in Python there are some 3 kB"
