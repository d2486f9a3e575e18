"""Decides whether a case computes what fp32 eager training computes. Trajectories in, a verdict
out.

A case may differ from the fp32 reference by what its precision costs. The *base*, the eager case in
the same precision, shows that cost; anything more is the fault of the other axes. The rule is
dynamo's for one forward pass, extended to training. For each quantity ``error(case) <= m *
error(base) + tolerance / 10 + drift``. The drift is how far the reference differs from itself when
it is run again, and when its weights begin one rounding off. Training amplifies rounding, in some
models a hundred thousand times in five steps, and no order of summation is the right one. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contracts import Agreement, Parity, ParityStatus, Result, Status, Trace
from benchmarks.diagnosis import update_distance

STEPS = 20
"""Optimizer steps of a comparison."""
LOSS_AT = (1, 5, 20)
GRADIENT_AT = (1, 5)
DIRECTION_OF = {
    "gradient_norm_1": update_distance.DIRECTION,
    update_distance.SIZE: update_distance.DIRECTION,
    update_distance.FIRM_SIZE: update_distance.FIRM_DIRECTION,
}
"""Lengths of vectors whose direction is known as well."""
DIRECTIONS = frozenset(DIRECTION_OF.values())
TURNS_ANYWHERE = 1.0
"""Difference of a first update from one that trains nothing. If this much is allowed, also in the
firm parts, parity cannot be decided."""
REPEATED = 3.0
"""Factor on the distance between two runs of the reference, which is allowed in addition."""
SHAKEN = 10.0
"""Factor on the distance made by one rounding of the weights. It stands for many roundings, and one
may end near by chance."""
TURNED = 3.0
"""The same factor for sizes of the first step, where the whole vector gives the distance."""
ANYTHING = 1.0
"""Relative error of a loss or norm that is missing altogether. Where a later step is allowed so
much, training is chaotic, and the base's single run ends near only by luck: the fifth norm of
ResNet-50 at 2,048 images was off by 0.15 in bf16 eager and by 4.6 in fp16 eager."""
DIVERGED = 10.0
"""Factor on the largest value of any other run, which is the limit in such chaos."""
FEED = frozenset({"workers", "pinning", "prefetch", "prefetch_factor", "decode"})
"""Axes that only feed the input. A comparison leaves them out, so that all runs read the same
numbers (two decoders do not) and more cases share a reference."""
MOST_SKIPS = 2
"""Steps that a gradient scaler may skip; with more it has lost its way."""


@dataclass(frozen=True)
class Rule:
    """The limits on a case's distance from the reference."""

    factor: float
    """Times the base's own error."""
    tolerance: float
    """A tenth of it is allowed in addition, relative to the reference."""
    cosine: float
    """Least cosine between first updates, unless the base is worse."""


SINGLE = Rule(2.0, 1e-4, 0.999)
"""For fp32 and TF32."""
HALF = Rule(3.0, 1e-2, 0.99)
"""For bf16, fp16 and what is narrower."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The results of some optimizer steps."""

    losses: tuple[float, ...]
    gradient_norms: Mapping[int, float] = field(default_factory=dict)
    """By step, from 1; empty where gradients are not accessible, as in a CUDA graph."""
    update: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    """The first change of the parameters: entries spread over every tensor, weighted so that
    products of two such samples estimate those of the whole."""
    parts: tuple[int, ...] = ()
    """How many of these entries each tensor has, in turn."""
    skips: int = 0

    @property
    def unsound(self) -> str:
        """Name the first value that is not finite; empty if there is none."""
        for step, loss in enumerate(self.losses, start=1):
            if not math.isfinite(loss):
                return f"the loss of step {step}"
        for step, norm in self.gradient_norms.items():
            if not math.isfinite(norm):
                return f"the gradient of step {step}"
        return "" if np.isfinite(self.update).all() else "the first update"

    def by_step(self, kind: str) -> Mapping[int, float]:
        """Its ``loss`` or ``gradient_norm`` by step, from 1."""
        return dict(enumerate(self.losses, start=1)) if kind == "loss" else self.gradient_norms


@dataclass(frozen=True)
class Reference:
    """Fp32, eager, deterministic: three runs of the same steps."""

    first: Trajectory
    again: Trajectory
    shaken: Trajectory
    """From weights that differ from the first run's in their last bit."""

    def drift(self, firm: Sequence[int] = ()) -> dict[str, float]:
        """Return the error allowed for rounding and for a lack of determinism, by quantity."""
        again, shaken = self._apart(firm)
        far = _room_for_rounding(shaken)
        return {name: room + REPEATED * again.get(name, 0.0) for name, room in far.items()}

    def rounding(self, firm: Sequence[int] = ()) -> dict[str, float]:
        """Return the error allowed for rounding alone: for what the shaken run is farther off than
        the second one, as it lacks determinism as well."""
        again, shaken = self._apart(firm)
        beyond = {name: max(0.0, far - again.get(name, 0.0)) for name, far in shaken.items()}
        return _room_for_rounding(beyond)

    def _apart(self, firm: Sequence[int]) -> tuple[dict[str, float], dict[str, float]]:
        again, shaken = (errors(run, self.first, firm) for run in (self.again, self.shaken))
        return again, shaken


