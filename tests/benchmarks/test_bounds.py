"""A result has room for what real benchmarks say, and for no more than a reader should pay for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.measured import a_pass, a_replicate, a_result
from pydantic import BaseModel

from benchmarks.contracts import (
    LongParity,
    LongParityStatus,
    Parity,
    ParityStatus,
    Pass,
    Replicate,
    Result,
    Telemetry,
    Trace,
)
from benchmarks.contracts.bounds import (
    BESIDE_TRACES_B,
    FACTS_B,
    SIGNS,
    TRACE_VALUES,
    UNIT_LENGTH,
    excess,
    pass_readings,
    pass_steps,
    traces,
    without_traces,
)
from benchmarks.diagnosis.merge import merge
from benchmarks.measure.long_run import LENGTHS, SEEDS

H200 = Path(__file__).parents[2] / "benchmarks" / "results" / "h200"
CHANNELS = 8


def values_in(result: Result) -> bytes:
    return result.model_dump_json().encode()


def of_steps(count: int) -> Pass:
    trace = Trace.of([0.001] * count)
    names = ("step", "stall", "copy", "work")
    return a_pass(0.001).model_copy(update={f"{name}_trace": trace for name in names})


def telling(count: int) -> Telemetry:
    trace = Trace.of([0.1] * count)
    return Telemetry(hz=10.0, t_s=trace, channels={f"c{n}": trace for n in range(CHANNELS)})


def a_long_parity(losses: list[list[float]]) -> LongParity:
    of_each = tuple(map(Trace.of, losses))
    return LongParity(status=LongParityStatus.NO_WORSE, case=of_each, reference=of_each)


def full(processes: int, seed: int = 0) -> Replicate:
    """All that one of so many processes may record, telemetry with it."""
    timed, readings = of_steps(pass_steps(processes)), telling(pass_readings(processes, CHANNELS))
    watched = {"telemetry": {"full": readings, "synth": readings}}
    return a_replicate(timed, timed, seed).model_copy(update=watched)


@pytest.mark.parametrize("processes", [1, 3, 50])
def test_what_the_benchmarks_may_record_fits_for_each_process_and_for_all(processes: int) -> None:
    losses = dict.fromkeys(("case", "base", "reference"), Trace.of([1.0] * 20))
    parity = Parity(status=ParityStatus.PASS, losses=losses)
    long = a_long_parity([[1.0] * LENGTHS[0]] * SEEDS)
    one = a_result(full(processes)).model_copy(update={"parity": parity, "long_parity": long})
    assert excess(one, values_in(one), processes) == ""
    whole = merge([one] * processes)
    assert excess(whole, values_in(whole), processes) == ""


def test_one_process_has_no_room_for_what_all_may_say() -> None:
    one = a_result(full(1))
    assert "are allowed: time fewer steps" in excess(one, values_in(one), 50)


def test_however_many_processes_are_told_of_their_traces_stay_within_the_whole() -> None:
    replicate = a_replicate(of_steps(TRACE_VALUES // 8), of_steps(TRACE_VALUES // 8))
    result = a_result(replicate).model_copy(update={"replicates": (replicate,) * 50})
    assert f"and {TRACE_VALUES:,} are allowed" in excess(result, values_in(result), 1)


def test_data_that_no_values_need_is_refused() -> None:
    padded = Trace(n=0, data="A" * 100_000)
    timed = a_pass(0.1).model_copy(update={"stall_trace": padded})
    result = a_result(a_replicate(timed, timed))
    assert "which need fewer" in excess(result, values_in(result), 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"item": "x" * (UNIT_LENGTH + 1)}, "Its units"),
        (
            {"environment": {"facts": {f"sw.{n}": "é" * 400 for n in range(FACTS_B // 700)}}},
            "facts",
        ),
    ],
)
def test_names_that_a_page_repeats_are_short(change: dict[str, object], sentence: str) -> None:
    result = Result.model_validate(a_result(full(50)).model_dump() | change)
    assert sentence in excess(result, values_in(result), 1)


def test_all_text_together_is_bounded() -> None:
    result = a_result(full(50))
    packed_b = sum(len(one.data) for one in traces(result))
    document = values_in(result).ljust(packed_b + BESIDE_TRACES_B)
    assert excess(result, document, 1) == ""
    assert "bytes beside its traces" in excess(result, document + b" ", 1)


def test_what_the_service_would_not_read_is_not_sent() -> None:
    result = a_result(full(50)).model_copy(update={"log_tail": "," * 65_000, "repro": "[" * 65_000})
    assert excess(result, values_in(result), 1) == ""
    crowded = values_in(result) + b"{" * (SIGNS - 130_000)
    assert "commas and brackets" in excess(result, crowded, 1)


def test_no_trace_is_overlooked() -> None:
    """A field that is added to the contract and holds a trace must be counted too."""
    telemetry = telling(5)
    replicate = a_replicate(of_steps(1), of_steps(2)).model_copy(
        update={"telemetry": {"full": telemetry, "synth": telemetry}}
    )
    losses = dict.fromkeys(("case", "base", "reference"), Trace.of([1.0]))
    parity = Parity(status=ParityStatus.PASS, losses=losses)
    long = a_long_parity([[1.0], [2.0]])
    result = a_result(replicate).model_copy(update={"parity": parity, "long_parity": long})
    assert sorted(_traces_in(result)) == sorted(id(one) for one in traces(result))
    assert set(_holders(Result)) == {Pass, Telemetry, Parity, LongParity}
    lean = without_traces(result)
    assert [one.n for one in traces(lean)] == [0] * len(list(traces(lean)))
    assert len(values_in(lean)) < len(values_in(result))
    Result.model_validate_json(lean.model_dump_json())


def _traces_in(value: object) -> Iterator[int]:
    if isinstance(value, Trace):
        yield id(value)
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _traces_in(getattr(value, name))
    elif isinstance(value, dict):
        for one in value.values():
            yield from _traces_in(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from _traces_in(one)


def _holders(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The models within ``kind`` of which a field's schema speaks of a trace."""
    named = {model.__name__: model for model in _models(BaseModel)}
    schema = kind.model_json_schema()
    for name, described in schema["$defs"].items():
        if '"#/$defs/Trace"' in json.dumps(described):
            yield named[name]


def _models(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for model in kind.__subclasses__():
        if model.__module__.startswith("benchmarks.contracts"):
            yield model
        yield from _models(model)


def test_every_result_that_was_measured_on_an_h200_has_room_to_spare() -> None:
    rows = (
        json.loads(line)
        for path in sorted(H200.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    )
    results = [row.get("result", row) for row in rows]
    measured = [one for one in results if one and "replicates" in one and "environment" in one]
    assert len(measured) > 50
    for document in measured:
        result = Result.model_validate(document)
        written = values_in(result)
        for processes, times in ((1, 10), (50, 3)):  # fifty are read together
            assert excess(result, written + b" " * (times - 1) * len(written), processes) == ""
