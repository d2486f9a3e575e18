"""Channels of the model's main path, for a workload whose presets have the size `width`.

The depth stays. Whoever has heads or groups of channels keeps their size and gets more of them, and
refuses a width that they do not divide.
"""

ROLE = "input"
SIZE = "width"
DEFAULT = "preset"
VALUES = {"preset": "as the workload's preset says"}
PATTERN = "[1-9][0-9]{0,4}"