def _room_for_rounding(shaken: Mapping[str, float]) -> dict[str, float]:
    allowed = {name: SHAKEN * distance for name, distance in shaken.items()}
    for name in DIRECTION_OF.keys() & allowed.keys():
        # Norms of two vectors may agree by luck; the distance between the vectors does not.
        apart = TURNED * math.sqrt(2.0 * shaken.get(DIRECTION_OF[name], 0.0))
        allowed[name] = max(allowed[name], apart)
    return allowed


def with_parity(result: Result, parity: Parity) -> Result:
    """``result`` with its parity; a failed parity sets the status.

    Its samples stay, to be shown. Histories, bests and baselines take only results that are ok.
    """
    if parity.status is not ParityStatus.FAIL:
        return result.model_copy(update={"parity": parity})
    update = {"parity": parity, "status": Status.PARITY_FAIL, "reason": parity.reason}
    return result.model_copy(update=update)


def rule(precision: str) -> Rule:
    """The rule for a value of the axis ``precision``."""
    return SINGLE if precision in ("fp32", "tf32") else HALF


def compare(case: Trajectory, base: Trajectory, reference: Reference, by: Rule) -> Parity:
    """Compare ``case`` and its eager ``base`` with ``reference``, by the limits ``by``."""
    losses = _losses(case, base, reference)
    if where := case.unsound:
        sentence = f"The case made NaN or infinity: {where} is not finite."
        return Parity(status=ParityStatus.FAIL, reason=sentence, **losses)
    if sentence := _unusable(base, reference):
        return Parity(status=ParityStatus.SKIPPED, reason=sentence, **losses)
    firm = _firm(base, reference)
    of_case, of_base = (errors(run, reference.first, firm) for run in (case, base))
    chaos = _Chaos(base, reference)

    def held(drift: Mapping[str, float]) -> tuple[Agreement, ...]:
        return tuple(map(chaos.widened, _agreements(of_case, of_base, drift, by)))

    agreements = held(reference.drift(firm))
    wrong = [agreement for agreement in agreements if not agreement.holds]
    if wrong or case.skips > MOST_SKIPS:
        reason = _wrong(wrong, case.skips)
        return Parity(status=ParityStatus.FAIL, reason=reason, agreements=agreements, **losses)
    if reason := _undecided(agreements):
        return Parity(status=ParityStatus.SKIPPED, reason=reason, agreements=agreements, **losses)
    # A reference that varies decides all the same where its own distance was not needed.
    if all(agreement.holds for agreement in held(reference.rounding(firm))):
        return Parity(status=ParityStatus.PASS, agreements=agreements, **losses)
    reason = (
        "Two runs of the fp32 reference differ, and it agrees only within three times their "
        "distance."
    )
    return Parity(
        status=ParityStatus.NONDETERMINISTIC, reason=reason, agreements=agreements, **losses
    )


class _Chaos:
    """Limits for chaotic quantities, in which only divergence can be detected."""

    def __init__(self, base: Trajectory, reference: Reference) -> None:
        self._reference = reference.first
        self._runs = (base, reference.first, reference.again, reference.shaken)

    def widened(self, agreement: Agreement) -> Agreement:
        """``agreement``, limited at divergence where its own limit would allow anything."""
        kind, _, step = agreement.quantity.rpartition("_")
        if agreement.allowed < ANYTHING or step == "1" or kind not in ("loss", "gradient_norm"):
            return agreement
        steps = range(1, int(step) + 1) if kind == "loss" else (int(step),)
        largest = max(abs(value) for run in self._runs for value in run.by_step(kind).values())
        least = min(abs(self._reference.by_step(kind)[number]) for number in steps)
        allowed = update_distance.relative(DIVERGED * largest, least)
        return agreement.model_copy(update={"allowed": max(agreement.allowed, allowed)})


def _firm(base: Trajectory, reference: Reference) -> tuple[int, ...]:
    expected, parts = reference.first.update, reference.first.parts
    others = [run.update for run in (base, reference.again, reference.shaken)]
    if not parts or any(other.size != expected.size for other in others):
        return ()
    return update_distance.firm(expected, others, parts)


