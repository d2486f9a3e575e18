"""What a request must be before any endpoint sees it: bounded, on time, and read in one way only.

``gate`` is the ASGI middleware that every request passes; ``head`` looks at what comes before the
body; ``route`` asks who is there, then has ``body`` read and ``document`` parse what was sent.
``heads`` makes a GET of a HEAD.
"""

from service.intake.body import Bounds
from service.intake.gate import Gate
from service.intake.heads import Heads
from service.intake.route import GuardedRoute, StrictRoute, guarded

__all__ = ["Bounds", "Gate", "GuardedRoute", "Heads", "StrictRoute", "guarded"]
