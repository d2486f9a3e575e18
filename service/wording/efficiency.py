"""Utilisation in words. Pure."""

from __future__ import annotations

from benchmarks.contracts import Efficiency, Use
from service.wording import formats

PASSES = {"full": "with input", "synth": "without input"}


def mfu(efficiency: Efficiency | None) -> float | None:
    """Share of the nominal peak with the real input pipeline; None where it is not known."""
    use = efficiency.uses.get("full") if efficiency is not None else None
    return use.mfu if use is not None else None


def sentence(efficiency: Efficiency) -> str:
    """One line for a terminal: the share of the peak, and why it is not known if it is not."""
    use = efficiency.uses.get("full")
    if use is None or use.mfu is None:
        return efficiency.reason or "not known"
    parts = [f"{formats.share(use.mfu)} MFU of {efficiency.device} in {efficiency.dtype}"]
    parts += [f"{formats.share(value)} {name}" for name, value in shares(use)[1:]]
    return "; ".join(parts)


def shares(use: Use) -> list[tuple[str, float]]:
    """Return the known shares of one pass, each with its name."""
    known = {
        "of the nominal peak (MFU)": use.mfu,
        "at the clock that it had": use.mfu_clock,
        "of what a matrix product reaches": use.vs_achievable,
        "of the roofline": use.roofline_fraction,
    }
    return [(name, value) for name, value in known.items() if value is not None]
