"""Finds what limits a model: evidence in, one verdict out. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

from benchmarks.contracts import Bottleneck, Pass, Replicate, Verdict
from benchmarks.diagnosis import bottleneck, code_changes, loader_processes
from benchmarks.diagnosis.bottleneck import Evidence, Finding, Seen
from benchmarks.diagnosis.disturbances import THROTTLED
from benchmarks.diagnosis.roofline import Ceilings

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
    bounds = {"without_input_stall": max(1.0, 1.0 / (1.0 - evidence["input_stall"]))}
    forecast = loader_processes.of_case(replicates)
    if forecast is not None:
        best = forecast.speedup(forecast.enough)
        evidence["more_workers"] = 1.0 - 1.0 / best
        if best >= 1 + loader_processes.NOTHING:
            bounds["with_one_more_worker"] = forecast.speedup(forecast.workers + 1)
            bounds["with_enough_workers"] = best
    seen = bottleneck.seen(replicates, ceilings)
    if seen is not None:
        evidence, bounds = evidence | seen.evidence, bounds | seen.bounds
    finding = _finding(replicates, seen, evidence, bounds)
    if forecast is not None and finding.bottleneck is Bottleneck.INPUT:
        finding = replace(finding, sentence=f"{finding.sentence} {forecast.sentence}")
    changes = code_changes.worth_a_try(finding.bottleneck, replicates, seen, evidence, bounds)
    return Verdict(
        bottleneck=finding.bottleneck,
        confidence=finding.confidence,
        sentence=(finding.sentence + _held_back(replicates))[:500],
        evidence=evidence,
        bounds=bounds,
        suggestions=changes,
    )


def _finding(
    replicates: Sequence[Replicate], seen: Seen | None, evidence: Evidence, bounds: Evidence
) -> Finding:
    """Find the limit: the host or the loader, whichever weighs more, else the device."""
    if (compiler := bottleneck.recompiling(replicates, evidence)) is not None:
        return compiler
    noise = max(_noise(replicate) for replicate in replicates)
    share, idle = evidence["input_stall"], evidence["stall"] + evidence["copy"]
    waits = any(HOST_SYNC in replicate.flags for replicate in replicates)
    slow_host = bottleneck.overhead(evidence, seen, waits=waits)
    if slow_host is not None and (
        # The device's own queue says so; what FULL and SYNTH then differ by is the host's noise.
        (idle < INPUT_STALL and slow_host.confidence == "high") or _gaps_weigh_more(evidence, noise)
    ):
        return slow_host
    noisy = noise >= max(INPUT_SHARE, NOISE_SHARE * share)
    if noisy and not (idle >= INPUT_SHARE and share >= max(INPUT_SHARE, noise)):
        return Finding(Bottleneck.UNKNOWN, "low", _too_noisy(noise))
    if share >= MILD_SHARE and idle >= INPUT_STALL:
        sure = share >= INPUT_SHARE and not noisy
        return _input_bound(evidence, bounds, "high" if sure else "low")
    if share >= INPUT_SHARE:
        return _input_bound(evidence, bounds, "low")
    limit = slow_host or bottleneck.exchange(evidence) or bottleneck.device(seen)
    return limit or _busy(evidence, waits=waits and seen is None)


def _held_back(replicates: Sequence[Replicate]) -> str:
    if not any(THROTTLED in replicate.flags for replicate in replicates):
        return ""
    return " The device held its clock back meanwhile, so that it can be faster than this."


def _gaps_weigh_more(evidence: Evidence, noise: float) -> bool:
    """Return True if surely more seconds go away without the device's gaps than without the loader.

    The loader's are a share of the FULL step, and the gaps are in what is left of it without them.
    """
    without_loader = 1.0 - evidence["input_stall"]
    gaps = without_loader * (1.0 - evidence.get("busy", 1.0))
    return gaps > max(0.0, evidence["input_stall"]) + noise


def _busy(evidence: Evidence, *, waits: bool) -> Finding:
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


def _input_bound(
    evidence: Evidence, bounds: Evidence, confidence: Literal["high", "low"]
) -> Finding:
    sentence = (
        f"{evidence['input_stall']:.0%} of the step goes away with the loader"
        f"{_where_it_goes(evidence)}. Without that, x{bounds['without_input_stall']:.2f}."
    )
    return Finding(Bottleneck.INPUT, confidence, sentence)


def _where_it_goes(evidence: Evidence) -> str:
    parts = sorted(((evidence[part], words) for part, words in _LOADER_PARTS.items()), reverse=True)
    named = [f"{words} {share:.0%}" for share, words in parts if share >= WORTH_NAMING]
    return ": " + ", ".join(named) if named else ""


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
        "enqueue": fmean(_queuing_s(p) * p.steps / p.wall_s for p in synth),
    }
    if all(math.isfinite(_noise(replicate)) for replicate in replicates):
        evidence["noise"] = max(_noise(replicate) for replicate in replicates)
    drained = [p.drained for p in synth if p.drained is not None]
    if drained:
        evidence["drained"] = fmean(drained)
    compiling = [p.compile_s / p.wall_s for p in (*full, *synth) if p.compile_s is not None]
    if compiling:
        evidence["compiling"] = min(1.0, max(compiling))
    return evidence | _of_a_sample(replicates) | bottleneck.of_exchange(replicates)


def _of_a_sample(replicates: Sequence[Replicate]) -> dict[str, float]:
    """Shares of the time of a sample."""
    cost = loader_processes.costs(replicates)
    if cost is None:
        return {}
    disk_s, lock = loader_processes.waits_for_disk_s(cost), loader_processes.lock_share(cost)
    sample_s = cost.fetch_s + disk_s
    shares = {"sample_disk": disk_s / sample_s} if cost.disk_s is not None and sample_s else {}
    return shares if lock is None else shares | {"sample_lock": lock}


def _queuing_s(timed: Pass) -> float:
    """Seconds that the host needs to queue a step, not those for which a full queue holds it.

    `Pass.host_s` is of ordinary steps; what some take longer is counted as the host's.
    """
    if timed.host_s is None:
        return timed.enqueue_s
    longer_s = max(0.0, timed.wall_s / timed.steps - timed.p50_s)
    return min(timed.enqueue_s, timed.host_s + longer_s)
