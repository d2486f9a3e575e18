"""What is written is read back: bit for bit, but for what the format's loss list names."""

import io
import statistics
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.contracts import Direction
from cli.formats import FORMATS, FormatError, Loss, read, write
from cli.formats.bmf import full_name
from cli.formats.text import names_secret, printable
from service.schemas.measured_elsewhere import ForeignPoint

BY_NAME = {known.name: known for known in FORMATS}
WRITTEN = ["bmf", "csv", "jsonl", "parquet", "pytest-benchmark", "pytorch-v3"]

lines = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\x7f"), max_size=20
).filter(lambda text: printable(text) == text)
names = lines.filter(lambda text: text.strip(" "))
facts = st.dictionaries(lines.filter(lambda key: not names_secret(key)), lines, max_size=4)
numbers = st.floats(-1e100, 1e100)
moments = st.none() | st.datetimes(
    datetime(1990, 1, 2),  # noqa: DTZ001 - hypothesis adds the zone
    datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.integers(-720, 720).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
revisions = st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_./+-]{0,40}", fullmatch=True)


@st.composite
def points(draw: st.DrawFn) -> ForeignPoint:
    low, high = sorted(draw(st.tuples(numbers, numbers)))
    return ForeignPoint(
        benchmark=draw(names),
        parameters=draw(facts),
        metric=draw(names),
        unit=draw(lines),
        direction=draw(st.sampled_from(Direction)),
        values=tuple(draw(st.lists(numbers, min_size=1, max_size=6))),
        low=draw(st.sampled_from([None, low])),
        high=draw(st.sampled_from([None, high])),
        revision=draw(revisions),
        at=draw(moments),
        committed_at=draw(moments),
        machine=draw(facts),
    )


def one_run(found: list[ForeignPoint]) -> list[ForeignPoint]:
    """The points as times of one run: all that pytest-benchmark can hold."""
    first = found[0]
    run = {key: getattr(first, key) for key in ("revision", "at", "committed_at", "machine")}
    return [
        point.model_copy(update={**run, "unit": "s", "direction": Direction.LOWER})
        for point in found
    ]


NARROWED: dict[str, Callable[[list[ForeignPoint]], list[ForeignPoint]]] = {
    "pytest-benchmark": one_run
}


def apart(found: list[ForeignPoint], losses: frozenset[Loss]) -> list[ForeignPoint]:
    """Those that the format can tell apart, with one unit for each metric of a benchmark."""
    kept: dict[object, ForeignPoint] = {}
    for point in found:
        less = without(point, losses)
        kept.setdefault((less.benchmark, less.metric), point)
    return list(kept.values())


def without(point: ForeignPoint, losses: frozenset[Loss]) -> ForeignPoint:
    """A point after what the loss list names."""
    left: dict[Loss, dict[str, object]] = {
        Loss.PARAMETERS: {"benchmark": full_name(point), "parameters": {}},
        Loss.METRIC: {"metric": "time"},
        Loss.UNIT: {"unit": ""},
        Loss.DIRECTION: {"direction": Direction.LOWER},
        Loss.SAMPLES: {"values": (statistics.median(point.values),)},
        Loss.BOUNDS: {"low": None, "high": None},
        Loss.REVISION: {"revision": None},
        Loss.TIME: {"at": None},
        Loss.COMMIT_TIME: {"committed_at": None},
        Loss.MACHINE: {"machine": {}},
    }
    assert set(left) == set(Loss)
    return point.model_copy(update={k: v for loss in losses for k, v in left[loss].items()})


def exact(point: ForeignPoint) -> dict[str, object]:
    """All parts, numbers as their bits and times as instants."""
    said = point.model_dump()
    ends = {key: None if said[key] is None else said[key].hex() for key in ("low", "high")}
    times = {
        key: said[key] and said[key].astimezone(UTC).isoformat() for key in ("at", "committed_at")
    }
    return {**said, **ends, **times, "values": [value.hex() for value in point.values]}


