"""Named lists of cases that are measured together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.catalog.catalog import UnknownName
from benchmarks.catalog.factorial import Design, Factor
from benchmarks.catalog.precision_tiers import Tier, timed
from benchmarks.contracts import Case, Protocol

FIRST_LOOK = Protocol(
    warmup_max_s=12.0,
    settle_max_s=0.0,
    window_min_s=4.0,
    window_min_steps=12,
    window_min_blocks=6,
    window_max_s=6.0,
    block_min_steps=2,
    precision=0.01,
)
"""Six cases take four minutes on a GPU whose first steps take up to 18 s each."""
QUICK = timed(Tier.QUICK, Protocol(efficiency=True))
"""One process a case and short windows, temperature not awaited: at most three quarters of a minute
a case, once it has compiled, also on a machine too busy to become steady."""
LADDER = QUICK.model_copy(update={"parity": True, "phases": True, "profile": True})
"""The same with parity: a rung that changes the numbers is no speed-up."""
NIGHT = timed(
    Tier.STANDARD, Protocol(parity=True, efficiency=True, phases=True, profile=True)
).model_copy(update={"replicates": 1})
"""One process a case: a series' history tells how processes differ, and a surprise is measured
again the same night. A second process of each case would take another half an hour on an H200;
three would narrow the interval around the next night by a third (benchmarks/results/intervals)."""

_PINNED = {"pinning": "on"}
_GPU_LOADER = {
    "resnet50": _PINNED | {"workers": "16"},
    "nanogpt": _PINNED | {"workers": "2"},
    "unet": _PINNED | {"workers": "16"},
}
"""Loader processes for a GPU's full preset; the ladder keeps their number."""


@dataclass(frozen=True)
class Suite:
    """Cases in the order in which they are measured; each workload's baseline comes first."""

    name: str
    summary: str
    cases: tuple[Case, ...]
    protocol: Protocol
    designs: tuple[Design, ...] = ()
    """The designs whose runs the cases are; reports estimate their effects."""


_MODEST_LOADER = {"workers": "4"}
"""What runs on a GPU and on a small CPU machine alike."""


def _rungs(workload: str, loader: Mapping[str, str], *steps: Mapping[str, str]) -> tuple[Case, ...]:
    """The baseline under ``loader``, then cases that each add one step to the case before."""
    settings = dict(loader)
    cases = []
    for step in ({}, *steps):
        settings |= step
        cases.append(Case(workload=workload, axes=dict(settings)))
    return tuple(cases)


_TF32 = {"precision": "tf32"}
_BF16 = {"precision": "bf16"}
_CHANNELS_LAST = {"layout": "channels_last"}
_FUSED = {"optimizer": "fused"}
_COMPILE = {"compile": "default"}
_DECODED = {"decode": "cache"}
_RECOMPUTE = {"checkpointing": "blocks"}

_IMAGE_LADDER = (_TF32, _BF16, _CHANNELS_LAST, _FUSED, _COMPILE)
_TOKEN_LADDER = (_TF32, _BF16, _FUSED, _COMPILE)

_IMAGE_TUNED = _BF16 | _CHANNELS_LAST | _FUSED
_TOKEN_TUNED = _BF16 | _FUSED


_FP16 = {"precision": "fp16"}
_FP8 = {"precision": "fp8"}
_CONTIGUOUS = {"layout": "contiguous"}
_REPLAYED = {"compile": "reduce-overhead"}
_GRAPHS = {"graphs": "on"}
_MATH = {"attention": "math"}
_FLASH = {"attention": "flash"}
_ZEROS = {"zero_grad": "zeros"}
_HALVES = {"accumulation": "2"}
_COLLECTED = {"gc": "on"}
_MORE_WORKERS = {"workers": "8"}
_PREFETCH = _PINNED | {"prefetch": "on"}
_AHEAD = {"prefetch_factor": "4"}

_IMAGE_FROM_PLAIN = (_BF16, _CHANNELS_LAST, _COMPILE, _DECODED, _MORE_WORKERS, _PINNED)
_IMAGE_FROM_TUNED = (_FP16, _COMPILE, _DECODED, _MORE_WORKERS, _PINNED, _PREFETCH, _AHEAD)
_TOKEN_FROM_PLAIN = (_BF16, _FUSED, _COMPILE, _RECOMPUTE, _MATH, _ZEROS)
_TOKEN_FROM_TUNED = (_FP8, _COMPILE, _RECOMPUTE, _FLASH, _ZEROS, _HALVES)
_UNET_FROM_PLAIN = (_CHANNELS_LAST, _COMPILE, _GRAPHS, _COLLECTED)
_UNET_FROM_TUNED = (_CONTIGUOUS, _COMPILE, _GRAPHS, _COLLECTED, _RECOMPUTE)
"""One factor each. Where the baseline has it already, another value; nanoGPT's bf16 from plain is
its tuned without the fused optimizer as well. What is not here, and why: docs/matrix.md."""

