"""Pixels on a side of an image, for a workload whose presets have the size `image`.

The model stays the same; throughput counts images. Files are cropped and scaled to that side.
"""

ROLE = "input"
SIZE = "image"
DEFAULT = "preset"
VALUES = {"preset": "as the workload's preset says"}
PATTERN = "[1-9][0-9]{0,3}"
