"""Named lists of cases that are measured together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.catalog import UnknownName
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
"""What fits six cases into four minutes on a GPU whose first steps take up to 18 s each."""
QUICK = Protocol(
    warmup_max_s=20.0,
    settle_max_s=0.0,
    window_min_steps=20,
    window_max_s=8.0,
    block_min_steps=2,
    precision=0.01,
)
"""One process a case and short windows, temperature not awaited: at most three quarters of a minute
a case, once it has compiled, also on a machine too busy to become steady."""
LADDER = QUICK.model_copy(update={"parity": True})
"""The same, and each rung is held against fp32 eager: a climb that changes the numbers is none."""
STANDARD = Protocol(replicates=3, parity=True)
"""Three processes a case, so that the interval holds what differs between processes."""

_PINNED = {"pinning": "on"}
_GPU_LOADER = {
    "resnet50": _PINNED | {"workers": "16"},
    "nanogpt": _PINNED | {"workers": "2"},
    "unet": _PINNED | {"workers": "16"},
}
"""What a GPU's full preset wants; the ladder holds it fixed over its rungs."""


@dataclass(frozen=True)
class Suite:
    """Cases in the order in which they are measured; each workload's baseline comes first."""

    name: str
    summary: str
    cases: tuple[Case, ...]
    protocol: Protocol


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

_IMAGE_LADDER = (_TF32, _BF16, _CHANNELS_LAST, _FUSED, _COMPILE)
_TOKEN_LADDER = (_TF32, _BF16, _FUSED, _COMPILE)

_ALL = (
    Suite(
        "smoke",
        "A first look in minutes: the fp32 eager baseline of each workload and one step up.",
        (
            *_rungs("resnet50", _MODEST_LOADER, _BF16 | _CHANNELS_LAST),
            *_rungs("nanogpt", _MODEST_LOADER, _BF16 | _FUSED),
            *_rungs("unet", _MODEST_LOADER, _BF16 | _CHANNELS_LAST),
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
        "Each workload's baseline, tuned and compiled, by four loaders, in three processes.",
        tuple(
            case
            for workload, steps in (
                ("resnet50", _BF16 | _CHANNELS_LAST | _FUSED),
                ("nanogpt", _BF16 | _FUSED),
                ("unet", _BF16 | _CHANNELS_LAST | _FUSED),
            )
            for case in _rungs(workload, _MODEST_LOADER, steps, _COMPILE)
        ),
        STANDARD,
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
