"""Tokens in a sample, for a workload whose presets have the size `length`.

Throughput counts tokens, so that rates of different lengths compare. Position embeddings have one
row a token: their parameters change with the length.
"""

ROLE = "input"
SIZE = "length"
DEFAULT = "preset"
VALUES = {"preset": "as the workload's preset says"}
PATTERN = "[1-9][0-9]{0,6}"
