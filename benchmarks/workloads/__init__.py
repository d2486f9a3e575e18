"""One file per workload, each readable from top to bottom."""
