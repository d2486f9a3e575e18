"""The table of formats, in the order in which a file is held against them.

Those of lines come before those that are one JSON document, which is parsed whole.
"""

from __future__ import annotations

from typing import Final

from cli.formats import (
    asv,
    bmf,
    criterion,
    csv_file,
    github_action,
    google_benchmark,
    hyperfine,
    jmh,
    json_lines,
    mlperf,
    parquet,
    pytest_benchmark,
    pytorch_v3,
    torchbench,
)
from cli.formats.format import Format, Loss

_COMMIT: Final = frozenset({Loss.REVISION, Loss.COMMIT_TIME})
_GUESSED: Final = frozenset({Loss.UNIT, Loss.DIRECTION})
_DIRECTION: Final = frozenset({Loss.DIRECTION})
_ROW: Final = "a first line with `benchmark`, `metric` and `values`"
_NO_BMF: Final = frozenset(Loss) - {Loss.METRIC, Loss.BOUNDS}

FORMATS: Final = (
    Format("parquet", "Parquet", "begins with `PAR1`", parquet, writer=parquet.write),
    Format(
        "criterion",
        "Criterion.rs",
        "a folder with `new/estimates.json` below it, as `target/criterion`",
        criterion,
        silent=_COMMIT | {Loss.TIME, Loss.MACHINE},
    ),
    Format("csv", "CSV", _ROW, csv_file, writer=csv_file.write),
    Format(
        "mlperf", "MLPerf log", "a line with `:::MLLOG`", mlperf, _COMMIT | _GUESSED | {Loss.BOUNDS}
    ),
    Format("jsonl", "JSON lines", _ROW, json_lines, writer=json_lines.write),
    Format(
        "pytorch-v3",
        "PyTorch OSS benchmark v3",
        "records with `benchmark`, and `metric` with `benchmark_values`",
        pytorch_v3,
        silent=_GUESSED | {Loss.BOUNDS, Loss.COMMIT_TIME},
        writer=pytorch_v3.write,
    ),
    Format(
        "asv", "asv", "a folder with `benchmarks.json`, or a result file in it", asv, _DIRECTION
    ),
    Format(
        "github-action-benchmark",
        "github-action-benchmark",
        "`window.BENCHMARK_DATA =`, or `lastUpdate` with `entries`",
        github_action,
        silent=frozenset({Loss.PARAMETERS, Loss.METRIC, Loss.BOUNDS, Loss.MACHINE}),
    ),
    Format(
        "pytest-benchmark",
        "pytest-benchmark",
        "`machine_info` with `benchmarks`",
        pytest_benchmark,
        silent=frozenset({Loss.BOUNDS}),
        writer=pytest_benchmark.write,
        loses=frozenset({Loss.METRIC, Loss.BOUNDS}),
    ),
    Format(
        "google-benchmark",
        "Google Benchmark",
        "`context` with `benchmarks`",
        google_benchmark,
        silent=_COMMIT | _GUESSED | {Loss.PARAMETERS, Loss.BOUNDS},
    ),
    Format(
        "hyperfine",
        "hyperfine",
        "`results` that have a `command`",
        hyperfine,
        silent=_COMMIT | {Loss.BOUNDS, Loss.TIME, Loss.MACHINE},
    ),
    Format("jmh", "JMH", "a list with `primaryMetric`", jmh, _COMMIT | {Loss.DIRECTION, Loss.TIME}),
    Format(
        "torchbench",
        "TorchBench userbenchmark",
        "`name`, `environ` and `metrics`",
        torchbench,
        silent=_GUESSED | {Loss.SAMPLES, Loss.BOUNDS, Loss.TIME, Loss.COMMIT_TIME},
    ),
    Format(
        "bmf",
        "Bencher Metric Format",
        "benchmarks of measures that have a `value`",
        bmf,
        silent=_NO_BMF,
        writer=bmf.write,
        loses=_NO_BMF,
    ),
)
