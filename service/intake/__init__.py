"""What a request must be before any endpoint sees it: bounded, on time, and read in one way only.

``gate`` is the ASGI middleware that every request passes; ``head`` looks at what comes before the
body, ``body`` reads it, ``document`` parses it, ``route`` hands the parsed document to endpoints.
``heads`` makes a GET of a HEAD.
"""

from service.intake.gate import Bounds, Gate
from service.intake.heads import Heads
from service.intake.route import StrictRoute

__all__ = ["Bounds", "Gate", "Heads", "StrictRoute"]
