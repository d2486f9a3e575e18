"""Each reader gives the values of its fixture, bit for bit; every expectation is written out."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from benchmarks.contracts import Direction
from cli.formats import read
from cli.formats.format import FormatRead
from service.schemas.measured_elsewhere import ForeignPoint

FIXTURES = Path(__file__).parents[2] / "fixtures" / "formats"
LOWER, HIGHER = Direction.LOWER, Direction.HIGHER


def rows(found: FormatRead) -> list[tuple[object, ...]]:
    return [
        (p.benchmark, p.parameters, p.metric, p.unit, p.direction, p.values) for p in found.points
    ]


def shared(found: FormatRead, part: str) -> object:
    """What all points say of ``part``."""
    first, *others = (getattr(point, part) for point in found.points)
    assert all(other == first for other in others)
    return first


def bounds(points: tuple[ForeignPoint, ...]) -> list[tuple[float | None, float | None]]:
    return [(point.low, point.high) for point in points]


def test_pytest_benchmark_with_its_rounds() -> None:
    found = read(FIXTURES / "pytest-benchmark.json")
    file = "test_sort.py::"
    assert found.format == "pytest-benchmark"
    assert rows(found) == [
        (
            file + "test_sort",
            {"size": "10"},
            "time",
            "s",
            LOWER,
            (1.1056996299885214e-07, 1.0996998753398657e-07, 1.0966999980155379e-07),
        ),
        (
            file + "test_sort",
            {"size": "1000"},
            "time",
            "s",
            LOWER,
            (3.1800009310245514e-06, 3.1244999263435602e-06, 3.1495001167058945e-06),
        ),
        (
            file + "test_join",
            {"kind": "list", "size": "7"},
            "time",
            "s",
            LOWER,
            (7.711998478043825e-08, 7.691996870562434e-08, 7.672002539038658e-08),
        ),
        (
            file + "test_join",
            {"kind": "null", "size": "7"},
            "time",
            "s",
            LOWER,
            (7.78100366005674e-08, 7.641996489837766e-08, 7.641996489837766e-08),
        ),
        (
            file + "test_plain",
            {},
            "time",
            "s",
            LOWER,
            (6.039001164026559e-08, 6.059002771507949e-08, 6.039001164026559e-08),
        ),
    ]
    assert shared(found, "revision") == "32f634050bb98766daa83e5fd95ee4e6e55c473f"
    assert shared(found, "at") == datetime(2026, 11, 27, 19, 26, 34, 780533, tzinfo=UTC)
    assert shared(found, "committed_at") == datetime(2026, 11, 20, 10, tzinfo=UTC)
    machine = found.points[0].machine
    assert machine["node"] == "bench-1"
    assert machine["cpu.brand_raw"] == "AMD EPYC"
    assert machine["python_build"] == '["main", "May  9 2026 07:35:25"]'
    assert not [key for key in machine if "hz_actual" in key], "it differs from run to run"


def test_pytest_benchmark_without_its_rounds_has_the_median() -> None:
    found = read(FIXTURES / "pytest-benchmark-without-data.json")
    assert [point.values for point in found.points] == [
        (1.0875995940295979e-07,),
        (3.2850002753548324e-06,),
        (7.1005015342962e-08,),
        (7.125498086679726e-08,),
        (5.8739969972521066e-08,),
    ]


SORT = "30b0af97a014d8015086e213fd056ed4cd31fc24c0deb13e933edc19c210c2a2"


@pytest.mark.parametrize("path", ["asv", "asv/bench-1/32f63405-existing-py_usr_bin_python3.json"])
def test_asv(path: str) -> None:
    found = read(FIXTURES / path)
    assert found.format == "asv"
    assert found.notes == ("2 failed", "1 skipped by the tool")
    plain = "ec0721f8abd7b4fec10fc67345780414b01eae428419646f8b3feedc4d1eda48"
    memory = "537d2234ec7d60c7c15b448e180f749c71756ab29a4be24fa07236443ba298b3"
    peak = "459e57b3748cf66af64198bfb51a842424afbaf63080221d7b74be5b89d054f3"
    accuracy = "c1c80f0b40e52a15678d84e323795ce1b98b6071c27881139ff9f420f4e761c7"
    size = "71b9688d186573bd14616aa02ebc799c6b0f3fd11b4a30e567a6a67a2409cd36"
    assert rows(found) == [
        (
            "suite.Sorting.time_sort",
            {"size": "10", "kind": "'list'", "asv version": SORT},
            "time",
            "s",
            LOWER,
            (2.034001227002591e-06, 8.110000635497272e-07, 5.710026016458869e-07),
        ),
        (
            "suite.Sorting.time_sort",
            {"size": "1000", "kind": "'list'", "asv version": SORT},
            "time",
            "s",
            LOWER,
            (5.247995432000607e-06, 3.966000804211944e-06, 3.4759941627271473e-06),
        ),
        ("suite.mem_list", {"asv version": memory}, "memory", "B", LOWER, (2104.0,)),
        ("suite.peakmem_list", {"asv version": peak}, "peakmemory", "B", LOWER, (36184064.0,)),
        (
            "suite.time_plain",
            {"asv version": plain},
            "time",
            "s",
            LOWER,
            (
                1.4120014384388924e-06,
                6.759983079973608e-07,
                8.964998414739966e-07,
                9.260002116207033e-07,
            ),
        ),
        ("suite.track_accuracy", {"asv version": accuracy}, "track", "unit", HIGHER, (0.75,)),
        ("suite.track_size", {"asv version": size}, "track", "objects", LOWER, (42.0,)),
    ]
    assert bounds(found.points[:3]) == [
        (-2.3399e-06, 4.6173e-06),
        (1.0426e-07, 8.3557e-06),
        (None, None),
    ]
    assert shared(found, "revision") == "32f634050bb98766daa83e5fd95ee4e6e55c473f"
    assert shared(found, "committed_at") == datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert found.points[0].at == datetime(2026, 11, 27, 19, 26, 35, 414000, tzinfo=UTC)
    assert shared(found, "machine") == {
        "machine": "bench-1",
        "python": "/usr/bin/python3",
        "env_name": "existing-py_usr_bin_python3",
    }


def test_google_benchmark_reads_repetitions_and_no_aggregates() -> None:
    found = read(FIXTURES / "google-benchmark.json")
    assert found.format == "google-benchmark"
    assert found.notes == ("1 failed",)
    small, large = "BM_Sort/8/repeats:3", "BM_Sort/512/repeats:3"
    assert rows(found) == [
        (
            small,
            {},
            "real_time",
            "us",
            LOWER,
            (0.026320717096754688, 0.026466634063451837, 0.026197529367514516),
        ),
        (
            small,
            {},
            "cpu_time",
            "us",
            LOWER,
            (0.026320877597803553, 0.026378953589812345, 0.026197784290251557),
        ),
        (
            small,
            {},
            "items_per_second",
            "",
            HIGHER,
            (303941233.3526292, 303272075.3218062, 305369336.2524889),
        ),
        (small, {}, "swaps", "", LOWER, (3.0, 3.0, 3.0)),
        (
            large,
            {},
            "real_time",
            "us",
            LOWER,
            (1.299683448504133, 1.2941198695129417, 1.2960723058959058),
        ),
        (
            large,
            {},
            "cpu_time",
            "us",
            LOWER,
            (1.299696394322977, 1.2941289796701192, 1.296077675489068),
        ),
        (
            large,
            {},
            "items_per_second",
            "",
            HIGHER,
            (393938155.2771832, 395632899.0720165, 395038051.8720065),
        ),
        (large, {}, "swaps", "", LOWER, (3.0, 3.0, 3.0)),
        ("BM_Plain", {}, "real_time", "ns", LOWER, (0.24535185635435344,)),
        ("BM_Plain", {}, "cpu_time", "ns", LOWER, (0.24535430262965116,)),
    ]
    assert shared(found, "at") == datetime(2026, 11, 27, 19, 26, 37, tzinfo=UTC)
    machine = found.points[0].machine
    assert (machine["host_name"], machine["num_cpus"]) == ("bench-1", "2")
    assert "load_avg" not in machine, "it differs from run to run"


def test_google_benchmark_with_aggregates_alone_has_the_median_as_its_one_figure() -> None:
    found = read(FIXTURES / "google-benchmark-aggregates.json")
    assert [(point.metric, point.values) for point in found.points] == [
        ("real_time", (0.025710108558223446,)),
        ("cpu_time", (0.025710283593859393,)),
        ("items_per_second", (311159539.3646575,)),
        ("swaps", (3.0,)),
    ]


def test_google_benchmark_with_aggregates_of_one_benchmark_alone(tmp_path: Path) -> None:
    document = json.loads((FIXTURES / "google-benchmark.json").read_text(encoding="utf-8"))
    document["benchmarks"] = [
        row
        for row in document["benchmarks"]
        if row["run_type"] == "aggregate" or row["run_name"] != "BM_Sort/512/repeats:3"
    ]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    found = {(point.benchmark, point.metric): point.values for point in read(path).points}
    assert len(found["BM_Sort/8/repeats:3", "real_time"]) == 3
    assert found["BM_Sort/512/repeats:3", "real_time"] == (1.2960723058959058,)


def test_hyperfine() -> None:
    found = read(FIXTURES / "hyperfine.json")
    assert found.format == "hyperfine"
    assert rows(found)[:4] == [
        (
            "seq 1",
            {"n": "1"},
            "time",
            "s",
            LOWER,
            (0.0008638760000000001, 0.000782764, 0.001004316, 0.001453174),
        ),
        ("seq 1", {"n": "1"}, "user time", "s", LOWER, (0.000549,)),
        ("seq 1", {"n": "1"}, "system time", "s", LOWER, (0.00019275,)),
        (
            "true",
            {"n": "1"},
            "time",
            "s",
            LOWER,
            (0.001508261, 0.000535052, 0.004579185, 0.000583305),
        ),
    ]
    assert len(found.points) == 12


def test_hyperfine_says_that_a_command_failed() -> None:
    found = read(FIXTURES / "hyperfine-failed.json")
    assert found.notes == ("1 with exit codes other than 0",)
    assert found.points[0].values == (0.001063841, 0.001082983, 0.000617059)


def test_criterion_divides_times_by_iterations_and_reads_no_base() -> None:
    found = read(FIXTURES / "criterion")
    assert found.format == "criterion"
    assert [row[:5] for row in rows(found)] == [
        ("plain", {}, "time", "ns", LOWER),
        ("sort/reversed", {"value": "64"}, "time", "ns", LOWER),
        ("sort/reversed", {"value": "8"}, "time", "ns", LOWER),
    ]
    assert found.points[2].values == (
        883224.0 / 53592.0,
        6264983.0 / 107184.0,
        6675759.0 / 160776.0,
        3534489.0 / 214368.0,
        12516965.0 / 267960.0,
        9403208.0 / 321552.0,
        11743273.0 / 375144.0,
        11336786.0 / 428736.0,
        16262260.0 / 482328.0,
        17102521.0 / 535920.0,
    )
    assert bounds(found.points)[2] == (28.20669286336152, 35.64724614146201)


def test_jmh() -> None:
    found = read(FIXTURES / "jmh.json")
    assert found.format == "jmh"
    name, two = "org.example.Sorting.sort", {"size": "1000", "threads": "2"}
    assert rows(found) == [
        (
            name,
            two,
            "thrpt",
            "ops/s",
            HIGHER,
            (3524193.125, 3531314.5, 3440045.25, 3474972.125),
        ),
        (name, two, "gc.alloc.rate", "MB/sec", LOWER, (800.5, 824.5)),
        (name, {"threads": "1"}, "sample", "s/op", LOWER, (0.0003125,)),
    ]
    assert bounds(found.points) == [(3369067.5, 3566194.5), (None, None), (0.000311, 0.000314)]
    assert shared(found, "machine") == {
        "jmhVersion": "1.37",
        "jdkVersion": "21.0.5",
        "vmName": "OpenJDK 64-Bit Server VM",
        "vmVersion": "21.0.5+11",
    }


def test_github_action_benchmark() -> None:
    found = read(FIXTURES / "github-action-benchmark.js")
    assert found.format == "github-action-benchmark"
    go = "Go Benchmark/BenchmarkSort-8"
    assert rows(found) == [
        (go, {}, "value", "ns/op", LOWER, (254.5, 255.0)),
        (go, {}, "value", "ns/op", LOWER, (199.25,)),
        (
            "Python Benchmark/bench.py::test_sort",
            {},
            "value",
            "iter/sec",
            HIGHER,
            (59573.92304802095,),
        ),
    ]
    first = found.points[0]
    assert first.revision == "45d78258e495044a551046f50604da3c893052ce"
    assert first.at == datetime(2025, 11, 24, 16, 2, 20, 323000, tzinfo=UTC)
    tokyo = timezone(timedelta(hours=9))
    assert first.committed_at == datetime(2026, 11, 10, 0, 6, 58, tzinfo=tokyo)


def test_github_action_benchmark_kept_as_json(tmp_path: Path) -> None:
    text = (FIXTURES / "github-action-benchmark.js").read_text(encoding="utf-8")
    path = tmp_path / "data.json"
    path.write_text(text.removeprefix("window.BENCHMARK_DATA = "), encoding="utf-8")
    assert read(path).points == read(FIXTURES / "github-action-benchmark.js").points


def test_bmf() -> None:
    found = read(FIXTURES / "bmf.json")
    assert found.format == "bmf"
    assert rows(found) == [
        ("sort a list", {}, "latency", "", LOWER, (88.0,)),
        ("sort a list", {}, "throughput", "", HIGHER, (5.55,)),
        ("/bin/sh -c ./build.sh", {}, "build-time", "", LOWER, (87.0,)),
    ]
    assert bounds(found.points) == [(87.42, 88.88), (3.14, 6.3), (None, None)]


def test_torchbench() -> None:
    found = read(FIXTURES / "torchbench.json")
    assert found.format == "torchbench"
    assert found.notes == ("1 without a number",)
    llama = {"model": "llama", "test": "eval", "device": "cuda"}
    assert rows(found) == [
        (
            "test_bench",
            {**llama, "extra_args": "['--amp', '--fuser=x']"},
            "latencies",
            "",
            LOWER,
            (4.101454,),
        ),
        (
            "test_bench",
            {**llama, "bs": "8", "extra_args": "[]"},
            "tflops",
            "",
            HIGHER,
            (61.25,),
        ),
        ("test_bench", {}, "resnet50-eval_latency", "", LOWER, (295.00577799999996,)),
    ]
    assert shared(found, "revision") == "2d9a7eec9ccc362e00d2fd2b4b845d3f90d955aa"
    assert shared(found, "machine") == {
        "metrics_version": "v0.1",
        "pytorch_version": "2.13.0",
        "device": "NVIDIA H100",
    }


def test_pytorch_v3() -> None:
    found = read(FIXTURES / "pytorch-v3.json")
    assert found.format == "pytorch-v3"
    assert found.notes == ("1 without a number",)
    assert rows(found) == [
        (
            "micro-benchmark",
            {
                "mode": "inference",
                "dtype": "int8wo",
                "model": "1024-1024-1024",
                "model.type": "custom layer",
                "model.backend": "inductor",
                "device": "cuda",
                "args.batch_size": "8",
                "args.compile": "true",
            },
            "speedup(wrt bf16)",
            "",
            HIGHER,
            (1.25, 1.375, 1.0),
        ),
        (
            "vLLM benchmark",
            {"model": "llama", "args.tensor_parallel_size": "2"},
            "latency",
            "",
            LOWER,
            (0.5,),
        ),
    ]
    first = found.points[0]
    assert first.revision == "2d9a7eec9ccc362e00d2fd2b4b845d3f90d955aa"
    assert first.at == datetime(2025, 11, 24, 16, 0, 5, tzinfo=UTC)
    assert first.machine == {
        "name": "linux.aws.h100",
        "type": "cuda",
        "gpu_info": "NVIDIA H100",
        "gpu_count": "1",
        "driver": "570.1",
        "dependencies.ao.repo": "pytorch/ao",
        "dependencies.ao.sha": "abc123",
    }


def test_mlperf() -> None:
    found = read(FIXTURES / "mlperf.log")
    assert found.format == "mlperf"
    settings = {"global_batch_size": "3264", "opt_name": "lars", "opt_base_learning_rate": "10.5"}
    assert rows(found) == [
        ("resnet", settings, "time to train", "ms", LOWER, (1764000200456.0 - 1764000005123.0,)),
        ("resnet", settings, "eval_accuracy", "", HIGHER, (0.759,)),
        ("resnet", settings, "throughput", "", HIGHER, (2500.5, 2510.25, 2505.0)),
    ]
    assert shared(found, "at") == datetime(2025, 11, 24, 16, 0, 5, 123000, tzinfo=UTC)
    assert shared(found, "machine") == {
        "submission_platform": "8xH100",
        "submission_org": "An Organisation",
        "submission_division": "closed",
        "submission_status": "onprem",
    }


def test_csv_written_by_hand() -> None:
    found = read(FIXTURES / "points.csv")
    assert found.format == "csv"
    assert rows(found) == [
        ("sort", {"size": "10"}, "time", "ms", LOWER, (1.25,)),
        ("sort", {"size": "1000"}, "time", "ms", LOWER, (0.1,)),
        ("sort", {}, "throughput", "items/s", HIGHER, (12000.0,)),
    ]
    assert [point.revision for point in found.points] == ["v1.0", "v1.0", "v1.1"]
    assert found.points[2].at == datetime(2026, 11, 21, 0, 2, 3, tzinfo=UTC)


def test_a_point_with_more_samples_than_fit_keeps_evenly_spread_ones(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    values = " ".join(str(number) for number in range(25_000))
    path.write_text(f"benchmark,metric,unit,values\nsort,time,s,{values}\n", encoding="utf-8")
    found = read(path)
    assert found.points[0].values == tuple(float(number) for number in range(0, 25_000, 3))
    assert found.notes == (
        "1 with more than 10,000 samples, of which evenly spread ones were kept",
    )
