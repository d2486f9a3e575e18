"""A worker's result, the largest document there is: each of its fields made something else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from builders.measured import a_pass, a_replicate, a_result, an_input
from builders.profiled import COMPUTE, a_profile
from builders.recorded_memory import a_memory
from corpus.case import Case

from benchmarks.contracts import (
    KernelTime,
    Layer,
    Layers,
    LongParity,
    LongParityStatus,
    NeedlessCopy,
    Operation,
    Phases,
    Profile,
    Result,
    Synchronization,
    Telemetry,
    Trace,
)

TARGET = "/jobs/{job}/attempts/{number}/result"
_MAY_BE_NULL = {
    *("half_widths", "verdict", "half_width", "lag1", "n_eff", "drained", "cpu_pressure"),
    *("energy_j", "phases", "profile", "step_s", "busy_s", "fragmentation", "speedup"),
    *("axis", "value", "layers", "memory", "cost_s", "blocks_per_sm", "occupancy"),
    "long_parity",
    "padding",
    *("input", "threads_speedup", "disk_s", "disk_b", "disk_b_per_s"),
    *(("operations", name) for name in ("flops", "moved_b", "arithmetic")),
    ("copies", "moved_b"),
}
"""By name, or by the list's name and the name within it."""
_OWN_NAMES = {
    *("facts", "channels", "reasons", "evidence", "bounds", "axes", "telemetry"),
    *("seconds", "idle_s", "categories", "phases_s", "alive_b"),
}
"""Objects whose names are the sender's own, within bounds."""
_ALL_DEFAULTS = {"phases", "input", "profile", "efficiency"}
"""Objects each of whose fields may be left out, as are those of the protocol."""
_SAMPLES: tuple[Any, ...] = (None, True, -1, 1.5, 2**53 + 1, "", "1", "a\n", [], [[]], {}, {"": 0})
Path = tuple[str | int, ...]


def good() -> dict[str, Any]:
    """A result of the held attempt's job, with something in every field."""
    telemetry = Telemetry(
        hz=10.0,
        t_s=Trace.of([0.0, 0.1]),
        channels={"power_w": Trace.of([100.0, 101.0])},
        reasons={"sw_power_cap": 0.5},
        energy_j=20.0,
    )
    replicate = a_replicate(a_pass(0.1), a_pass(0.1)).model_copy(
        update={
            "telemetry": {"full": telemetry},
            "flags": ("tail",),
            "phases": Phases(steps=20, step_s=0.1, seconds={"forward": 0.04}),
            "input": an_input(absent="x"),
            "profile": _profile(),
        }
    )
    result = a_result(replicate, "unet").model_dump(mode="json")
    result |= {"padding": 0.25}
    result |= {"batches_tried": [{"batch": 8, "rate": 9.5, "peak_memory_b": 10}]}
    losses = (Trace.of([2.0, 1.0]),)
    long = LongParity(status=LongParityStatus.NO_WORSE, case=losses, reference=losses)
    result |= {"long_parity": long.model_dump(mode="json")}
    result |= {"flags": ["tail"], "repro": "python -m benchmarks unet", "log_tail": "x"}
    Result.model_validate(result)
    return result


def _profile() -> Profile:
    wait = Synchronization(what=".item()", source="a.py:1", every=10, cost_s=1e-4)
    copy = NeedlessCopy(
        kind="clone", what="a clone", source="a.py:3", calls=2, moved_b=8.0, self_s=2e-4
    )
    told = a_profile(0.09, {"gemm": 0.09}, COMPUTE[:1], waits=[wait])
    operation = Operation(
        name="aten::mm",
        kind="gemm",
        self_s=0.09,
        calls=12.5,
        source="a.py:2",
        found_by="operator",
        flops=1e9,
        moved_b=1e6,
        arithmetic="bf16",
        blocks_per_sm=3.5,
        occupancy=0.5,
    )
    layer = Layer(name="a.b", class_name="A", calls=1.0, forward_s=0.1, backward_s=0.2, flops=9.0)
    layers = Layers(of="eager", steps=3, outside_s=0.1, noise=0.1, modules=(layer,))
    update: dict[str, Any] = {
        "operations": (operation,),
        "notes": ("x",),
        "idle_s": {"other": 0.01},
    }
    kernel = KernelTime(name="gemm", self_s=0.09, range_s=0.001, calls=12.5)
    update |= {"kernel_times": (kernel,)}
    update |= {"layers": layers, "memory": a_memory(), "copies": (copy,)}
    return told.model_copy(update=update | {"fragmentation": 0.1})


def cases() -> Iterator[Case]:
    """Every case of this file."""
    whole = good()
    seen: set[Path] = set()
    for path in _paths(whole):
        kind = tuple("*" if isinstance(part, int) else part for part in path)
        if kind not in seen and not (path[0] == "samples" and path[1:2] > (0,)):
            seen.add(kind)
            yield from _mistyped(whole, path)
            yield from _grown(whole, path)
    yield from _cut(json.dumps(whole).encode())
    yield from _contradictions(whole)


