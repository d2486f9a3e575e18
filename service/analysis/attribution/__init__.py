"""Attribution of one change: what is known around it goes in, one cause and one sentence come out.

Pure: values in, values out. No session, no clock, no HTTP.
"""

from service.analysis.attribution.cause import attribute
from service.analysis.attribution.types import (
    Attribution,
    Cell,
    Measurement,
    Moved,
    Question,
    Residual,
)

__all__ = ["Attribution", "Cell", "Measurement", "Moved", "Question", "Residual", "attribute"]
