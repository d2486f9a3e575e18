"""Where the time of a step goes: a few steps under a profiler, read by pure functions."""
