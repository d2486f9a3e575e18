"""Measures gangs on the GPUs of this machine: scaling, its account, and a plain loop beside ours.

``python -m trials.gangs.scaling FILE [ROW ...] --gpus 2 --until 560`` appends one JSON line to FILE
for each launch, as it ends, in rounds over the rows: a run that is stopped keeps what it has, and
one that is started again goes on behind it. ``--table`` prints what FILE has: means with 95 %
intervals over launches. ``--device cpu`` tries it with tiny presets.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import lead
from benchmarks.catalog import catalog
from benchmarks.contracts import Account, Case, ProcessSpec, Protocol, Result, Status
from service.analysis.summary import summarise_values

BRIEF = Protocol(
    warmup_min_s=2.0,
    warmup_max_s=20.0,
    settle_max_s=0.0,
    window_min_s=3.0,
    window_max_s=6.0,
    window_min_steps=20,
    precision=0.002,
)
"""A launch loads torch several times; more launches tell more than longer ones."""
SMALL = Protocol(
    warmup_min_steps=4,
    warmup_min_s=0.1,
    warmup_max_steps=10,
    settle_max_s=0.0,
    window_min_s=0.2,
    window_max_s=0.5,
    window_min_steps=4,
    window_min_blocks=2,
    window_max_blocks=4,
    block_min_steps=2,
    block_min_s=0.01,
)
"""The same on a CPU, where nothing but the path is tried."""

LAUNCHES, PAIRS = 5, 7
FIRST_S = 60.0
"""Seconds that the first launch of a row is expected to take."""
NANOGPT = "nanogpt precision=bf16 optimizer=fused compile=default pinning=on workers=2"
EAGER = "nanogpt precision=bf16 optimizer=fused pinning=on workers=2"
IMAGES = "precision=bf16 layout=channels_last optimizer=fused pinning=on workers=16"
RESNET, UNET = f"resnet50 {IMAGES} decode=cache", f"unet {IMAGES} batch=512"
"""Eager. With U-Net's own batch of 128 each step waits for the host, and scaling tells of that."""
GOOD = (Status.OK.value, "timed")


@dataclass(frozen=True)
class Row:
    """Launches of one case."""

    words: str
    launches: int = LAUNCHES
    account: bool = False
    beside: str = ""
    """What runs beside each launch, before or after it in turn: a plain loop, or the same case on
    one GPU without a wrapper (``unwrapped``)."""
    gpus: int | None = None
    """In place of the number that is asked for."""


ROWS: Mapping[str, Row] = {
    "nanogpt-weak": Row(f"{NANOGPT} parallel=ddp", PAIRS, beside="plain"),
    "nanogpt-one": Row(f"{NANOGPT} parallel=ddp", PAIRS, beside="unwrapped", gpus=1),
    "resnet50-weak": Row(f"{RESNET} parallel=ddp"),
    "unet-b512": Row(f"{UNET} parallel=ddp"),
    "nanogpt-account": Row(f"{NANOGPT} parallel=ddp", account=True),
    "nanogpt-strong": Row(f"{NANOGPT} parallel=ddp scaling=strong"),
    "resnet50-strong": Row(f"{RESNET} parallel=ddp scaling=strong"),
    "unet-b512-strong": Row(f"{UNET} parallel=ddp scaling=strong"),
    "nanogpt-b64": Row(f"{NANOGPT} parallel=ddp batch=64"),
    "fsdp2": Row(f"{NANOGPT} parallel=fsdp2", 1),
    "fsdp2-kept": Row(f"{NANOGPT} parallel=fsdp2 reshard=off", 1),
    "tp": Row(f"{EAGER} parallel=tp", 1),
    "pp": Row(f"{EAGER} parallel=pp", 1),
}


