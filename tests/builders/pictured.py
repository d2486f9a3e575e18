"""Fills a service with the rows of benchmarks/results/h100 that the documentation pictures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from builders import history
from builders.measured import BATCH, a_pass, a_replicate, a_result
from pydantic import BaseModel
from sqlalchemy.orm import Session

from benchmarks.contracts import (
    Canary,
    Case,
    Efficiency,
    Environment,
    Input,
    LongParity,
    Pass,
    Profile,
    Result,
    Worker,
)
from benchmarks.diagnosis.conclude import concluded
from benchmarks.diagnosis.merge import samples
from cli.output import sweep_page
from cli.output.sweep_report import Sweep, SweepPoint
from service.jobs import workers
from worker.doctor.checks import Health, HealthCheck, Machine, examined
from worker.doctor.gpu import GpuState

Kind = TypeVar("Kind", bound=BaseModel)
Row = Mapping[str, Any]
ROWS = Path(__file__).parents[2] / "benchmarks" / "results" / "h100"
FACTS = {"hw.device": "cuda", "hw.gpu.name": "NVIDIA H100 80GB HBM3"}
AT = datetime(2026, 11, 27, 18, tzinfo=UTC)
STARVED = "resnet50:full layout=channels_last optimizer=fused pinning=on precision=bf16 workers=2"
ILL = GpuState(
    "NVIDIA H100 80GB HBM3",
    power_limit_w=500.0,
    default_power_limit_w=700.0,
    clock_limit_mhz=1_200,
    default_clock_limit_mhz=1_980,
    pcie_lanes=8,
    most_pcie_lanes=16,
    persistent=False,
)
"""A GPU with faults that the doctor tells, planted one by one in its tests."""


def rows(name: str) -> list[Row]:
    """Read the rows of a file, in its order."""
    return [json.loads(line) for line in (ROWS / f"{name}.jsonl").read_text().splitlines()]


def fill(session: Session) -> dict[str, str]:
    """Store the runs that pictures show, and their neighbours; ids by picture or by case."""
    seeding = history.Seeding(session, AT)
    history.introduce(session, AT)
    ill = [f"{one.subject}: {one.sentence} {one.remedy}" for one in _warnings()]
    labels = {"device": "cuda", "gpu": ILL.name, "host": "node-7"}
    workers.introduce(session, Worker(name="node-7", labels=labels, warnings=tuple(ill)), AT)
    ids = {}
    for name, row in _runs().items():
        kind = b"timed" if "full" in row else b"untimed"  # suggests nothing to the others
        revision = hashlib.sha1(kind).hexdigest()
        submission = seeding.submission(revision, AT)
        ids[name] = seeding.measured(submission, revision, _result(row))
    return ids


def _warnings() -> list[HealthCheck]:
    return [one for one in examined(Machine(gpu=ILL)) if one.health is not Health.OK]


def sweep() -> str:
    """Make the page that `throughline sweep nanogpt --over sequence=...` writes."""
    row = rows("sweeps")[0]
    points = []
    for point in row["points"]:
        said = point["throughput"]
        full = {"rate": said["value"], "half_width": (said["high"] - said["low"]) / 2}
        measured = _result(point | {"item": "token", "full": full})
        points.append(SweepPoint(point["value"], measured, point["took_s"]))
    return sweep_page.page(Sweep(row["axis"], points))


def _runs() -> dict[str, Row]:
    """The newest row of each case, and those of pictures with what it tells of their case."""
    inside = {_key(row): row for row in rows("inside") if row["status"] == "ok"}
    pictured = {
        "operations": rows("operations")[0],
        "waste": rows("operations")[2],
        "modules": rows("modules")[0],
        "memory": rows("memory")[0],
        "long-parity": rows("long-parity")[2],
    }
    return inside | {name: {**inside.get(_key(row), {}), **row} for name, row in pictured.items()}


def _key(row: Row) -> str:
    return Case.model_validate(row["case"]).key


def _result(row: Row) -> Result:
    """A result with what a row tells; a step takes 0.1 s where it does not say."""
    items = row.get("batch_items", BATCH)
    full = _pass(row.get("full", {}), items)
    replicate = a_replicate(full, _pass(row.get("synth", row.get("full", {})), items))
    parts = {name: row[name] for name in ("layers", "memory") if name in row}
    profile = _read(Profile, {**row.get("profile", {}), **parts})
    update: dict[str, object] = {"profile": profile}
    if row.get("input"):
        update["input"] = _read(Input, row["input"])
    replicate = replicate.model_copy(update=update)
    known: dict[str, object] = {
        "case": Case.model_validate(row["case"]),
        "item": row.get("item", "item"),
        "batch_items": items,
        "environment": Environment(facts=FACTS),
        "samples": samples(replicate, row.get("item", "item")),
        "replicates": (replicate,),
    }
    if "canary" in row:
        known["canary"] = Canary(measured_at=AT, readings=row["canary"])
    result = concluded(a_result(replicate).model_copy(update=known))
    said = {"efficiency": Efficiency, "long_parity": LongParity}
    return result.model_copy(
        update={name: _read(kind, row[name]) for name, kind in said.items() if row.get(name)}
    )


def _pass(row: Row, items: int) -> Pass:
    rate, half_width = row.get("rate", 10.0 * items), row.get("half_width", 0.0)
    times = {name: row.get(name, 0.0) for name in ("stall_s", "copy_s")}
    told = {"rate": rate, "half_width": half_width}
    return a_pass(items / rate, **times).model_copy(update=told)


def _read(kind: type[Kind], document: Row) -> Kind:
    return kind.model_validate_json(json.dumps(document))