def written_and_read(found: list[ForeignPoint], name: str) -> tuple[ForeignPoint, ...]:
    stream = io.BytesIO()
    write(found, name, stream)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "points"
        path.write_bytes(stream.getvalue())
        return read(path).points  # recognised by its content


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("examples", [12, pytest.param(60, marks=pytest.mark.slow)])
def test_round_trip(name: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def written_reads_back_equal(data: st.DataObject) -> None:
        round_trip(name, data)

    written_reads_back_equal()


def round_trip(name: str, data: st.DataObject) -> None:
    losses = BY_NAME[name].loses
    drawn = data.draw(st.lists(points(), min_size=1, max_size=5))
    found = apart(NARROWED.get(name, list)(drawn), losses)
    back = written_and_read(found, name)
    expected = [exact(without(point, losses)) for point in found]
    got = [exact(without(point, losses & {Loss.DIRECTION})) for point in back]
    assert sorted(got, key=repr) == sorted(expected, key=repr)


FULL = ForeignPoint(
    benchmark="sort",
    parameters={"size": "10"},
    metric="wall time",
    unit="s",
    direction=Direction.LOWER,
    values=(3.0, 1.0, 2.0),
    low=0.5,
    high=3.5,
    revision="abc123",
    at=datetime(2026, 11, 20, 1, 2, 3, 456789, tzinfo=UTC),
    committed_at=datetime(2026, 11, 19, tzinfo=UTC),
    machine={"cpu": "a processor"},
)
LOST = {
    "bmf": {
        "benchmark",
        "parameters",
        "unit",
        "values",
        "revision",
        "at",
        "committed_at",
        "machine",
    },
    "csv": set(),
    "jsonl": set(),
    "parquet": set(),
    "pytest-benchmark": {"metric", "low", "high"},
    "pytorch-v3": set(),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_writer_loses_what_its_list_says_and_nothing_else(name: str) -> None:
    (back,) = written_and_read([FULL], name)
    before, after = FULL.model_dump(), back.model_dump()
    assert {key for key in before if before[key] != after[key]} == LOST[name]


def test_bmf_guesses_the_direction_by_the_measures_name() -> None:
    rate = FULL.model_copy(update={"metric": "score", "direction": Direction.HIGHER})
    (back,) = written_and_read([rate], "bmf")
    assert back.direction == Direction.LOWER, "the loss list names the direction"


@pytest.mark.parametrize("name", WRITTEN)
def test_every_format_that_is_written_is_in_the_list(name: str) -> None:
    assert sorted(known.name for known in FORMATS if known.writer) == WRITTEN
    assert BY_NAME[name].writer is not None


def refusal(found: list[ForeignPoint], name: str) -> str:
    stream = io.BytesIO()
    with pytest.raises(FormatError) as refused:
        write(found, name, stream)
    assert stream.getvalue() == b""
    return refused.value.sentence


def test_bmf_refuses_two_revisions_of_one_measure() -> None:
    other = FULL.model_copy(update={"revision": "def456"})
    assert refusal([FULL, other], "bmf") == (
        "BMF keeps one value of 'wall time' of 'sort[size=10]': write each revision, machine and "
        "time by itself."
    )


def test_pytest_benchmark_refuses_what_it_cannot_hold() -> None:
    rate = FULL.model_copy(update={"unit": "img/s", "metric": "throughput"})
    other = FULL.model_copy(update={"revision": "def456"})
    again = FULL.model_copy(update={"metric": "cpu time"})
    assert refusal([rate], "pytest-benchmark") == (
        "pytest-benchmark keeps times in seconds alone, and 'throughput' of 'sort' is in 'img/s'."
    )
    assert refusal([FULL, other], "pytest-benchmark") == (
        "pytest-benchmark keeps one run in a file: write each revision, machine and time by itself."
    )
    assert refusal([FULL, again], "pytest-benchmark") == (
        "pytest-benchmark keeps one metric of a benchmark: write one of them."
    )


def test_a_format_that_is_only_read_cannot_be_written() -> None:
    assert refusal([FULL], "asv") == (
        "There is no format 'asv' for this; there are bmf, csv, jsonl, parquet, "
        "pytest-benchmark, pytorch-v3."
    )


def test_a_written_v3_record_has_the_published_fields() -> None:
    stream = io.BytesIO()
    write([FULL.model_copy(update={"parameters": {"model": "llama"}})], "pytorch-v3", stream)
    assert stream.getvalue() == (
        b"""[
 {
  "schema_version": "v3",
  "benchmark": {
   "name": "sort",
   "extra_info": {
    "model": "llama"
   }
  },
  "metric": {
   "name": "wall time",
   "benchmark_values": [
    3.0,
    1.0,
    2.0
   ],
   "extra_info": {
    "unit": "s",
    "direction": "lower",
    "low": 0.5,
    "high": 3.5,
    "at": "2026-11-20T01:02:03.456789+00:00",
    "committed_at": "2026-11-19T00:00:00+00:00"
   }
  },
  "runners": [
   {
    "extra_info": {
     "cpu": "a processor"
    }
   }
  ],
  "dependencies": {},
  "head_sha": "abc123",
  "timestamp": 1795136523,
  "model": {
   "name": "llama"
  }
 }
]"""
    )


@pytest.mark.parametrize("name", ["=1+1", "+1", "-O2", "@SUM(A1)", "'=1+1", "'", "'quoted'", "x=1"])
def test_a_spreadsheet_runs_no_name_of_a_written_csv(name: str, tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    point = FULL.model_copy(update={"benchmark": name, "metric": name, "unit": name})
    with path.open("wb") as stream:
        write([point], "csv", stream)
    cells = path.read_text(encoding="utf-8").splitlines()[1].split(",")
    assert not [cell for cell in cells if cell[:1] in {"=", "+", "-", "@"}]
    assert read(path).points == (point,)


def test_written_csv_is_what_a_spreadsheet_and_pandas_read() -> None:
    stream = io.BytesIO()
    write([FULL], "csv", stream)
    assert stream.getvalue().decode() == (
        "benchmark,parameters,metric,unit,values,low,high,revision,at,committed_at,"
        "machine,direction\n"
        'sort,"{""size"": ""10""}",wall time,s,3.0 1.0 2.0,0.5,3.5,abc123,'
        '2026-11-20T01:02:03.456789Z,2026-11-19T00:00:00Z,"{""cpu"": ""a processor""}",lower\n'
    )
