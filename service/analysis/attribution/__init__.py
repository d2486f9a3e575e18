"""Attribution of one change: what is known around it goes in, one cause and one sentence come out.

Pure: values in, values out. No session, no clock, no HTTP.
"""

from service.analysis.attribution.cause import attribute
from service.analysis.attribution.types import (
    Attribution,
    Evidence,
    Measurement,
    Moved,
    Question,
    Residual,
)
from service.schemas.findings import Cause, Part, State, Strength

__all__ = [
    "Attribution",
    "Cause",
    "Evidence",
    "Measurement",
    "Moved",
    "Part",
    "Question",
    "Residual",
    "State",
    "Strength",
    "attribute",
]
