"""The analysis of a series: its changes, placed by revisions, and its noise. Frozen."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Self

from service.analysis.detection.change import ChangePoint
from service.analysis.detection.noise import Noise


@dataclass(frozen=True, slots=True)
class PlacedChange:
    """A change of level, and the points on both sides of it."""

    change: ChangePoint
    """``index`` counts the judged points of the series, excluded and disturbed ones left out."""
    last_good: str
    """Revision of the last point of the old level."""
    first_bad: str
    """Revision of the first point of the new level."""
    first_bad_at: datetime
    first_bad_result: str
    """The first point itself: by it the change is known again when others come in before it."""

    def document(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self.change) | {
            "last_good": self.last_good,
            "first_bad": self.first_bad,
            "first_bad_at": self.first_bad_at.isoformat(),
            "first_bad_result": self.first_bad_result,
        }

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """As it was stored."""
        names = {field.name for field in fields(ChangePoint)}
        return cls(
            change=ChangePoint(**{name: document[name] for name in names}),
            last_good=document["last_good"],
            first_bad=document["first_bad"],
            first_bad_at=datetime.fromisoformat(document["first_bad_at"]),
            first_bad_result=document["first_bad_result"],
        )


@dataclass(frozen=True, slots=True)
class SeriesAnalysis:
    """The changes and the noise of a series, as judged so far."""

    series_id: str
    points: int
    """Judged points; what was excluded or disturbed does not count."""
    changes: tuple[PlacedChange, ...]
    noise: Noise | None
    """Of the newest level; None if there are too few points to tell."""
    warnings: tuple[str, ...]
    judged_at: datetime | None
    """None if the series has not been judged yet."""

    @property
    def machine_offsets(self) -> dict[str, float]:
        """The offset of each machine from the others, as a share; empty if it is not known."""
        return self.noise.machine_offsets if self.noise else {}


def noise_document(noise: Noise | None) -> dict[str, Any] | None:
    """As it is stored: JSON knows no infinity, so an effect that nobody could see is null."""
    if noise is None:
        return None
    told = asdict(noise)
    if math.isinf(noise.minimum_detectable_effect):
        told["minimum_detectable_effect"] = None
    return told


def noise_of(document: dict[str, Any] | None) -> Noise | None:
    """As it was stored."""
    if document is None:
        return None
    effect = document["minimum_detectable_effect"]
    return Noise(**document | {"minimum_detectable_effect": math.inf if effect is None else effect})
