"""Evidence of a hang: what each thread of a rank is doing, and its last collectives.

The lead asks with a file beside the ranks' meeting point, and each rank that can still answer
does so with another.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LAST = 5
"""Collectives that are told, the newest ones."""
_RECORDERS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
"""torch's Flight Recorder, over NCCL and over gloo; it always records the newest 2,000."""


def question(rendezvous: Path) -> Path:
    """Return the file with which the lead asks all ranks."""
    return rendezvous.with_name("hangs")


def answer(rendezvous: Path, rank: int) -> Path:
    """Return the file with which a rank answers."""
    return rendezvous.with_name(f"evidence-{rank}")


def answer_if_asked(rendezvous: Path, rank: int) -> None:
    """Write down what this process is doing, once, if the lead wants to know."""
    path = answer(rendezvous, rank)
    if not question(rendezvous).exists() or path.exists():
        return
    whole = path.with_suffix(".part")
    whole.write_text("".join((*_stacks(), *_collectives())))
    whole.rename(path)


def _stacks() -> Iterator[str]:
    """Give the stack of each thread but this one, the main thread's last."""
    threads = (one for one in threading.enumerate() if one is not threading.current_thread())
    frames = sys._current_frames()
    for thread in sorted(threads, key=lambda one: one is threading.main_thread()):
        if thread.ident in frames:
            yield f"Thread {thread.name}:\n"
            yield from traceback.format_stack(frames[thread.ident])


def _collectives() -> Iterator[str]:
    """Give a line for each of the last collectives; "scheduled" may also have ended, over gloo."""
    recorder = sys.modules.get("torch._C._distributed_c10d")
    for dump in (getattr(recorder, name, None) for name in _RECORDERS):
        entries: list[dict[str, Any]] = json.loads(dump()).get("entries", []) if dump else []
        for one in entries[-LAST:]:
            group, number = one["process_group"][0], one["collective_seq_id"]
            what = f"{one['profiling_name']} {one['input_sizes']} {one['state']}"
            yield f"Collective {number} of group {group}: {what}\n"
