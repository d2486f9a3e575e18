"""Gates of real code on this machine's device: a service, a worker, and two checkouts.

``PYTHONPATH=.:tests python -m trials.gate.live FILE 'NAME KIND' ...`` runs one gate for each
argument, such as ``nanogpt equal``, ``resnet50 planted`` or ``smoke equal``, and appends a line for
each case of a gate and a line a pair to FILE; the logs of service and workers lie beside it. With
``planted`` the contender does one percent more work in each step, by its own code; its baseline has
such buffers too, smaller ones. The gates of one kind of work share one baseline, and each has a
contender of its own. The name of a suite gives one gate of all its cases.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contracts import Result
from trials.agreement.planted import Kind
from trials.agreement.record import MORE, work_rate
from trials.live_service import here, service_and_workers, throughline
from trials.stored_results import get

ROOT = Path(__file__).parents[2]
PLANTED = """
_trainer = graphs.trainer


def _slower(recipe: Recipe, device: torch.device) -> Trainer:
    from trials.agreement import planted

    trainer = _trainer(recipe, device)
    step, more = trainer.step, planted.work(planted.Kind("{kind}"), {amount}, device)

    def stepped(batch: object) -> object:
        more()  # outside of what is compiled, which would do equal pieces once
        return step(batch)

    trainer.step = stepped if "{side}" == "B" else step  # {revision}
    trainer.beside = more
    return trainer


graphs.trainer = _slower
"""


class Subject(NamedTuple):
    """The case or suite of a gate, and the kind of work that one percent more consists of."""

    words: str
    kind: Kind
    option: str = "--case"


SUBJECTS = {
    "nanogpt": Subject(
        "nanogpt compile=default optimizer=fused pinning=on precision=bf16 workers=2", Kind.PRODUCTS
    ),
    "nanogpt-eager": Subject(
        "nanogpt optimizer=fused pinning=on precision=bf16 workers=2", Kind.PRODUCTS
    ),
    "resnet50": Subject(
        "resnet50 decode=cache layout=channels_last optimizer=fused pinning=on precision=bf16 "
        "workers=8",
        Kind.COPIES,
    ),
    "unet": Subject("unet optimizer=fused pinning=on workers=4", Kind.COPIES),
    "gang": Subject(
        "nanogpt compile=default gpus=2 optimizer=fused parallel=ddp pinning=on precision=bf16 "
        "workers=2",
        Kind.PRODUCTS,
    ),
    "tiny": Subject("nanogpt:tiny", Kind.PRODUCTS),
    "tiny-gang": Subject("nanogpt:tiny gpus=2 parallel=ddp batch=2", Kind.PRODUCTS),
    "smoke": Subject("smoke", Kind.PRODUCTS, "--suite"),
}


def main() -> None:
    """Run the gates that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("gates", nargs="+", metavar="'NAME equal|planted'")
    parser.add_argument("--budget", default="6m")
    parser.add_argument("--devices", help="such as cuda:0,cuda:1: a worker each")
    parser.add_argument("--gpus", help="such as 0,1: one worker offers them together")
    parser.add_argument("--alone", action="store_true", help="one process after the other")
    parser.add_argument("--port", type=int, default=8799)
    parser.add_argument("--until", type=float, default=float("inf"), help="no gate begins later, s")
    arguments = parser.parse_args()
    if arguments.gpus and arguments.devices not in (None, "cpu"):
        parser.error("--gpus and --devices exclude one another, but for --devices cpu")
    first = f"cuda:{arguments.gpus.partition(',')[0]}" if arguments.gpus else "auto"
    arguments.devices = arguments.devices or first
    with tempfile.TemporaryDirectory() as folder:
        checkouts = Path(folder) / "checkouts"
        checkouts.mkdir()
        settings = {"THROUGHLINE_WORKER_TARGET": f"{checkouts}/{{revision}}"}
        devices = enumerate(arguments.devices.split(","))
        gpus = ["--gpus", arguments.gpus] if arguments.gpus else []
        workers = [["--name", f"gpu-{n}", "--device", device, *gpus] for n, device in devices]
        try:
            with service_and_workers(Path(folder), arguments.port, settings, workers):
                run_gates(checkouts, arguments)
        finally:
            for log in Path(folder).glob("*.log"):
                shutil.copy(log, f"{arguments.file}-{log.name}")


