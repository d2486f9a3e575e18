"""Tells what is wrong with a machine, and what to do about it, before it measures."""

from worker.doctor.checks import Health, HealthCheck, examined
from worker.doctor.machine import Machine, look
from worker.settings import Settings

__all__ = ["Health", "HealthCheck", "Machine", "complaints", "examined", "look"]


def complaints(settings: Settings, *, at_torch: bool) -> list[str]:
    """A line for each subject that is not well on this machine; see `look` for ``at_torch``."""
    return [
        f"{result.subject}: {result.sentence} {result.remedy}".rstrip()
        for result in examined(look(settings, at_torch=at_torch))
        if result.health is not Health.OK
    ]