def _undecided(agreements: Iterable[Agreement]) -> str:
    """Return the reason why these limits prove nothing; empty if they do."""
    limits = {agreement.quantity: agreement.allowed for agreement in agreements}
    if limits.get(update_distance.DIRECTION, 0.0) < TURNS_ANYWHERE:
        return ""
    if limits.get(update_distance.FIRM_DIRECTION, math.inf) < TURNS_ANYWHERE:
        return ""
    return (
        "Rounding in this precision turns the first update of this model so far that one that "
        "trains nothing would be near enough: nothing can be told."
    )


def _losses(case: Trajectory, base: Trajectory, reference: Reference) -> dict[str, Any]:
    losses = {"case": case.losses, "base": base.losses, "reference": reference.first.losses}
    return {
        "steps": len(case.losses),
        "scaler_skips": case.skips,
        "losses": {name: Trace.of(values) for name, values in losses.items()},
    }


def _unusable(base: Trajectory, reference: Reference) -> str:
    """Return the reason why the other runs cannot be compared with; empty if they can."""
    others = {
        "The fp32 reference": reference.first,
        "A second run of the fp32 reference": reference.again,
        "The fp32 reference from weights one rounding off": reference.shaken,
        "Eager training in this precision": base,
    }
    for name, other in others.items():
        if where := other.unsound:
            return f"{name} is not finite itself ({where}), so there is nothing to hold to."
    return ""


def _wrong(wrong: Sequence[Agreement], skips: int) -> str:
    if wrong:
        worst = max(wrong, key=lambda agreement: agreement.error / max(agreement.allowed, 1e-30))
        return (
            f"It computes something else than fp32 eager: {_plain(worst.quantity)} is off by "
            f"{worst.error:.2g}, where {worst.allowed:.2g} is allowed and eager in this precision "
            f"is off by {worst.base_error:.2g}."
        )
    return f"The gradient scaler left out {skips} steps, and {MOST_SKIPS} are usual at most."


def _plain(quantity: str) -> str:
    name, _, step = quantity.rpartition("_")
    words = {"loss": "the loss", "gradient_norm": "the gradient's norm"}
    if name in words:
        return f"{words[name]} up to step {step}" if name == "loss" else f"{words[name]} at {step}"
    where = ", where rounding leaves it be," if name == "firm" else ""
    return f"the {step} of the first update{where}"


def _agreements(
    case: Mapping[str, float], base: Mapping[str, float], drift: Mapping[str, float], by: Rule
) -> list[Agreement]:
    return [
        Agreement(
            quantity=name,
            error=error,
            base_error=base[name],
            allowed=_allowed(name, base, by) + drift.get(name, 0.0),
        )
        for name, error in case.items()
        if name in base
    ]


def _allowed(name: str, base: Mapping[str, float], by: Rule) -> float:
    base_error = base[name]
    if name == "loss_1":  # one number may be right by luck; five steps in a row are not
        base_error = max(base_error, base.get("loss_5", 0.0))
    if name in DIRECTION_OF:
        base_error = max(base_error, base.get(DIRECTION_OF[name], 0.0))
    allowed = by.factor * base_error + by.tolerance / 10
    # An optimizer that takes signs (Adam's first step) turns much at gradients next to zero.
    return max(allowed, 1.0 - by.cosine) if name in DIRECTIONS else allowed


def errors(one: Trajectory, reference: Trajectory, firm: Sequence[int] = ()) -> dict[str, float]:
    """Return the error of ``one`` against ``reference`` by quantity; both are finite.

    The error of a loss is the largest up to its step, because two losses may cross and be equal by
    chance. The first update is also compared over the tensors ``firm`` alone.
    """
    by_quantity: dict[str, float] = {}
    so_far = list(_running(one.losses, reference.losses))
    for step in LOSS_AT:
        if step <= len(so_far):
            by_quantity[f"loss_{step}"] = so_far[step - 1]
    for step in GRADIENT_AT:
        if step in one.gradient_norms and step in reference.gradient_norms:
            norm = reference.gradient_norms[step]
            by_quantity[f"gradient_norm_{step}"] = update_distance.relative(
                one.gradient_norms[step], norm
            )
    if one.update.size and one.update.size == reference.update.size:
        by_quantity |= update_distance.whole(one.update, reference.update)
        if firm:
            by_quantity |= update_distance.where_firm(
                one.update, reference.update, reference.parts, firm
            )
    return by_quantity


def _running(losses: Iterable[float], expected: Iterable[float]) -> Iterable[float]:
    largest = 0.0
    for loss, expected_loss in zip(losses, expected, strict=False):
        largest = max(largest, update_distance.relative(loss, expected_loss))
        yield largest
