"""What strangers wrote reaches logs and terminals as text: no line and no escape of theirs."""

from __future__ import annotations

import io
import json
import logging
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from rich.table import Table

from benchmarks.contracts import Case, JobState, Suggestion
from benchmarks.terminal import LINES, PrintableLog, printable
from cli.commands import report
from cli.output import result_table
from cli.output.console import Console
from cli.output.lines import say
from service.schemas.reports import Advice, Report, Row, Summary

ESCAPES = (
    "\x1b]0;owned\x07",  # a window's title
    "\x1b[2J\x1b[H",  # an empty screen
    "\x9b2J",  # the same in one character
    "\rpassed",
    "\u202egnirts",  # written from right to left
    "\u2028",
)
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


def on_terminal(*told: object) -> str:
    """What a terminal gets, without the colours that are our own."""
    sink = io.StringIO()
    console = Console(file=sink, width=120, force_terminal=True)
    console.print(*told)
    return re.sub(r"\x1b\[[0-9;]*m", "", sink.getvalue())


@given(st.text(st.characters()))
def test_nothing_that_is_obeyed_is_left(text: str) -> None:
    assert not OBEYED.search(printable(text))
    assert "\n" not in printable(text)
    printable(text).encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_what_can_be_read_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(st.dictionaries(st.text(), st.text() | st.sampled_from(ESCAPES)))
def test_json_stays_the_same_json(document: dict[str, str]) -> None:
    for indent in (None, 2):
        told = json.dumps(document, ensure_ascii=False, indent=indent)
        assert json.loads(printable(told, LINES)) == document


@pytest.mark.parametrize("text", ESCAPES)
def test_no_line_and_no_table_passes_an_escape_sequence_on(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = Table("heading", "other")
    drawn.add_row(f"a {text} b", f"c {text} d")
    assert not OBEYED.search(on_terminal(drawn))
    assert printable(text) in on_terminal(drawn)
    assert not OBEYED.search(on_terminal(f"a {text} b"))
    say(f"a {text} b")
    say(f"a {text} b", sys.stderr)
    for told in capsys.readouterr():
        assert not OBEYED.search(told)
        assert printable(text) in told


@pytest.mark.parametrize(
    "unit", ["[/]", "[red]img/s", "[link=https://evil.example]x[/link]", ":x:"]
)
def test_brackets_are_text_and_no_markup_in_a_report(unit: str) -> None:
    """As markup the first one ended `throughline report` with a traceback."""
    row = Row(
        job_id="1" * 32,
        result_id="2" * 32,
        case=Case(workload="resnet50", preset="tiny"),
        state=JobState.SUCCEEDED,
        status="ok",
        reason="",
        throughput=Summary(value=1.0, low=0.9, high=1.1, interval="replicates", replicates=3),
        unit=unit,
        speedup=None,
        bottleneck=unit,
        verdict="",
        peak_memory_b=None,
    )
    sink = io.StringIO()
    result_table.show([row], Console(file=sink, width=160, force_terminal=True))
    assert sink.getvalue().count(unit) == 2
    assert "\x1b]8" not in sink.getvalue()


def test_advice_stands_below_the_table_and_brackets_in_it_are_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case(workload="resnet50", preset="tiny")
    told = [Suggestion(axis="a", value="b", sentence=text) for text in ("[red]a[/red].", "b.")]
    advice = Advice(case=case, suggestions=tuple(told))
    view = Report(
        submission_id="5" * 32,
        suite=None,
        revision="r",
        finished=True,
        rows=(),
        against=None,
        changes=(),
        advice=(advice,),
    )
    sink = io.StringIO()
    monkeypatch.setattr(report, "paper", lambda: Console(file=sink, width=160))
    report.show(TypeAdapter(Report).dump_json(view).decode())
    assert "Worth a try at resnet50:tiny:\n  [red]a[/red].\n  b.\n" in sink.getvalue()


def logged(message: str, *told: object, error: Exception | None = None) -> str:
    sink = io.StringIO()
    handler = logging.StreamHandler(sink)
    handler.setFormatter(PrintableLog("2026-11-20 INFO %(message)s"))
    record = logging.LogRecord("x", logging.INFO, "x", 1, message, told, None)
    if error is not None:
        record.exc_info = (type(error), error, error.__traceback__)
    handler.emit(record)
    return sink.getvalue()


@pytest.mark.parametrize("text", ["a\n2026-11-20 INFO forged", "a\r\nforged", *ESCAPES])
def test_one_record_is_one_line(text: str) -> None:
    told = logged("failed: %s", text)
    assert told.count("\n") == 1
    assert told.endswith("\n")
    assert not OBEYED.search(told)


def test_an_error_that_quotes_a_stranger_forges_no_record() -> None:
    try:
        raise ValueError("a\n2026-11-20 INFO forged\x1b[2J")
    except ValueError as error:
        told = logged("failed", error=error)
    begun = [line for line in told.splitlines() if not line.startswith("  ")]
    assert begun == ["2026-11-20 INFO failed"]
    assert not OBEYED.search(told)
