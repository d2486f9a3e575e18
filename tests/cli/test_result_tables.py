"""The table of a submission names the flags of each case, and says whether its number counts."""

import io
from dataclasses import replace

import pytest

from benchmarks.contracts import Case, JobState
from cli.output import result_table
from cli.output.console import Console
from service.schemas.reports import Row, Summary


def shown(flags: tuple[str, ...], disturbed: str = "") -> str:
    return printed(row_of(flags=flags, disturbed=disturbed))


def row_of(**more: object) -> Row:
    row = Row(
        job_id="0" * 32,
        result_id="1" * 32,
        case=Case(workload="resnet50", preset="tiny"),
        state=JobState.SUCCEEDED,
        status="ok",
        reason="",
        throughput=Summary(value=100.0, low=99.0, high=101.0, interval="replicates", replicates=3),
        unit="img/s",
        speedup=None,
        bottleneck=None,
        verdict="",
        peak_memory_b=None,
    )
    return replace(row, **more)  # type: ignore[arg-type]


def printed(*rows: Row) -> str:
    sink = io.StringIO()
    result_table.show(rows, Console(file=sink, width=160))
    return sink.getvalue()


@pytest.mark.parametrize(
    ("flags", "disturbed", "line"),
    [
        (("full.tail",), "", "resnet50:tiny: flags full.tail."),
        (
            ("throttled", "full.tail"),
            "throttled",
            "resnet50:tiny: flags throttled, full.tail. Its device was disturbed (throttled): "
            "it counts for nothing.",
        ),
    ],
)
def test_flags_stand_below_the_table(flags: tuple[str, ...], disturbed: str, line: str) -> None:
    assert line in shown(flags, disturbed).splitlines()


def test_a_case_without_flags_says_nothing_of_them() -> None:
    assert "flags" not in shown(())


def test_why_a_commit_cannot_be_built_is_said_once_for_all_its_cases() -> None:
    reason = "Commit abc of the target ours cannot be built: `uv sync` failed: no wheel."
    row = row_of(status="unbuildable", state=JobState.FAILED, throughput=None, reason=reason)
    text = printed(row, row, row_of())
    assert text.count(reason) == 1
    assert f"2 cases: {reason}" in text.splitlines()
    assert text.count(" unbuildable ") == 2
