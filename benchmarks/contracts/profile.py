"""The time of a step by its phases, and a profile of its operations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchmarks.contracts.memory import Memory
from benchmarks.contracts.values import Contract, Count, Line, Name, Number, Seconds, Share

MOST_KERNEL_TIMES = 60
"""Names of kernels that a profile keeps: 7 kB of JSON with names of a hundred characters."""


class Phases(Contract):
    """Mean seconds of each phase of a step; taken after the timed passes, with marks inside it."""

    steps: Count = 0
    step_s: Seconds | None = None
    """Mean step of this pass; 2 % away from SYNTH's it is flagged ``phases_perturbed``."""
    seconds: dict[Name, Seconds] = Field(default_factory=dict, max_length=20)
    """data and copy as FULL saw them; forward, backward and optimizer over batches in place."""
    absent: Line = ""
    """Why there are none."""


class Input(Contract):
    """The cost of a sample, fetched after the timed passes in a process of its own; seconds and
    bytes are means per sample."""

    samples: Count = 0
    """Different ones that were fetched."""
    batch: Count = 0
    workers: Count = 0
    """Loader processes of the case."""
    cpus: Count = 0
    """Processors that all of them may use together."""
    fetch_s: Seconds = 0.0
    """With the files' pages in memory; the fastest of three rounds."""
    cpu_s: Seconds = 0.0
    """Processor seconds of ``fetch_s``; the others are waiting."""
    threads: Count = 0
    threads_speedup: Number | None = None
    """Rate of so many threads over that of one; None with a single processor."""
    collate_s: Seconds = 0.0
    """A sample's part of making a batch."""
    step_cpu_s: Seconds = 0.0
    """Processor seconds of the measured process per step, batches being there."""
    read_b: Number = 0.0
    """Bytes asked of files; a memory map asks for none."""
    missed_b: Number = 0.0
    """Bytes that the disk had to give at the first fetch; 0: the page cache had all."""
    disk_s: Seconds | None = None
    """Seconds more for a sample whose files' pages were dropped from memory before."""
    disk_b: Number | None = None
    """Bytes that the disk gave for such a sample."""
    disk_b_per_s: Number | None = None
    """Rate of the disk with eight readers at once."""
    absent: Line = ""
    """Why there is nothing, or nothing of the disk."""