def _case(name: str, document: Any, *expected: int) -> Case:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Case(f"result: {name}", "POST", TARGET, body, frozenset(expected))


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _paths(below, (*path, name))
    elif isinstance(value, list):
        for place, below in enumerate(value):
            yield from _paths(below, (*path, place))


def _changed(whole: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(whole)
    holder: Any = document
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    return document


def _at(whole: dict[str, Any], path: Path) -> Any:
    found: Any = whole
    for part in path:
        found = found[part]
    return found


def _mistyped(whole: dict[str, Any], path: Path) -> Iterator[Case]:
    right = _at(whole, path)
    for sample in _SAMPLES:
        if sample is None and {path[-1], path[-3::2]} & _MAY_BE_NULL:
            continue
        if isinstance(sample, bool) and isinstance(right, bool):
            continue
        alike = _kind(sample) == _kind(right) or (right is None and _kind(sample) == "number")
        counted = isinstance(right, int) and not isinstance(right, bool)
        if alike and not counted:  # each integer is bounded and takes no fraction
            continue
        if sample == {} and path[-1] in _ALL_DEFAULTS:
            continue
        said = f"{'.'.join(map(str, path))} is {json.dumps(sample)}"
        yield _case(said, _changed(whole, path, sample), 422)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    if value is None:
        return "nothing"
    names = {int: "number", float: "number", str: "text", list: "array", dict: "object"}
    return names[type(value)]


def _grown(whole: dict[str, Any], path: Path) -> Iterator[Case]:
    """An object with an unknown field, or without its first."""
    value = _at(whole, path)
    told = ".".join(map(str, path))
    if not isinstance(value, dict) or not value:
        return
    if path[-1] not in _OWN_NAMES:
        yield _case(f"{told} has an unknown field", _changed(whole, path, value | {"zz": 1}), 422)
        without = {name: own for place, (name, own) in enumerate(value.items()) if place}
        if path[0] != "protocol" and path[-1] not in _ALL_DEFAULTS:
            yield _case(f"{told} lacks its first field", _changed(whole, path, without), 422)
    marked = json.dumps(_changed(whole, path, value | {"\0": 0}))
    yield _case(f"{told} has a name with NUL", marked.encode(), 422)


def _cut(body: bytes) -> Iterator[Case]:
    for end in range(1, len(body), 61):
        yield _case(f"only {end} bytes", body[:end], 400)
        yield _case(f"no UTF-8 at {end}", body[:end] + b"\xff" + body[end:], 400)


def _contradictions(whole: dict[str, Any]) -> Iterator[Case]:
    sample = whole["samples"][0]
    changes: dict[str, dict[str, Any]] = {
        "of another workload": {"case": whole["case"] | {"workload": "resnet50"}},
        "of other axes": {"case": whole["case"] | {"axes": {"precision": "bf16"}}},
        "of no preset": {"case": whole["case"] | {"preset": "auto"}},
        "ok without samples": {"samples": []},
        "of one metric twice": {"samples": [sample, sample]},
        "of 201 samples": {"samples": [sample | {"metric": f"m{i}"} for i in range(201)]},
        "of no values": {"samples": [sample | {"values": []}]},
        "of 51 values": {"samples": [sample | {"values": [1.0] * 51}]},
        "of two half-widths too many": {"samples": [sample | {"half_widths": [1.0] * 3}]},
        "of values beyond the bounds": {"samples": [sample | {"values": [1e101]}]},
        "of 51 replicates": {"replicates": whole["replicates"] * 51},
        "of 101 flags": {"flags": ["a"] * 101},
        "of 2,001 facts": {"environment": {"facts": {f"sw.{i}": "" for i in range(2_001)}}},
        "of 20,000 wrong facts": {"environment": {"facts": {f"x.{i}": 0 for i in range(20_000)}}},
        "of a log too long": {"log_tail": "x" * 65_537},
        "of a log with NUL": {"reason": "a"},
        "of the future": {"measured_at": "2200-01-01T00:00:00Z"},
        "of the past": {"measured_at": "1989-12-31T23:59:59Z"},
        "of no time": {"measured_at": "2026-11-20"},
        "of another version": {"schema_version": 2},
        "of version true": {"schema_version": True},
        "of an unknown status": {"status": "fine"},
        "of a long reason": {"reason": "x" * 501},
    }
    del changes["of a log with NUL"]
    for name, change in changes.items():
        yield _case(name, whole | change, 422)
    yield _case("of a log with NUL", whole | {"log_tail": "a\0b"}, 422)
    for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
        body = json.dumps(whole | {"samples": [sample | {"values": ["@"]}]}).replace('"@"', text)
        yield _case(f"with the value {text}", body.encode(), 400, 422)
