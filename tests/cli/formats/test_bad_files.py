"""Every bad file is refused by one sentence with its name and place, and nothing is half read."""

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy, copytree

import pytest

from cli.formats import FORMATS, FormatError, read, write
from cli.formats import parquet as parquet_module

FIXTURES = Path(__file__).parents[2] / "fixtures" / "formats"
JSON_FILES = [*sorted(path.name for path in FIXTURES.glob("*.json")), "github-action-benchmark.js"]


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """What `read` says of a file with this content, after the file's name."""

    def refuse(content: str | bytes, name: str = "run.json", kind: str | None = None) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return sentence(path, kind)

    return refuse


def sentence(path: Path, kind: str | None = None) -> str:
    with pytest.raises(FormatError) as caught:
        read(path, kind)
    said = caught.value.sentence
    assert str(caught.value) == said
    assert said.endswith(".")
    assert "\n" not in said
    assert said.startswith(f"{path}: ") or str(path) in said
    return said.removeprefix(f"{path}: ")


def edited(name: str, change: Callable[[dict[str, object]], object]) -> str:
    document = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    change(document)
    return json.dumps(document)


def test_no_such_file(tmp_path: Path) -> None:
    assert sentence(tmp_path / "gone.json") == "there is no such file."


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    assert sentence(tmp_path) == "is in no format known here: docs/formats.md lists them."


@pytest.mark.parametrize("content", ["", "hello\n", "a,b\n1,2\n", "{}", "[]", '{"a": 1}', "3"])
def test_content_of_no_format(content: str, refused: Callable[..., str]) -> None:
    assert refused(content) == "is in no format known here: docs/formats.md lists them."


def test_bytes_that_are_no_text(refused: Callable[..., str]) -> None:
    assert refused(b"ab\xff\x00") == "byte 2: is no text in UTF-8."


def test_bytes_that_are_no_text_far_inside_a_table(refused: Callable[..., str]) -> None:
    head, row = b"\xef\xbb\xbfbenchmark,metric,value,revision\n", b"sort,time,1,v%05d\n"
    content = head + b"".join(row % number for number in range(5_000))
    assert (
        refused(content + b"\xe9t\xe9,time,1,v\n") == f"byte {len(content)}: is no text in UTF-8."
    )
    assert refused(content + b"\xc3") == f"byte {len(content)}: is no text in UTF-8."