_KernelName = Annotated[str, Field(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]


class KernelTime(Contract):
    """The kernels or copies of one name in a step; on a CPU an operator's own work."""

    name: _KernelName
    self_s: Seconds
    """Device seconds per step."""
    range_s: Seconds
    """By how much these seconds differ between the profiled steps, at most."""
    calls: Number
    """Per step."""


class Operation(Contract):
    """One operation of a step: what it cost on the device, and the line that asked for it."""

    name: _KernelName
    kind: Name
    """gemm, conv, attention, norm, pointwise, optimizer, memcpy, communication or other."""
    self_s: Seconds
    """Device seconds per step, without what it calls."""
    calls: Number
    """Per step."""
    source: Line = ""
    """``file:line``; of a backward operation, the line of its forward. Empty: not known."""
    found_by: Literal["", "operator", "kernel", "inductor"] = ""
    """Evidence for ``source`` in an eager step of the model: the same operator, the same kernel, or
    the operators in Inductor's name of a fused kernel."""
    flops: Number | None = None
    """Per step; None where they were not counted or the eager step had another number of calls."""
    moved_b: Number | None = None
    """Bytes read and written per step if each call reads its inputs and writes its outputs once."""
    arithmetic: Name | None = None
    """As in `Demand`."""
    blocks_per_sm: Number | None = None
    """Blocks of its kernels over the device's SMs, weighted by time."""
    occupancy: Share | None = None
    """Share of an SM's warps in use, as the profiler estimates it, weighted by time."""


class Demand(Contract):
    """The demands of all operations of one kind and size on the device, in one eager step."""

    name: Line
    arithmetic: Name
    """fp32, tf32, bf16, fp16 ...: which peak its matrix products are held against."""
    flops: Number
    moved_b: Number
    """Bytes read and written if each operation reads its inputs and writes its outputs once."""
    calls: Count
    fusable: Annotated[bool, Field(strict=True)] = False
    """Pointwise: fused into its neighbours it moves nothing of its own."""


class Synchronization(Contract):
    """A place in the step at which the host waits for the device."""

    what: Line
    source: Line
    calls: Count = 1
    """Per step that waits there."""
    every: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1
    """Steps from one that waits there to the next."""
    cost_s: Seconds | None = None
    """Mean cost per step of a wait that comes every few steps, with what belongs to it, such as
    writing to a log; None: not known."""


class NeedlessCopy(Contract):
    """Copies that a step makes at one line and could do without."""

    kind: Literal["clone", "contiguous", "layout", "round_trip", "memory_format"]
    what: Line
    source: Line
    calls: Count
    """Per step."""
    moved_b: Number | None = None
    """Bytes read and written per step; None where an operator made the copy."""
    self_s: Seconds
    """Device seconds per eager step."""


class Layer(Contract):
    """One module of the model in one step: its own work, without that of the modules within it."""

    name: Line
    """Qualified, such as ``blocks.7.attn``; empty for the model itself."""
    class_name: Line
    calls: Number
    """Per step."""
    forward_s: Seconds
    """Device seconds."""
    backward_s: Seconds
    """Device seconds of the backward of its forward, and of a forward that is computed again."""
    flops: Number
    """Forward and backward; of matrix products, convolutions and attention. The backward of a
    reentrant checkpoint is not counted."""
    kept_b: Count = 0
    """Bytes that its forward keeps for the backward; parameters left out, a shared piece once."""
    weights_b: Count = 0
    """Bytes of its parameters; of shared ones where they first lie."""


class Layers(Contract):
    """The modules of the model in a few eager steps; each time is the median over the steps."""

    of: Literal["step", "eager"]
    """``eager``: the timed step was compiled or a CUDA graph, so these times are not its own."""
    steps: Count
    outside_s: Seconds
    """Device seconds outside of all modules: loss, optimizer, gradients that are added up."""
    noise: Number = 0.0
    """Ranges of the times between the steps, all modules together, as a share of their times."""
    modules: tuple[Layer, ...] = Field(max_length=500)
    """In the model's order; modules further within count where they lie."""


class Profile(Contract):
    """The profile of a few SYNTH steps by `torch.profiler`, and the demands of one eager step."""

    absent: Line = ""
    """Why there is none."""
    steps: Count = 0
    step_s: Seconds | None = None
    """Mean step under the profiler, which slows the host."""
    busy_s: Seconds | None = None
    """Seconds per step in which at least one stream worked."""
    kernels: Number = 0.0
    """Kernels and copies per step; on a CPU: operators."""
    launches: Number = 0.0
    """Calls of the host that launched them, per step; a CUDA graph is one."""
    seconds: dict[Name, Seconds] = Field(default_factory=dict, max_length=20)
    """Device seconds per step by kind of kernel."""
    small_s: Seconds | None = None
    """Device seconds per step in kernels that cannot fill the device: fewer blocks than it has SMs,
    or under 5 us; None where the trace tells no sizes."""
    idle_s: dict[Name, Seconds] = Field(default_factory=dict, max_length=20)
    """Idle seconds per step: host_wait (launched too late), kernel_gap (under 30 us), other."""
    uncaptured_s: Seconds = 0.0
    """Device seconds per step of what runs in compiled frames and outside of their graphs, because
    the compiler broke the frame there."""
    uncaptured_host_s: Seconds | None = None
    """Seconds per step of the host there, checks of guards included; None where nothing was
    compiled."""
    uncaptured_idle_s: Seconds | None = None
    """The part of them in which the device did nothing."""
    exposed_communication_s: Seconds = 0.0
    """Per step: communication while nothing else ran."""
    operations: tuple[Operation, ...] = Field(default=(), max_length=100)
    """The most expensive ones, most expensive first."""
    kernel_times: tuple[KernelTime, ...] = Field(default=(), max_length=MOST_KERNEL_TIMES)
    """The most expensive ones, most expensive first."""
    demands: tuple[Demand, ...] = Field(default=(), max_length=2_000)
    synchronizations: tuple[Synchronization, ...] = Field(default=(), max_length=100)
    layers: Layers | None = None
    copies: tuple[NeedlessCopy, ...] = Field(default=(), max_length=20)
    """Those that cost 1 % of the step or more, most expensive first. Empty where anything was
    compiled: a compiler may leave them out."""
    allocator_retries: Count = 0
    """During this pass."""
    device_allocations: Number = 0.0
    """Per step: pieces of memory that the allocator asked the driver for, or gave back."""
    fragmentation: Share | None = None
    """Share of the reserved device memory that lies idle in split blocks."""
    memory: Memory | None = None
    """None where no step could be recorded, and on a CPU."""
    notes: tuple[Line, ...] = Field(default=(), max_length=20)
    """What of the above could not be had, and why."""
