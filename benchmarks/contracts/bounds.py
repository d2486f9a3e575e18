"""Bounds on the size of a result, so that reading it later has a known price. Pure.

The types bound each part of a result; these bounds hold for the parts together. A worker asks
before it sends a result, and the service before it takes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.contracts.measurement import Pass, Replicate, Telemetry
from benchmarks.contracts.result import Result
from benchmarks.contracts.values import Trace

TRACE_VALUES = 2_000_000
"""Values in all traces of a case's replicates together: 8 MiB unpacked. A process on an H200
recorded 220 to 5,300 values (benchmarks/results/h200), so fifty of them need an eighth of it."""
BESIDE_TRACES_B = 2**20
"""Bytes of a result's JSON without its packed traces; real results have 8 to 40 kB."""
SIGNS = 200_000
"""Commas and opening brackets in a document of any kind: they bound what it becomes once read."""
ONE_OF_MANY_B, ONE_OF_MANY_SIGNS = 3 * 2**16, 2**14
"""Room for the result of one replicate, however many a case has: they are read together."""
FACTS_B = 2**16
"""Bytes of the names and values of all facts; real environments have 5 kB. A history's page shows
the differences between many of them."""
UNIT_LENGTH = 64
"""Characters of a unit, which a page writes beside each of its values."""
PACKED_PER_VALUE_B = 6
"""Characters of packed data for each value: four bytes that zlib cannot shrink, in base64."""
PACKED_AT_LEAST_B = 64
"""Characters that a trace may have beside: what zlib writes around a few values."""
_OTHER_BYTES = bytes(set(range(256)) - set(b",[{"))
_NONE = Trace.of(())
_FOR_STEPS = 0.75
"""Share of the values that steps may take; the other quarter is left to telemetry and parity."""
_STEP_TRACES = 8
"""Values that are recorded of one step of FULL and one of SYNTH."""


def trace_values(processes: int) -> int:
    """Values that the traces of one of a case's ``processes`` may hold together."""
    return TRACE_VALUES // processes


def pass_steps(processes: int) -> int:
    """Steps that a timed pass of one of a case's ``processes`` may record."""
    return int(trace_values(processes) * _FOR_STEPS) // _STEP_TRACES


def pass_readings(processes: int, channels: int) -> int:
    """Readings of ``channels`` that telemetry may keep of one pass, each with its time."""
    left = trace_values(processes) - int(trace_values(processes) * _FOR_STEPS)
    return left // 2 // 2 // (channels + 1)


def traces(result: Result) -> Iterator[Trace]:
    """Every trace of a result."""
    for replicate in result.replicates:
        for timed in (replicate.full, replicate.synth):
            yield from _of_pass(timed)
        for telemetry in replicate.telemetry.values():
            yield from _of_telemetry(telemetry)
    if result.parity is not None:
        yield from result.parity.losses.values()
    if result.long_parity is not None:
        yield from (*result.long_parity.case, *result.long_parity.reference)
    if result.baseline is not None:
        yield from traces(result.baseline)


def _of_pass(timed: Pass) -> Iterator[Trace]:
    yield from (timed.step_trace, timed.stall_trace, timed.copy_trace, timed.work_trace)


def _of_telemetry(telemetry: Telemetry) -> Iterator[Trace]:
    yield telemetry.t_s
    yield from telemetry.channels.values()


def without_traces(result: Result) -> Result:
    """``result`` with each trace empty: what is left has `BESIDE_TRACES_B` of JSON at most."""
    lean: dict[str, Any] = {"replicates": tuple(map(_lean, result.replicates))}
    if result.parity is not None:
        lean["parity"] = result.parity.model_copy(update={"losses": {}})
    if result.long_parity is not None:
        none = {"case": (), "reference": ()}
        lean["long_parity"] = result.long_parity.model_copy(update=none)
    if result.baseline is not None:
        lean["baseline"] = without_traces(result.baseline)
    return result.model_copy(update=lean)


def _lean(replicate: Replicate) -> Replicate:
    names = ("step_trace", "stall_trace", "copy_trace", "work_trace")
    no_steps = dict.fromkeys(names, _NONE)
    lean: dict[str, Any] = {
        "full": replicate.full.model_copy(update=no_steps),
        "synth": replicate.synth.model_copy(update=no_steps),
    }
    telemetry = {
        name: of_pass.model_copy(
            update={"t_s": _NONE, "channels": dict.fromkeys(of_pass.channels, _NONE)}
        )
        for name, of_pass in replicate.telemetry.items()
    }
    return replicate.model_copy(update=lean | {"telemetry": telemetry})


def signs(document: bytes) -> int:
    """Commas and opening brackets in JSON, those in strings too."""
    return len(document.translate(None, _OTHER_BYTES))


def excess(result: Result, document: bytes, processes: int) -> str:
    """Return the reason why a result is too large, in one sentence; empty if it is not.

    ``document`` is the result as JSON; ``processes`` is how many measure the case.
    """
    all_traces = list(traces(result))
    values, packed_b = sum(one.n for one in all_traces), sum(len(one.data) for one in all_traces)
    sides = 1 if result.baseline is None else 2
    measured = sides * min(max(len(result.replicates), 1), processes)
    allowed = trace_values(processes) * measured
    if values > allowed:
        return (
            f"Its traces hold {values:,} values, and {allowed:,} are allowed: time fewer steps, "
            "or ask for fewer processes."
        )
    if packed_b > PACKED_PER_VALUE_B * values + PACKED_AT_LEAST_B * len(all_traces):
        return f"Its traces have {packed_b:,} bytes for {values:,} values, which need fewer."
    beside_b = len(document) - packed_b
    room_b = max(BESIDE_TRACES_B * measured // processes, ONE_OF_MANY_B)
    if beside_b > room_b:
        return (
            f"It has {beside_b:,} bytes beside its traces, and {room_b:,} are allowed: "
            "have the workload say less."
        )
    room = max(SIGNS * measured // processes, ONE_OF_MANY_SIGNS)
    if signs(document) > room:
        return f"It has more than {room:,} commas and brackets: have the workload say less."
    return _long_names(result)


def _long_names(result: Result) -> str:
    if result.baseline is not None and (why := _long_names(result.baseline)):
        return why
    facts = result.environment.facts
    facts_b = sum(len(name) + len(value.encode()) for name, value in facts.items())
    if facts_b > FACTS_B:
        return f"Its environment has {facts_b:,} bytes of facts, and {FACTS_B:,} are allowed."
    longest = max((result.item, *(sample.unit for sample in result.samples)), key=len)
    if len(longest) > UNIT_LENGTH:
        return f"Its units have up to {len(longest)} characters, and {UNIT_LENGTH} are allowed."
    return ""
