"""Finds what limits a model: evidence in, one verdict out. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from benchmarks.contracts import Bottleneck, Replicate, Verdict
from benchmarks.diagnosis import bottleneck as diagnosis_bottleneck
from benchmarks.diagnosis.bottleneck import Ceilings, Finding

INPUT_SHARE = 0.10
"""Share of the step that vanishes with the loader, above which a case is input-bound."""
INPUT_STALL = 0.05
"""Share of the step in which the device stands idle for input: the second, independent sign."""
MILD_SHARE = 0.05
"""Between this and `INPUT_SHARE` the input is named with low confidence."""
NOISE_SHARE = 0.5
"""FULL and SYNTH must differ by twice their uncertainty; by once it, with low confidence, if the
device stood idle for input."""
WORTH_NAMING = 0.01
"""Least share of the step for which a part of the input stall is named."""
_LOADER_PARTS = {
    "stall": "waiting for batches",
    "copy": "copying them to the device",
    "contention": "a step slowed by the loader's use of the processor",
}
HOST_SYNC = "host_sync_per_step"
"""Flag of a replicate whose step waits for the device by itself."""


def input_stall(full_rate: float, synth_rate: float) -> float:
    """Share of the FULL step time that vanishes with the loader: 1 - T_synth / T_full."""
    return 1.0 - full_rate / synth_rate


def diagnose(replicates: Sequence[Replicate], ceilings: Ceilings | None = None) -> Verdict:
    """Say what limits the case that these replicates measured.

    Without ``ceilings``, the achievable rates of the device, or without a profile, a device-bound
    case is not analysed further.
    """
    evidence = _evidence(replicates)
    noise = max(_noise(replicate) for replicate in replicates)
    bounds = {"without_input_stall": max(1.0, 1.0 / (1.0 - evidence["input_stall"]))}
    seen = diagnosis_bottleneck.seen(replicates, ceilings)
    if seen is not None:
        evidence, bounds = evidence | seen.evidence, bounds | seen.bounds
    share, idle = evidence["input_stall"], evidence["stall"] + evidence["copy"]
    waits = any(HOST_SYNC in replicate.flags for replicate in replicates)
    slow_host = diagnosis_bottleneck.overhead(evidence, seen, waits=waits)
    if slow_host is not None and (
        # The device's own queue says so; what FULL and SYNTH then differ by is the host's noise.
        (idle < INPUT_STALL and slow_host.confidence == "high") or _gaps_weigh_more(bounds, noise)
    ):
        return _verdict(
            slow_host.bottleneck, slow_host.confidence, slow_host.sentence, evidence, bounds
        )
    noisy = noise >= max(INPUT_SHARE, NOISE_SHARE * share)
    if noisy and not (idle >= INPUT_SHARE and share >= max(INPUT_SHARE, noise)):
        return _verdict(Bottleneck.UNKNOWN, "low", _too_noisy(noise), evidence, bounds)
    if share >= MILD_SHARE and idle >= INPUT_STALL:
        confidence = "high" if share >= INPUT_SHARE and not noisy else "low"
        return _input_bound(evidence, bounds, confidence)
    if share >= INPUT_SHARE:
        return _input_bound(evidence, bounds, "low")
    finding = (
        slow_host
        or diagnosis_bottleneck.device(seen)
        or _busy(evidence, waits=waits and seen is None)
    )
    return _verdict(finding.bottleneck, finding.confidence, finding.sentence, evidence, bounds)


def _gaps_weigh_more(bounds: Mapping[str, float], noise: float) -> bool:
    """Return True if surely more goes away without the device's gaps than without the loader."""
    return bounds.get("without_launch_gaps", 0.0) > bounds["without_input_stall"] * (1.0 + noise)


def _busy(evidence: Mapping[str, float], *, waits: bool) -> Finding:
    """The device is the limit, and no profile tells what of it."""
    if waits:
        sentence = (
            "The gradient scaler makes the host wait for the device in every step, so that host "
            "overhead cannot be told apart; the loader is not the limit."
        )
        return Finding(Bottleneck.DEVICE, "low", sentence)
    sentence = (
        "The device works without waiting: the loader accounts for "
        f"{max(evidence['input_stall'], 0.0):.1%} of the step."
    )
    return Finding(Bottleneck.DEVICE, "high", sentence)


def _input_bound(evidence: dict[str, float], bounds: dict[str, float], confidence: str) -> Verdict:
    sentence = (
        f"{evidence['input_stall']:.0%} of the step goes away with the loader"
        f"{_where_it_goes(evidence)}. Without that, x{bounds['without_input_stall']:.2f}."
    )
    return _verdict(Bottleneck.INPUT, confidence, sentence, evidence, bounds)


def _where_it_goes(evidence: Mapping[str, float]) -> str:
    parts = sorted(((evidence[part], words) for part, words in _LOADER_PARTS.items()), reverse=True)
    named = [f"{words} {share:.0%}" for share, words in parts if share >= WORTH_NAMING]
    return ": " + ", ".join(named) if named else ""


def _verdict(
    bottleneck: Bottleneck,
    confidence: str,
    sentence: str,
    evidence: dict[str, float],
    bounds: dict[str, float],
) -> Verdict:
    return Verdict.model_validate(
        {
            "bottleneck": bottleneck,
            "confidence": confidence,
            "sentence": sentence,
            "evidence": evidence,
            "bounds": bounds,
        }
    )


def _noise(replicate: Replicate) -> float:
    passes = replicate.full, replicate.synth
    widths = [math.inf if p.half_width is None else p.half_width / p.rate for p in passes]
    return math.hypot(*widths)


def _too_noisy(noise: float) -> str:
    if math.isinf(noise):
        return "The passes were too short to say how steady they are, so no limit can be named."
    return (
        f"FULL and SYNTH vary by {noise:.0%} within this run: too noisy to tell what limits it. "
        "Measure again on a quieter machine."
    )


def _evidence(replicates: Sequence[Replicate]) -> dict[str, float]:
    """Shares of the step, averaged over replicates."""
    full, synth = [r.full for r in replicates], [r.synth for r in replicates]
    step = [p.wall_s / p.steps for p in full]
    evidence = {
        "input_stall": fmean(input_stall(f.rate, s.rate) for f, s in zip(full, synth, strict=True)),
        "stall": fmean(p.stall_s / t for p, t in zip(full, step, strict=True)),
        "copy": fmean(p.copy_s / t for p, t in zip(full, step, strict=True)),
        "contention": fmean(
            (f.work_s - s.work_s) / t for f, s, t in zip(full, synth, step, strict=True)
        ),
        "enqueue": fmean(p.enqueue_s * p.steps / p.wall_s for p in synth),
    }
    if all(math.isfinite(_noise(replicate)) for replicate in replicates):
        evidence["noise"] = max(_noise(replicate) for replicate in replicates)
    drained = [p.drained for p in synth if p.drained is not None]
    if drained:
        evidence["drained"] = fmean(drained)
    return evidence