def main() -> int:
    """Measure the rows that are asked for, or tell what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="by default all")
    parser.add_argument("--gpus", type=int, default=2, choices=(2, 4, 8))
    parser.add_argument("--until", type=float, default=math.inf, help="seconds; none starts later")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--launches", type=int, help="of each row, in place of its own number")
    parser.add_argument("--table", action="store_true", help="print what the file has")
    asked = parser.parse_args()
    if not asked.table:
        _measure(asked, time.monotonic())
    print(table(_read(asked.file)))
    return 0


def _measure(asked: argparse.Namespace, from_s: float) -> None:
    """Launch in rounds over the rows, until all are done or the next would end too late."""
    wanted = {name: ROWS[name] for name in asked.rows or ROWS}
    done = Counter(row["row"] for row in _read(asked.file) if row["kind"] == "ours")
    took_s: dict[str, float] = {}
    for turn in range(max(asked.launches or row.launches for row in wanted.values())):
        for name, row in wanted.items():
            begun_s = time.monotonic()
            over = turn >= (asked.launches or row.launches) or turn < done[name]
            if over or begun_s - from_s + took_s.get(name, FIRST_S) > asked.until:
                continue
            for told in _launched(row, turn, asked):
                told |= {"row": name, "gpus": row.gpus or asked.gpus, "launch": turn}
                with asked.file.open("a") as file:
                    file.write(json.dumps(told) + "\n")
                print(json.dumps(told)[:400], file=sys.stderr, flush=True)
            took_s[name] = time.monotonic() - begun_s


def _launched(row: Row, turn: int, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What one launch of a row gave: ours, and what runs beside it."""
    case = _case(row, asked)
    besides = {"plain": _plain, "unwrapped": _unwrapped}
    parts = [_ours, *([besides[row.beside]] if row.beside else [])]
    for part in parts if turn % 2 == 0 else reversed(parts):
        yield part(case, row, turn, asked)


def _case(row: Row, asked: argparse.Namespace) -> Case:
    workload, *axes = row.words.split()
    settings = dict(one.split("=", 1) for one in axes)
    small = {"workers", "pinning", "optimizer", "compile", "batch"} if asked.device == "cpu" else ()
    kept = {name: value for name, value in settings.items() if name not in small}
    gpus = str(row.gpus or asked.gpus)
    case = Case(workload=workload, axes=kept | ({"gpus": gpus} if gpus != "1" else {}))
    return catalog.normalise(case, asked.device)


def _unwrapped(case: Case, row: Row, turn: int, asked: argparse.Namespace) -> dict[str, Any]:
    """The same case on one GPU without a wrapper."""
    kept = {name: value for name, value in case.axes.items() if name != "parallel"}
    alone = case.model_copy(update={"axes": kept})
    spec = ProcessSpec(case=alone, protocol=_protocol(row, asked), seed=turn, device=asked.device)
    document = spec.model_dump_json(exclude_none=True)
    words = [sys.executable, "-m", "benchmarks", "-"]
    run = subprocess.run(words, input=document, capture_output=True, text=True, check=False)
    told: dict[str, Any] = {"kind": "unwrapped", "case": alone.key}
    if run.returncode:
        return told | {"status": "failed", "reason": run.stderr[-2_000:]}
    result = Result.model_validate_json(run.stdout)
    told |= {"status": result.status.value, "reason": result.reason}
    if result.status is Status.OK:
        told["step_s"] = result.batch_items / result.replicates[0].synth.rate
    return told


def _protocol(row: Row, asked: argparse.Namespace) -> Protocol:
    of = SMALL if asked.device == "cpu" else BRIEF
    return of.model_copy(update={"account": row.account})


