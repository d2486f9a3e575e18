"""The table of a submission names the flags of each case, and says whether its number counts."""

import io

import pytest

from benchmarks.contracts import Case, JobState
from cli.output import result_table
from cli.output.console import Console
from service.schemas.reports import Row, Summary


def shown(flags: tuple[str, ...], disturbed: str = "") -> str:
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
        flags=flags,
        disturbed=disturbed,
    )
    sink = io.StringIO()
    result_table.show([row], Console(file=sink, width=160))
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