@pytest.mark.parametrize("name", JSON_FILES)
def test_a_json_file_that_was_cut_off(name: str, refused: Callable[..., str]) -> None:
    content = (FIXTURES / name).read_bytes().rstrip()
    for share in range(1, 20):
        said = refused(content[: 30 + (len(content) - 31) * share // 19], name)
        assert said.endswith("the file ends in the middle: it was cut off."), said
        assert said.startswith("line "), "the place"


def test_a_log_that_was_cut_off(refused: Callable[..., str]) -> None:
    lines = (FIXTURES / "mlperf.log").read_text(encoding="utf-8").splitlines()
    assert refused("\n".join(lines[:-1])) == "has no run_stop: the log was cut off."
    assert refused("\n".join([*lines[:-1], lines[-1][:60]])) == (
        "line 25, column 54: the file ends in the middle: it was cut off."
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The points of pytest-benchmark's fixture in the formats of rows."""
    points = read(FIXTURES / "pytest-benchmark.json").points
    packed = {}
    for name in ("csv", "jsonl", "parquet"):
        stream = io.BytesIO()
        write(points, name, stream)
        packed[name] = stream.getvalue()
    return packed


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_csv_that_was_cut_off_within_a_row(
    table: dict[str, bytes], refused: Callable[..., str], every: int
) -> None:
    content = table["csv"]
    last = content.rstrip().rindex(b"\n") + 1
    for end in range(last + 1, len(content) - 1, every):
        said = refused(content[:end])
        assert said.startswith("line 6"), content[last:end]


def test_parquet_that_was_cut_off(table: dict[str, bytes], refused: Callable[..., str]) -> None:
    content = table["parquet"]
    for end in range(4, len(content), 97):
        assert refused(content[:end], "t.parquet").startswith("is no whole Parquet file (")


def test_json_lines_that_were_cut_off(table: dict[str, bytes], refused: Callable[..., str]) -> None:
    assert refused(table["jsonl"][:-40], "t.jsonl").startswith("line 5, column ")


def test_mixed_units(refused: Callable[..., str]) -> None:
    assert (
        refused("benchmark,metric,unit,value,revision\nsort,time,ms,1,a\nsort,time,s,1,b\n")
        == "sort: 'time' is in 'ms' and in 's': one unit is needed."
    )


def test_two_documents_in_one_file(refused: Callable[..., str]) -> None:
    content = (FIXTURES / "hyperfine.json").read_text(encoding="utf-8")
    assert refused(content + content) == (
        f"line {content.count(chr(10)) + 1}, column 1: a second document begins here: "
        "keep each run in a file of its own."
    )
    minified = json.dumps(json.loads(content))
    assert refused(f"{minified}\n{minified}\n").startswith("line 2, column 1: a second document")


def test_two_runs_of_google_benchmark_in_one_document(refused: Callable[..., str]) -> None:
    def twice(document: dict[str, object]) -> None:
        rows = document["benchmarks"]
        assert isinstance(rows, list)
        document["benchmarks"] = rows + rows

    assert refused(edited("google-benchmark.json", twice)) == (
        "benchmarks[16]: is there twice: keep each run in a file of its own."
    )


def test_two_runs_of_pytest_benchmark_in_one_document(refused: Callable[..., str]) -> None:
    def twice(document: dict[str, object]) -> None:
        rows = document["benchmarks"]
        assert isinstance(rows, list)
        rows.append(rows[0])

    assert refused(edited("pytest-benchmark.json", twice)) == (
        "test_sort.py::test_sort: 'time' is there twice for one run: two runs need two files, "
        "or their times."
    )


def test_two_runs_in_one_log(refused: Callable[..., str]) -> None:
    log = (FIXTURES / "mlperf.log").read_text(encoding="utf-8")
    assert refused(log + log) == (
        "line 26: is a second submission_benchmark: keep each run in a file of its own."
    )


def test_two_files_of_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "asv"
    copytree(FIXTURES / "asv", folder)
    (file,) = (path for path in (folder / "bench-1").iterdir() if path.name != "machine.json")
    copy(file, file.with_name("copy.json"))
    said = sentence_of_folder(folder)
    assert said == f"{folder}/bench-1/copy.json: is of the same run as {file}: remove one."


def sentence_of_folder(folder: Path) -> str:
    with pytest.raises(FormatError) as caught:
        read(folder)
    return caught.value.sentence


def test_a_benchmark_that_asv_no_longer_has_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "asv"
    copytree(FIXTURES / "asv", folder)
    declared = json.loads((folder / "benchmarks.json").read_text(encoding="utf-8"))
    del declared["suite.Sorting.time_sort"]
    (folder / "benchmarks.json").write_text(json.dumps(declared), encoding="utf-8")
    found = read(folder)
    assert len(found.points) == 5
    assert found.notes == ("1 failed", "1 in benchmarks.json no more")


def test_a_changed_version_of_asv_begins_another_benchmark(tmp_path: Path) -> None:
    folder = tmp_path / "asv"
    copytree(FIXTURES / "asv", folder)
    (file,) = (path for path in (folder / "bench-1").iterdir() if path.name != "machine.json")
    later = file.read_text(encoding="utf-8")
    later = later.replace("32f634050bb9", "0123456789ab").replace("c1c80f0b40e5", "ffffffffffff")
    file.with_name("later.json").write_text(later, encoding="utf-8")
    versions = {
        point.revision: point.parameters["asv version"][:12]
        for point in read(folder).points
        if point.benchmark == "suite.track_accuracy"
    }
    assert versions == {
        "32f634050bb98766daa83e5fd95ee4e6e55c473f": "c1c80f0b40e5",
        "0123456789ab8766daa83e5fd95ee4e6e55c473f": "ffffffffffff",
    }


@pytest.mark.parametrize("name", ["huge.json", "huge.csv", "huge.parquet"])
def test_a_gigabyte_is_refused_before_it_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(2**30)
    began_s = time.monotonic()
    assert sentence(path) == "has more than 256 MiB: split it."
    assert time.monotonic() - began_s < 0.5


def test_a_folder_of_a_gigabyte_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "asv"
    copytree(FIXTURES / "asv", folder)
    for number in range(4):
        with (folder / "bench-1" / f"huge-{number}.json").open("wb") as file:
            file.truncate(2**28)
    assert sentence_of_folder(folder).endswith("has more than 256 MiB: split it.")


@pytest.mark.parametrize("kind", [known.name for known in FORMATS])
def test_a_format_that_the_file_is_not_in(kind: str, refused: Callable[..., str]) -> None:
    other = "bmf.json" if kind != "bmf" else "jmh.json"
    title = "Bencher Metric Format" if kind != "bmf" else "JMH"
    (asked,) = (known for known in FORMATS if known.name == kind)
    assert refused((FIXTURES / other).read_bytes(), kind=kind) == (
        f"is not {asked.title}, which is known by: {asked.mark}. It looks like {title}."
    )


def test_a_format_that_nobody_knows() -> None:
    with pytest.raises(FormatError, match=r"^There is no format 'xml' for this; there are asv, "):
        read(FIXTURES / "bmf.json", "xml")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"b": {"m": {"value": NaN}}}', "b.m.value: is no finite number."),
        ('{"b": {"m": {"value": -Infinity}}}', "b.m.value: is no finite number."),
        ('{"b": {"m": {"value": 1e400}}}', "b.m.value: is no finite number."),
        ('{"b": {"m": {"value": 1' + "0" * 400 + "}}}", "b.m.value: is no finite number."),
        ('{"b": {"m": {"value": 1' + "0" * 5000 + "}}}", "holds a number of thousands of digits."),
        ('{"b": {"m": {"value": "inf"}}}', "b.m.value: must be a number, and is text."),
        ('{"b": {"m": {"value": true}}}', "b.m.value: must be a number, and is true or false."),
        ('{"b": {"m": {"value": null}}}', "b.m.value: must be a number, and is null."),
        ("benchmark,metric,value\na,b,nan\n", "line 2, value: is no finite number."),
        ("benchmark,metric,value\na,b,x\n", "line 2: 'x' in 'value' is no number."),
        (
            "benchmark,metric,values\na,b,1 inf\n",
            "line 2, values[1]: is no finite number.",
        ),
    ],
)
def test_what_is_no_finite_number(content: str, said: str, refused: Callable[..., str]) -> None:
    assert refused(content) == said


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting(opening: str, refused: Callable[..., str]) -> None:
    assert refused(opening * 200_000) == "is nested too deeply."