_IMAGE_BEST = _REPLAYED | _DECODED | _GPU_LOADER["resnet50"]
_TOKEN_BEST = _COMPILE | _GRAPHS | _PINNED
_UNET_BEST = _COMPILE | _GRAPHS | _GPU_LOADER["unet"]
"""Over tuned: where `diagnose` ended on an H200 (docs/matrix.md), with pinned batches."""


def _around(
    workload: str,
    tuned: Mapping[str, str],
    from_plain: Sequence[Mapping[str, str]],
    from_tuned: Sequence[Mapping[str, str]],
    best: Mapping[str, str],
) -> tuple[Case, ...]:
    """Two baselines, one factor at a time from each, and the best together, which comes last."""
    start = _MODEST_LOADER | dict(tuned)
    changes = ({}, *from_plain, start, *(start | dict(one) for one in (*from_tuned, best)))
    return tuple(Case(workload=workload, axes=_MODEST_LOADER | dict(one)) for one in changes)


_PRECISION = Factor("precision", "fp32", "bf16")
_LAYOUT = Factor("layout", "contiguous", "channels_last")
_OPTIMIZER = Factor("optimizer", "foreach", "fused")
_COMPILED = Factor("compile", "off", "default")
_DECODE = Factor("decode", "cpu", "cache")
_ZERO_GRAD = Factor("zero_grad", "set_to_none", "zeros")
_RECOMPUTED = Factor("checkpointing", "off", "blocks")
_WHOLE = ((0, 1, 2, 3, 4),)
"""Half of the combinations of five factors, resolution V: I = -ABCDE."""
_DESIGNS = (
    Design(
        "resnet50",
        (_PRECISION, _LAYOUT, _OPTIMIZER, _COMPILED, _DECODE),
        _WHOLE,
        _GPU_LOADER["resnet50"],
    ),
    Design(
        "nanogpt",
        (_PRECISION, _OPTIMIZER, _COMPILED, _RECOMPUTED, _ZERO_GRAD),
        _WHOLE,
        _GPU_LOADER["nanogpt"],
    ),
    Design(
        "unet",
        (_PRECISION, _LAYOUT, _OPTIMIZER, _COMPILED, _RECOMPUTED),
        _WHOLE,
        _GPU_LOADER["unet"],
    ),
)

_ALL = (
    Suite(
        "smoke",
        "A first look in minutes, or a gate: the fp32 eager baseline of each workload and one step "
        "from it.",
        (
            *_rungs("resnet50", _MODEST_LOADER | _DECODED, _BF16 | _FUSED),
            *_rungs("nanogpt", _MODEST_LOADER, _BF16 | _FUSED),
            # The U-Net in bf16 waits for the host: its pairs differ by 6 to 12 %. In fp32 with
            # channels_last, cuDNN takes 32 s to choose algorithms.
            *_rungs("unet", _MODEST_LOADER, _FUSED),
        ),
        FIRST_LOOK,
    ),
    Suite(
        "ladder",
        "fp32 eager, then tf32, bf16, channels_last, fused optimizer, compile: one step at a time.",
        (
            *_rungs("resnet50", _GPU_LOADER["resnet50"], *_IMAGE_LADDER),
            *_rungs("nanogpt", _GPU_LOADER["nanogpt"], *_TOKEN_LADDER),
            *_rungs("unet", _GPU_LOADER["unet"], *_IMAGE_LADDER),
        ),
        LADDER,
    ),
    Suite(
        "nightly",
        "One factor at a time from fp32 eager and from tuned, on every axis but the batch, and the "
        "best together.",
        (
            *_around("resnet50", _IMAGE_TUNED, _IMAGE_FROM_PLAIN, _IMAGE_FROM_TUNED, _IMAGE_BEST),
            *_around("nanogpt", _TOKEN_TUNED, _TOKEN_FROM_PLAIN, _TOKEN_FROM_TUNED, _TOKEN_BEST),
            *_around("unet", _IMAGE_TUNED, _UNET_FROM_PLAIN, _UNET_FROM_TUNED, _UNET_BEST),
        ),
        NIGHT,
    ),
    Suite(
        "full",
        "Five factors of each workload varied together, and the effect of each and of each pair.",
        tuple(case for design in _DESIGNS for case in design.cases()),
        QUICK,
        _DESIGNS,
    ),
)


def suites() -> Mapping[str, Suite]:
    """Every suite, by name."""
    return {suite.name: suite for suite in _ALL}


def suite(name: str) -> Suite:
    """The suite of that name.

    Raises:
        UnknownName: there is none.
    """
    try:
        return suites()[name]
    except KeyError:
        choices = ", ".join(suites())
        raise UnknownName(f"There is no suite {name!r}; choose one of: {choices}.") from None
