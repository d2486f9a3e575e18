"""Benches, storms of faults and recorders: long programs whose short forms are tests."""
