"""Chrome traces made by hand, in the words that `torch.profiler` writes them; microseconds."""

from __future__ import annotations

import gzip
import json
from typing import Any

Event = dict[str, Any]


def span(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> Event:
    """One span of the host, or of a device's stream."""
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur,
        "args": args,
    }  # fmt: skip


def step(number: int, ts: float, dur: float) -> Event:
    """The annotation around one profiled step."""
    return span("user_annotation", f"ProfilerStep#{number}", ts, dur)


def launch(correlation: int, ts: float, name: str = "cudaLaunchKernel", tid: int = 1) -> Event:
    """The host's call that queues a kernel."""
    return span("cuda_runtime", name, ts, 3.0, tid, correlation=correlation)


def kernel(
    correlation: int,
    ts: float,
    dur: float,
    name: str = "sm90_gemm_bf16",
    stream: int = 7,
    blocks_per_sm: float | None = None,
) -> Event:
    """What that call had the device do."""
    sizes = {} if blocks_per_sm is None else {"blocks per SM": blocks_per_sm}
    return span("kernel", name, ts, dur, stream, correlation=correlation, stream=stream, **sizes)


def a_trace_file(name: str = "sm90_gemm_bf16") -> bytes:
    """What a child writes: a few events, packed as a worker sends them."""
    events = [step(1, 0.0, 20.0), launch(1, 1.0), kernel(1, 5.0, 10.0, name)]
    return gzip.compress(json.dumps({"traceEvents": events}).encode(), mtime=0)