def _ours(case: Case, row: Row, turn: int, asked: argparse.Namespace) -> dict[str, Any]:
    """The Result of one launch, without its traces."""
    device = "cpu" if asked.device == "cpu" else None
    spec = ProcessSpec(case=case, protocol=_protocol(row, asked), seed=turn, device=device)
    from_s = time.monotonic()
    result = Result.model_validate_json(lead.measured(spec))
    told: dict[str, Any] = {
        "kind": "ours",
        "case": result.case.key,
        "status": result.status.value,
        "reason": result.reason,
        "flags": list(result.flags),
        "wall_s": round(time.monotonic() - from_s, 1),
    }
    if result.status is not Status.OK:
        return told | {"log_tail": result.log_tail[-2_000:]}
    (replicate,) = result.replicates
    facts = result.environment.facts
    shown = ("hw.gpu.name", "sw.torch", "sw.nccl", "hw.gpu.driver")
    return told | {
        "measured_at": result.measured_at.isoformat(),
        "environment": {name: facts[name] for name in shown if name in facts},
        "batch_items": result.batch_items,
        "samples": {one.metric: one.values[0] for one in result.samples},
        "synth_step_s": result.batch_items / replicate.synth.rate,
        "full_step_s": result.batch_items / replicate.full.rate,
        "ranks": [rank.model_dump() for rank in replicate.synth.ranks],
        "account": replicate.account and _account(replicate.account),
        "gang_trace": replicate.gang_trace and replicate.gang_trace.model_dump(mode="json"),
    }


def _account(account: Account) -> dict[str, float]:
    """The account's parts in seconds, with its residual."""
    return {**account.model_dump(exclude_none=True), "residual_s": account.residual_s}


def _plain(case: Case, _row: Row, turn: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a step of the plain loop."""
    kept = {name: value for name, value in case.axes.items() if name not in ("gpus", "parallel")}
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words += ["--nproc-per-node", str(asked.gpus), "-m", "trials.gangs.plain_ddp", case.workload]
    words += [f"{name}={value}" for name, value in kept.items()]
    span_s = 4.0 if asked.device == "cuda" else 0.3
    words += ["--preset", case.preset, "--device", asked.device, "--span-s", str(span_s)]
    from_s = time.monotonic()
    run = subprocess.run(
        [*words, "--seed", str(turn)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // asked.gpus))},
    )
    told = {"kind": "plain", "case": case.key, "wall_s": round(time.monotonic() - from_s, 1)}
    if run.returncode:
        return told | {"status": "failed", "reason": run.stderr[-2_000:]}
    return told | {"status": "timed", **json.loads(run.stdout.splitlines()[-1])}


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and 95 % half-width by Student's t; the latter is infinite for a single value."""
    told = summarise_values(values)
    return told.value, math.inf if told.high is None else told.high - told.value


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the launches of each row say together, as Markdown."""
    lines = ["| row | GPUs | launches | quantity | mean ± 95 % |", "|---|---|---|---|---|"]
    for name, gpus in dict.fromkeys((row["row"], row["gpus"]) for row in rows):
        of = [row for row in rows if (row["row"], row["gpus"]) == (name, gpus)]
        for quantity, values in _quantities(of).items():
            mean, half = interval(values)
            lines.append(
                f"| {name} | {gpus} | {len(values)} | {quantity} | {mean:.5g} ± {half:.2g} |"
            )
        failed = [row for row in of if row["status"] not in GOOD]
        lines += [f"| {name} | {gpus} | 1 | {row['status']} | {_short(row)} |" for row in failed]
    return "\n".join(lines)


def _short(row: Mapping[str, Any]) -> str:
    return str(row["reason"]).strip().rpartition("\n")[2][:200]


def _quantities(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Values by launch of each quantity of one row."""
    ours = {row["launch"]: row for row in rows if row["kind"] == "ours" and row["status"] in GOOD}
    told: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] != "ours" and row["status"] in GOOD and row["launch"] in ours:
            ratio = ours[row["launch"]]["synth_step_s"] / row["step_s"]
            told.setdefault(f"ours / {row['kind']}", []).append(ratio)
    for row in ours.values():
        measured = {
            "scaling efficiency": row["samples"].get("scaling_efficiency"),
            "step without input, ms": row["synth_step_s"] * 1e3,
            "J/item": row["samples"].get("energy_per_item"),
        }
        account = row["account"] or {}
        measured |= {f"{part[:-2]}, µs": seconds * 1e6 for part, seconds in account.items()}
        for quantity, value in measured.items():
            if value is not None:
                told.setdefault(quantity, []).append(value)
    return told


if __name__ == "__main__":
    sys.exit(main())
