"""The choice of measurements: cases, suites, precision tiers, and expected durations."""