def run_gates(checkouts: Path, arguments: argparse.Namespace) -> None:
    """Run each gate, and append what it said to the file."""
    from_s = time.monotonic()
    rates: dict[Kind, float] = {}
    for number, words in enumerate(arguments.gates):
        name, kind = words.split()
        if time.monotonic() - from_s > arguments.until:
            print(f"left out, for lack of time: {words}", flush=True)
            continue
        subject = SUBJECTS[name]
        step_s = _step_s(arguments.file, name) if kind == "planted" else 0.0
        if kind == "planted" and subject.kind not in rates:
            rates[subject.kind] = work_rate(subject.kind, arguments.devices.split(",")[0])
        amount = round(MORE * step_s * rates.get(subject.kind, 0.0))
        revisions = deploy(checkouts, subject.kind, amount, f"new-{number}")
        rows = gate(name, kind, revisions, arguments)
        with arguments.file.open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(row | {"planted": amount}) + "\n" for row in rows)


def _step_s(file: Path, name: str) -> float:
    """The step time that an earlier gate of equal code told; such a gate has to come first."""
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return next(
        sum(row["baseline_s"]) / len(row["baseline_s"])
        for row in rows
        if row["what"] == "pair" and row["name"] == name
    )


def deploy(checkouts: Path, kind: Kind, amount: int, contender: str) -> tuple[str, str]:
    """Make a checkout of each side that is not there; only what the contender does in a step
    differs."""
    baseline = f"old-{kind}"
    for revision, side in ((baseline, "A"), (contender, "B" if amount else "A")):
        if not (checkouts / revision).exists():
            _copy_code(checkouts / revision, kind, max(amount, 8), side)
    time.sleep(2.0)  # the worker looks for new checkouts once a second
    return baseline, contender


def _copy_code(checkout: Path, kind: Kind, amount: int, side: str) -> None:
    """Copy what is measured, and append the work of ``side`` to it."""
    target = checkout / "benchmarks"
    shutil.copytree(ROOT / "benchmarks", target, ignore=shutil.ignore_patterns("results"))
    more = PLANTED.format(kind=kind, amount=amount, side=side, revision=checkout.name)
    with (target / "measure" / "session.py").open("a", encoding="utf-8") as code:
        code.write(more)


def gate(
    name: str, kind: str, revisions: tuple[str, str], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Run one gate; yields what it said of each case, and its pairs."""
    words = ["gate", "--baseline", revisions[0], "--contender", revisions[1]]
    words += ["--url", here(options.port)]
    words += [SUBJECTS[name].option, SUBJECTS[name].words]
    words += ["--budget", options.budget, "--format", "json"]
    words += ["--no-duet"] if options.alone else []
    from_s, began_at = time.monotonic(), datetime.now(UTC).isoformat()
    run = throughline(words, ROOT)
    took_s = time.monotonic() - from_s
    decision = json.loads(run.stdout)["decision"]
    facts = {"gate": kind, "revisions": revisions, "began_at": began_at}
    print(f"{name} {kind}: {decision['outcome']} after {took_s:.1f} s", flush=True)
    for case in decision["cases"]:
        print(f"  {case['case_key']}, {case['pairs']} pairs: {case['sentence']}", flush=True)
        yield facts | {
            "name": _name(name, case["case_key"]),
            "what": "gate",
            "outcome": decision["outcome"],
            "verdict": case["verdict"],
            "pairs": case["pairs"],
            "took_s": took_s,
            "sentence": case["sentence"],
            "case": case["case_key"],
        }
    used = {one["result_id"]: one for one in decision["used"] if one["result_id"]}
    for result_id, one in sorted(used.items(), key=lambda item: item[1]["pair"]):
        stored = get(f"{here(options.port)}/api/v1/results/{result_id}")
        result = Result.model_validate(stored["result"])
        named = {"name": _name(name, one["case_key"]), "what": "pair", "pair": one["pair"]}
        named["attempt"] = one["attempt"]
        yield facts | named | _pair(result)


def _name(subject: str, case: str) -> str:
    return case if SUBJECTS[subject].option == "--suite" else subject


def _pair(result: Result) -> dict[str, Any]:
    baseline = result.baseline or result
    return {
        "gpu": result.environment.facts.get("hw.gpu.uuid", ""),
        "device": result.environment.facts.get("hw.gpu.name", ""),
        "measured_at": result.measured_at.isoformat(),
        "case": result.case.key,
        "flags": [*baseline.flags, *result.flags],
        "startup": [baseline.startup, result.startup],
        "baseline_s": [turn.step_s for turn in baseline.turns],
        "contender_s": [turn.step_s for turn in result.turns],
        "baseline_hz": [turn.sm_clock_hz for turn in baseline.turns],
        "contender_hz": [turn.sm_clock_hz for turn in result.turns],
        "steps": [turn.steps for turn in result.turns],
        "turned_s": [result.turns[0].window.start_s, result.turns[-1].window.end_s],
        "reason": [baseline.reason, result.reason],
    }


if __name__ == "__main__":
    main()
