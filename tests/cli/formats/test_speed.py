"""A long history is read in seconds."""

import json
import time
from pathlib import Path

from cli.formats import read


def test_100_000_points_are_read_in_seconds(tmp_path: Path) -> None:
    commits = [
        {
            "commit": {"id": f"{number:040x}", "timestamp": "2026-11-10T00:06:58+09:00"},
            "date": 1764000000000 + number,
            "tool": "go",
            "benches": [{"name": f"B{n}", "value": 1.5, "unit": "ns/op"} for n in range(100)],
        }
        for number in range(1000)
    ]
    document = {"lastUpdate": 1, "repoUrl": "", "entries": {"Go": commits}}
    path = tmp_path / "data.js"
    path.write_text(f"window.BENCHMARK_DATA = {json.dumps(document)}", encoding="utf-8")
    began_s = time.process_time()
    found = read(path)
    assert len(found.points) == 100_000
    assert time.process_time() - began_s < 10, "2 s on an idle machine"
