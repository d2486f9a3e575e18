"""Gates of a pull request as their comment shows them, with made-up cases."""

from __future__ import annotations

from typing import Any

from builders.forges import BASE, HEAD

from benchmarks.contracts import Direction
from service.schemas.comparisons import ComparisonRequest, ComparisonState
from service.schemas.gate import CaseFindingView, DecisionView, Outcome
from service.wording.pull_request import ShownFinding, ShownGate

LINK = "https://perf.example.com/comparisons/0192ab"
PULL = {"forge": "github", "repository": "acme/vision", "number": 12, "head": HEAD}
HOSTILE = "@acme/everyone see #1 and !2 | <b>x</b>\n/merge `rm` [here](http://evil.example)"
FOREIGN = "The sides ran on different devices: NVIDIA H200 and NVIDIA H100."
UNBUILT = "The contender could not be built: no remote of the worker has the commit."
OOM = "It failed on the contender: out of memory after 3 steps."


def case(
    key: str, verdict: str, change: float | None = None, says: str = "", **more: Any
) -> CaseFindingView:
    """A case; ``change`` is of its throughput, give or take a fifth."""
    metric = {
        "metric": "throughput",
        "unit": "img/s",
        "direction": Direction.HIGHER,
        "baseline": 4_675.0,
        "contender": 4_675.0 * (1 + (change or 0.0)),
        "pairs": 6,
        "change": change,
        "low": (change or 0.0) - 0.004,
        "high": (change or 0.0) + 0.004,
        "strict_low": (change or 0.0) - 0.005,
        "strict_high": (change or 0.0) + 0.005,
    }
    document = {
        "case_key": key,
        "verdict": verdict,
        "answer": "unknown",
        "settled": True,
        "pairs": 0 if change is None else 6,
        "sentence": says,
        "metrics": [] if change is None else [metric | more],
    }
    return CaseFindingView.model_validate(document, strict=False)


def gate(
    outcome: str | None, *cases: CaseFindingView, warnings: tuple[str, ...] = (), **more: Any
) -> ShownGate:
    """A gate of the suite smoke; without an outcome it runs."""
    known = {"baseline": BASE, "contender": HEAD, "suite": "smoke", "pull_request": PULL}
    request = ComparisonRequest.model_validate(known | more)
    if outcome is None:
        return ShownGate("0192ab", request, ComparisonState.RUNNING, 6, None, LINK)
    decision = DecisionView(
        outcome=Outcome(outcome),
        sentence="",
        cases=cases,
        warnings=warnings,
        false_alarm=0.01,
        false_pass=0.05,
    )
    return ShownGate("0192ab", request, ComparisonState.DECIDED, len(cases), decision, LINK)


def finding(state: str) -> ShownFinding:
    return ShownFinding(
        state,
        "unet:full is 5.1 % slower since cccccccccc",
        "Throughput of unet:full fell by 5.1 % (5.4 % to 4.8 %) with cccccccccc: code.",
        "unet:full precision=bf16",
        "c" * 40,
        BASE,
        "https://perf.example.com/findings/0192cd",
    )


def many(verdict: str, count: int, change: float | None = None) -> tuple[CaseFindingView, ...]:
    return tuple(case(f"nanogpt:full batch={2**n}", verdict, change) for n in range(count))


GATES = {
    "running": [gate(None)],
    "empty": [
        gate(
            "inconclusive",
            *(case(f"{name}:full", "missing", None, "No pair was measured.") for name in "ab"),
            warnings=("The budget of 20 min ended before every case was decided.",),
        )
    ],
    "partly failed": [
        gate(
            "inconclusive",
            case("resnet50:full layout=channels_last", "same", 0.001),
            case("unet:full precision=bf16", "failed", None, OOM),
            case("nanogpt:full", "unclear", -0.012, "Throughput -1.2 %, too wide an interval."),
        )
    ],
    "improved": [
        gate(
            "pass",
            case("resnet50:full layout=channels_last", "better", 0.042),
            case("unet:full precision=bf16", "same", -0.001),
            case("nanogpt:full", "unsupported", None, "Neither revision supports it."),
        )
    ],
    "foreign GPU": [gate("inconclusive", case("unet:full", "foreign", None, FOREIGN))],
    "forked": [gate("inconclusive", case("unet:full", "unbuildable", None, UNBUILT))],
    "regression": [
        gate(
            "regression",
            case("unet:full precision=bf16", "better", 0.021),
            case("resnet50:full layout=channels_last", "worse", -0.051),
            case("vit:full", "broken", None, OOM),
            case("bert:full", "missing", None, HOSTILE),
            *many("same", 9, 0.001),
        )
    ],
    "two gates": [
        gate("pass", *many("better", 14, 0.03), suite="nightly"),
        gate("regression", case("unet:full", "worse", -0.2)),
    ],
}