def test_deep_nesting_in_a_cell(refused: Callable[..., str]) -> None:
    content = "benchmark,metric,value,machine\na,b,1," + "[" * 200_000 + "\n"
    assert refused(content) == f"line 2: '{'[' * 57}...' is no JSON object."


def test_the_last_point_is_bad_and_no_point_is_read(refused: Callable[..., str]) -> None:
    def spoil(document: dict[str, object]) -> None:
        rows = document["benchmarks"]
        assert isinstance(rows, list)
        rows[-1]["stats"]["data"][1] = "fast"

    assert refused(edited("pytest-benchmark.json", spoil)) == (
        "benchmarks[4].stats.data[1]: must be a number, and is text."
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "benchmark,metric,value,revison\na,b,1,v1\n",
            "line 1: 'revison' is no column; those are benchmark, parameters, metric, unit, "
            "values, low, high, revision, at, committed_at, machine, direction.",
        ),
        ("benchmark,metric,value,value\na,b,1,1\n", "line 1: names a column twice."),
        (
            "benchmark,metric,value,at\na,b,1,2026-11-20T01:02:03\n",
            "line 2, at: needs the time's offset from UTC, as in 2026-11-20T01:02:03Z.",
        ),
        ("benchmark,metric,value,at\na,b,1,noon\n", "line 2, at: 'noon' is no time."),
        (
            "benchmark,metric,value,direction\na,b,1,up\n",
            "line 2, direction: must be higher or lower: the better one.",
        ),
        ("benchmark,metric,value\na,b\n", "line 2: has 2 cells, and the header has 3."),
        ("benchmark,metric,value\n,b,1\n", "line 2: has no 'benchmark'."),
        (
            "benchmark,metric,value,low,high\na,b,1,3,2\n",
            "line 2: low must not be above high.",
        ),
        (
            "benchmark,metric,value,at\na,b,1,9999-12-31T23:59:59-12:00\n",
            "line 2: at: must lie between the years 1990 and 2200.",
        ),
        (
            "benchmark,metric,value,committed_at\na,b,1,1900-01-01T00:00:00Z\n",
            "line 2: committed_at: must lie between the years 1990 and 2200.",
        ),
        (
            "benchmark,metric,value\n ,b,1\n",
            "line 2: benchmark: must be text of 1 to 500 characters, not only blanks, on one line "
            "and without control characters.",
        ),
        ("benchmark,metric,value\n", "holds no point."),
        (
            "benchmark,metric,value\na,b,1\na,b,2\n",
            "a: 'b' is there twice for one run: two runs need two files, or their times.",
        ),
    ],
)
def test_rows_that_are_no_points(content: str, said: str, refused: Callable[..., str]) -> None:
    assert refused(content) == said


