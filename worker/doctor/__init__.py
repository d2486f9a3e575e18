"""Tells what is wrong with a machine, and what to do about it, before it measures."""

import logging
from collections.abc import Sequence

from worker.doctor.checks import (
    CHECKS,
    GPU_CHECKS,
    HOST_CHECKS,
    Check,
    Health,
    HealthCheck,
    examined,
)
from worker.doctor.machine import Machine, look
from worker.settings import Settings

__all__ = [
    "GPU_CHECKS",
    "HOST_CHECKS",
    "Health",
    "HealthCheck",
    "Machine",
    "examined",
    "look",
    "warnings",
]

log = logging.getLogger(__name__)


def warnings(settings: Settings, *, at_torch: bool, checks: Sequence[Check] = CHECKS) -> list[str]:
    """A line for each subject that is not well on this machine; see `look` for ``at_torch``.

    Advice stops nobody: what goes wrong here is logged.
    """
    try:
        results = examined(look(settings, at_torch=at_torch), checks)
    except Exception:
        log.exception("This machine could not be looked at.")
        return []
    return [
        f"{result.subject}: {result.sentence} {result.remedy}".rstrip()
        for result in results
        if result.health is not Health.OK
    ]
