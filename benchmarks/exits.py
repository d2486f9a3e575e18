"""How ``python -m benchmarks`` ends, beyond what any program's exit codes say."""

NO_DEVICE = 69
"""The device cannot be used, whatever the case (EX_UNAVAILABLE of sysexits.h)."""
