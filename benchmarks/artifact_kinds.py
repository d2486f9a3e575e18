"""The kinds of files that an attempt leaves beside its result."""

from __future__ import annotations

from enum import StrEnum

GZIP = "application/gzip"
LIMIT_B = 8 * 2**20
"""Most bytes of one, compressed. For a trace that is room for some 500,000 events, where a step of
the U-Net has 19,000 on a CPU. It unpacks to some 130 MB, and a viewer in a browser does not take
much more. Five steps each of SYNTH and FULL of the `tiny` presets on a CPU have 0.5 MB (nanoGPT),
0.9 MB (ResNet-50) and 3.1 MB (U-Net)."""


class ArtifactKind(StrEnum):
    """The kind of file; it is packed with gzip."""

    TRACE = "trace"
    """The profiler's, in Chrome's JSON."""
    LOG = "log"
    """All that a failed attempt wrote to standard error, where its result has only the end."""
