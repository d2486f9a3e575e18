"""The expected duration of a case, from its protocol. Pure, without torch.

The constants are means over the 16 cases of the suite `ladder` that an H200 measured on 2026-11-20
(2 to 16 loader processes), from the lease to the result; where there is history, the service uses
that instead.
"""

from __future__ import annotations

from benchmarks.contracts import Case, Duet, Protocol

START_S = 20.0
"""Start of the process, torch, model and loader processes, and their end."""
FIRST_STEP_S = {"off": 8.0, "default": 40.0, "reduce-overhead": 45.0, "max-autotune": 600.0}
"""By ``compile``: choosing algorithms, compiling with an empty cache."""
WARM_CACHE = 0.5
"""Share of compiling that a later process of the same case still pays."""
WARM_UP = 2.5
"""Warm-up over its floor in seconds ..."""
SETTLING = 0.15
"""... and the share of the longest wait for a steady temperature, from 22 processes of three cases
on two H200s (benchmarks/results/h200/protocols.jsonl)."""
WINDOW = 1 / 3
"""How far a pass goes from its floor to its limit in seconds."""
SEARCH_S = {"auto": 30.0, "fastest": 45.0}
"""Trial steps of a search, by ``batch``; the first process keeps what ``fastest`` found."""

BESIDE_S = {
    "phases": 6.0,
    "profile": 12.0,
    "parity": 15.0,
    "efficiency": 4.0,
    "long_parity": 720.0,
    "trace": 14.0,
}
"""Seconds of the passes beside timing in a job's first process, from climbs of `diagnose` on an
H200; parity takes 40 s with a new reference, and 10 s with a known one.
Each of three looks of long parity takes its limit twice at most, for references and case. A trace's
steps of FULL were timed on two busy cores of a CPU alone (`nanogpt:tiny`, four loaders)."""


PAIR_START_S = 14.0
"""Start and end of both processes of a pair, which start at the same time."""
PAIR_FIRST_STEP_S = 3.0
"""A first step beside what compiling takes."""
TURN_S = 0.55
"""Length of a turn of short steps: those that count, those before them, and handing over."""


def pair_s(case: Case) -> tuple[float, float]:
    """Seconds that a GPU worker needs for the first pair of ``case``, which compiles, and for each
    later one; both are measured in turn.

    The constants are means over 37 pairs of three cases on an H100 (benchmarks/results/h100).
    """
    mode = case.axes.get("compile", "off")
    compiling_s = FIRST_STEP_S.get(mode, FIRST_STEP_S["off"])
    again_s = PAIR_FIRST_STEP_S if mode == "off" else 2 * PAIR_FIRST_STEP_S
    turns_s = 2 * (Duet(baseline="any").turns + 1) * TURN_S
    return PAIR_START_S + compiling_s + turns_s, PAIR_START_S + again_s + turns_s


def expected_s(case: Case, protocol: Protocol) -> float:
    """Seconds that a GPU worker needs for ``case``, all its replicates included."""
    mode = case.axes.get("compile", "off")
    first_s = FIRST_STEP_S.get(mode, FIRST_STEP_S["off"])
    later_s = first_s if mode == "off" else first_s * WARM_CACHE
    steps_s = first_s + (protocol.replicates - 1) * later_s
    settle_s = SETTLING * protocol.settle_max_s
    warm_up_s = min(protocol.warmup_max_s, WARM_UP * protocol.warmup_min_s + settle_s)
    window_s = protocol.window_min_s + WINDOW * (protocol.window_max_s - protocol.window_min_s)
    batch = case.axes.get("batch", "")
    search_s = SEARCH_S.get(batch, 0.0) / (protocol.replicates if batch == "fastest" else 1)
    replicate_s = START_S + search_s + warm_up_s + 2 * max(protocol.window_min_s, window_s)
    beside_s = sum(s for name, s in BESIDE_S.items() if getattr(protocol, name))
    return _parts(case, protocol) * (protocol.replicates * replicate_s + steps_s) + beside_s


def _parts(case: Case, protocol: Protocol) -> int:
    """Count what one launch measures, as `benchmarks.lead.rounds` lists it."""
    if case.gpus == 1:
        return 1
    if not protocol.account:
        return 2
    return 4 if case.axes.get("parallel") == "ddp" else 3
