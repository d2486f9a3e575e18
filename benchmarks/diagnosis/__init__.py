"""Conclusions from a measurement: bottleneck, parity, and what to try next. Without torch."""
