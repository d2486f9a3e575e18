"""Bodies as real workers send them: results that H200s measured, each with noise of its own.

Every value of a trace that varied when it was measured is scaled by a random walk, so that a body
packs as badly as the real one and no two are alike; what was constant (a clock, a wait of nothing)
stays so. Only the packed values differ from what is committed under benchmarks/results/h200.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contracts import Case, Result, Status
from benchmarks.contracts.bounds import traces

H200 = Path(__file__).parents[2] / "benchmarks" / "results" / "h200"
ROWS = ("settings.jsonl", "ladder-*.jsonl")
"""Files that hold whole results."""
SIZES_B = {8_000: 5, 20_000: 3, 55_000: 2}
"""Sizes of which bodies are sent, and how many of ten: half of the 72 recorded results have less
than 18 kB (timing alone), a quarter 20 to 30 kB and a quarter more (with a profile)."""
NEAREST = 3
"""Recorded results that stand for each size."""
DISTINCT = 2_000
"""Bodies that are made before a run; one is sent again only after all others were."""
STEP = 1e-3
"""Of the random walk, relative, from one value to the next."""


@dataclass(frozen=True)
class Recorded:
    """A recorded result, cut where the data of its varying traces stand."""

    case: Case
    parts: tuple[bytes, ...]
    varying: tuple[np.ndarray[Any, np.dtype[np.float32]], ...]
    """The values between the parts."""
    recorded: bytes
    """The whole, as it was."""

    @property
    def size_b(self) -> int:
        """Bytes of it as it was recorded."""
        return len(self.recorded)

    def body(self, noise: np.random.Generator) -> bytes:
        """The result as another process would have measured it."""
        made = [self.parts[0]]
        for values, rest in zip(self.varying, self.parts[1:], strict=True):
            walk = np.exp(np.cumsum(noise.normal(0.0, STEP, len(values))))
            raw = (values * walk).astype(np.float32).tobytes()
            made += (base64.b64encode(zlib.compress(raw)), rest)
        return b"".join(made)


@cache
def recorded() -> tuple[Recorded, ...]:
    """Every whole and good result of an H200 that is committed, the smallest first."""
    recorded_results = []
    for pattern in ROWS:
        for path in sorted(H200.glob(pattern)):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                document = row.get("result", row)
                if document and document.get("status") == Status.OK and "environment" in document:
                    recorded_results.append(cut(Result.model_validate(document)))
    return tuple(sorted(recorded_results, key=lambda one: one.size_b))


def cut(result: Result) -> Recorded:
    """A result with places for other values."""
    document = result.model_dump_json().encode()
    parts, varying, at = [], [], 0
    for trace in traces(result):
        values = np.frombuffer(trace.unpacked(), dtype=np.float32)
        if 2 * len(np.unique(values)) > len(values) > 1:
            begin = document.index(b'"' + trace.data.encode() + b'"', at) + 1
            parts.append(document[at:begin])
            varying.append(values)
            at = begin + len(trace.data)
    parts.append(document[at:])
    return Recorded(result.case, tuple(parts), tuple(varying), document)


def mix() -> tuple[Recorded, ...]:
    """Recorded results in the order in which they are sent, again and again."""
    pattern: list[Recorded] = []
    for turn in range(NEAREST):
        for size_b, count in SIZES_B.items():
            near = sorted(recorded(), key=lambda one: abs(one.size_b - size_b))[:NEAREST]
            pattern += [near[(turn + n) % NEAREST] for n in range(count)]
    return tuple(pattern)


def bodies(of: Sequence[Recorded], count: int) -> Iterator[bytes]:
    """So many bodies, of these recorded results in turn."""
    noise = np.random.default_rng(24)
    for number in range(count):
        yield of[number % len(of)].body(noise)
