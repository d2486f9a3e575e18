"""The exit codes of ``python -m benchmarks`` that not every program has."""

NO_DEVICE = 69
"""The device cannot be used, whatever the case (EX_UNAVAILABLE of sysexits.h)."""


class NoDevice(Exception):
    """The device cannot be used, and no other case would fare better on it."""
