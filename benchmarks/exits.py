"""The exit codes of ``python -m benchmarks`` that not every program has."""

NO_DEVICE = 69
"""The device cannot be used, whatever the case (EX_UNAVAILABLE of sysexits.h)."""
