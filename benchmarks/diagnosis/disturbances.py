"""Every flag of a measurement: its meaning, and whether it says that the device was disturbed.

A measurement on a disturbed device is kept and shown, and decides nothing: no gate, no comparison,
no finding. Pure, without torch.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.contracts import Result, Status


class Kind(StrEnum):
    """The subject of a flag."""

    NODE = "node"
    """The device itself was slower than it can be. The number says something of the node only."""
    OTHERS = "others"
    """Somebody else used the device. The number says nothing of the code or of the node."""
    MEMORY = "memory"
    """Somebody else held memory of the device. That moves no time; it may make a case fail."""
    NOTE = "note"
    """A reader should know it; the number counts."""


@dataclass(frozen=True, slots=True)
class Flag:
    """The kind and the meaning of a flag."""

    kind: Kind
    meaning: str
    """One sentence for people."""


THROTTLED = "throttled"
CLOCK_UNSTABLE = "clock_unstable"
OTHER_PROCESSES = "other_processes"
DEVICE_BUSY = "device_busy"
FOREIGN_MEMORY = "foreign_memory"

FLAGS = {
    # A software power cap is the usual state of a busy data-centre GPU and sets no flag: on an
    # H200 at its 700 W, none of 499 recorded rows is throttled.
    THROTTLED: Flag(
        Kind.NODE,
        "The device slowed its clocks to protect itself (heat or power brake), or ran below three "
        "quarters of its highest clock for no reason that it tells.",
    ),
    OTHER_PROCESSES: Flag(
        Kind.OTHERS, "Another process computed on the device during the measurement."
    ),
    DEVICE_BUSY: Flag(Kind.OTHERS, "The device was not idle when the process was started."),
    # Memory alone does not disturb: a screen holds some all day. Who computes there as well is
    # seen as a busy device or as another process.
    FOREIGN_MEMORY: Flag(
        Kind.MEMORY, "Somebody else held memory of the device when the process was started."
    ),
    CLOCK_UNSTABLE: Flag(
        Kind.NOTE, "The SM clock varied by more than 2 % during the window, without a power cap."
    ),
    # It compares the node with itself over months; findings about nodes rest on such measurements.
    "node_drift": Flag(
        Kind.NOTE, "The node is not what it was: its canary left the node's own median."
    ),
    "warmup_incomplete": Flag(
        Kind.NOTE,
        "Warm-up reached its limit before step times were steady; the timed window may still hold "
        "start-up effects.",
    ),
    "clock_mismatch": Flag(
        Kind.NOTE, "Device events and the host's clock disagree on how long the pass took."
    ),
    "tail": Flag(
        Kind.NOTE,
        "Some steps are far slower than the median, so mean and median differ by over 2 %.",
    ),
    "loss_not_finite": Flag(
        Kind.NOTE, "The loss became infinite or not a number; the speed of such a run says little."
    ),
    "updates_discarded": Flag(
        Kind.NOTE,
        "Gradients were not finite in so many steps that the gradient scaler discarded the "
        "updates; the speed of such a run says little.",
    ),
    "parity_fail": Flag(Kind.NOTE, "It computes something else than fp32 eager training does."),
    "cudagraphs_skipped": Flag(
        Kind.NOTE,
        "The compiler was to make CUDA graphs and did not for all of the step; its warning is in "
        "the worker's log.",
    ),
    "not_alone": Flag(
        Kind.NOTE, "No scaling efficiency of a gang: one GPU alone could not be measured."
    ),
    "timing_only": Flag(
        Kind.NOTE,
        "Profile, parity and the like were asked for, and are not made of a gang; it was timed.",
    ),
    "small_ring": Flag(Kind.NOTE, "Fewer than four batches fitted on the device beside the model."),
    "one_after_the_other": Flag(
        Kind.NOTE,
        "The two sides of a pair could not be measured in turn, so one followed the other.",
    ),
    "busy_while_waiting": Flag(
        Kind.NOTE, "One side of a pair used the processor in the turns of the other."
    ),
    "short_of_memory": Flag(
        Kind.NOTE, "Both sides of a pair did not fit well into the device's memory together."
    ),
    "host_sync_per_step": Flag(
        Kind.NOTE, "The gradient scaler makes the host wait for the device in every step."
    ),
    "phases_perturbed": Flag(
        Kind.NOTE, "Marking the phases changed the step time by more than 2 %."
    ),
    "trace_unreliable": Flag(
        Kind.NOTE,
        "The profiler slowed the host so much that idle times in its trace tell nothing; the "
        "kernels' own times hold.",
    ),
}
"""By name, without a prefix that names the pass (``full.``, ``synth.``)."""

SLOWS = frozenset({Kind.NODE, Kind.OTHERS})
"""Kinds whose measurements decide nothing."""
MAY_FAIL = SLOWS | {Kind.MEMORY}
"""Kinds with which a failure says nothing of the code: others held memory that was missing."""


def every(*results: Result) -> tuple[str, ...]:
    """All flags of results, then those of their processes, each once, in their order."""
    parts = [part.flags for result in results for part in result.replicates]
    whole = [result.flags for result in results]
    return tuple(dict.fromkeys(itertools.chain(*whole, *parts)))


def disturbances(result: Result) -> tuple[str, ...]:
    """The flags for which a result decides nothing; empty if its device was undisturbed."""
    kinds = SLOWS if result.status is Status.OK else MAY_FAIL
    return tuple(flag for flag in every(result) if kind(flag) in kinds)


def kind(flag: str) -> Kind:
    """Return the kind of a flag; one that this version does not know is a note."""
    known = FLAGS.get(flag.rpartition(".")[2])
    return known.kind if known else Kind.NOTE