SECRET = "https://dev:hunter2@git.example.com/sorting.git?access_token=hunter2&ref=main"
PUBLIC = "https://git.example.com/sorting.git?access_token=&ref=main"


def test_a_secret_in_an_address_is_left_out(tmp_path: Path) -> None:
    def add(document: dict[str, object]) -> None:
        machine, rows = document["machine_info"], document["benchmarks"]
        assert isinstance(machine, dict)
        assert isinstance(rows, list)
        machine["origin"] = SECRET
        machine["env"] = {"remotes": [SECRET], "hf_token": "hunter2"}
        rows[0] |= {"params": {"url": SECRET}, "param": None, "fullname": f"fetch {SECRET}"}

    path = tmp_path / "run.json"
    path.write_text(edited("pytest-benchmark.json", add), encoding="utf-8")
    found = read(path)
    first = found.points[0]
    assert first.machine["origin"] == PUBLIC
    assert first.machine["env.remotes"] == f'["{PUBLIC}"]'
    assert first.parameters == {"url": PUBLIC}
    assert first.benchmark == f"fetch {PUBLIC}"
    assert "hunter2" not in repr(found)


def test_a_secret_in_an_address_is_in_no_error(refused: Callable[..., str]) -> None:
    content = f"benchmark,metric,value,at\n{SECRET},b,1,{SECRET}\n"
    assert "hunter2" not in refused(content)
    assert "hunter2" not in refused(json.dumps({SECRET: {"m": {"value": "x"}}}))
    assert "hunter2" not in refused(f"benchmark,metric,value\n{SECRET},b,1\n{SECRET},b,1\n")


def test_a_zip_bomb_in_parquet_is_refused_by_its_footer(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    path, rows = tmp_path / "bomb.parquet", 4_000_000
    zeros = pa.array([0] * rows, pa.int32())
    text = pa.DictionaryArray.from_arrays(zeros, ["b"]).cast(pa.string())
    numbers = pa.DictionaryArray.from_arrays(zeros, pa.array([1.0])).dictionary_decode()
    table = pa.table({"benchmark": text, "metric": text, "value": numbers})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(12):
            writer.write_table(table)
    assert path.stat().st_size < 1_000_000
    began_s = time.monotonic()
    assert sentence(path) == "unpacks to 1,152,000,000 bytes, and 1,073,741,824 are allowed."
    assert time.monotonic() - began_s < 0.5


def test_parquet_with_columns_of_other_types(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"benchmark": [1], "metric": ["m"], "value": [1.0]}), path)
    assert sentence(path) == "the column 'benchmark' is of type int64."
    pq.write_table(pa.table({"name": ["b"], "metric": ["m"], "value": [1.0]}), path)
    assert sentence(path).startswith("'name' is no column; ")
    pq.write_table(pa.table({"benchmark": ["b"], "metric": ["m"], "value": [None]}), path)
    assert sentence(path) == "row 1, value: must be a number, and is null."


def test_parquet_with_the_types_of_other_writers(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    path = tmp_path / "t.parquet"
    columns = {
        "benchmark": pa.array(["b"], pa.large_string()),
        "metric": pa.array(["m"]).dictionary_encode(),
        "values": pa.array([[1.5, 2.5]], pa.large_list(pa.float32())),
        "at": pa.array(["2026-11-20T01:02:03Z"]),
        "low": pa.array([None], pa.null()),
        "high": pa.array([3], pa.int16()),
    }
    pq.write_table(pa.table(columns), path)
    (point,) = read(path).points
    assert (point.benchmark, point.metric, point.values) == ("b", "m", (1.5, 2.5))
    assert (point.low, point.high) == (None, 3.0)
    assert point.at == datetime(2026, 11, 20, 1, 2, 3, tzinfo=UTC)


def test_without_pyarrow_the_sentence_says_how_to_install_it(
    table: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "t.parquet"
    path.write_bytes(table["parquet"])
    with pytest.raises(FormatError) as caught:
        read(path)
    assert caught.value.sentence == (
        "Parquet needs pyarrow: install it with pip install 'throughline[parquet]'."
    )
    assert parquet_module.recognises


def test_nothing_imports_pyarrow_until_parquet_is_read() -> None:
    code = (
        "import sys; from pathlib import Path; import cli.formats; "
        f"cli.formats.read(Path({str(FIXTURES / 'bmf.json')!r})); "
        "print([name for name in sys.modules if name.startswith(('pyarrow', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
