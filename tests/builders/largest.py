"""Results as large as intake allows, in every direction at once, and plain ones beside them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from builders.measured import a_pass, a_replicate, an_input
from builders.service_hand import FACTS, result_of

from benchmarks.contracts import (
    Agreement,
    Bottleneck,
    Canary,
    Compilation,
    Contract,
    Demand,
    Direction,
    KernelTime,
    Layer,
    Layers,
    Lease,
    LongParity,
    LongParityStatus,
    Memory,
    MemoryLine,
    NeedlessCopy,
    Operation,
    Parity,
    ParityStatus,
    Pass,
    Profile,
    Rejected,
    Replicate,
    Result,
    Sample,
    Suggestion,
    Synchronization,
    Telemetry,
    Trace,
    Verdict,
)
from benchmarks.contracts.bounds import (
    BESIDE_TRACES_B,
    FACTS_B,
    TRACE_VALUES,
    UNIT_LENGTH,
    excess,
    traces,
)
from benchmarks.contracts.profile import MOST_KERNEL_TIMES

PROCESSES = 50
SIGN = "'"
"""One byte in JSON, and five in a page."""
LOSSES = 250
"""Steps of each run of the long comparison."""
CHANNELS = ("sm_clock_hz", "power_w", "temperature_c", "utilization")


def plain(lease: Lease, value: float = 100.0, number: int = 0, **more: Any) -> Result:
    """A result of three processes as benchmarks make them: two passes, telemetry, 40 facts."""
    timed = a_pass(0.1)
    telemetry = Telemetry(hz=10.0, t_s=_noise(60), channels={name: _noise(60) for name in CHANNELS})
    replicate = a_replicate(timed, timed).model_copy(
        update={"telemetry": {"full": telemetry, "synth": telemetry}, "flags": ("tail",)}
    )
    facts = dict(FACTS) | {f"sw.package.p{n}": f"{number}.{n}" for n in range(40)}
    fields = {"facts": facts | more.pop("facts", {}), "replicates": (replicate,) * 3, **more}
    return result_of(lease, (value,) * 3, **fields)


def largest(lease: Lease, value: float = 100.0, number: int = 0, **more: Any) -> Result:
    """A result that nothing can be added to; ``number`` tells its facts from another's.

    ``lease`` is of a case of one job.
    """
    facts = dict(FACTS) | _facts(number) | more.pop("facts", {})
    samples = (_sample("throughput", "img/s", value), *_samples())
    fields = {"samples": samples, "facts": facts, "replicates": replicates(), **_beside(), **more}
    result = result_of(lease, **fields)
    whole = result.model_copy(update={"repro": ""})
    room_b = BESIDE_TRACES_B - _beside_b(whole) - 100
    assert 0 < room_b < 65_000, f"it should be filled up by its command, and has {room_b} B left"
    whole = whole.model_copy(update={"repro": SIGN * room_b})
    assert excess(whole, whole.model_dump_json().encode(), 1) == ""
    return whole


def _size_b(result: Result) -> int:
    return len(result.model_dump_json().encode())


def _beside_b(result: Result) -> int:
    return _size_b(result) - sum(len(one.data) for one in traces(result))


def _sample(name: str, unit: str, value: float) -> Sample:
    values = (value,) * PROCESSES
    return Sample(metric=name, unit=unit, direction=Direction.HIGHER, values=values)


def _samples() -> Iterator[Sample]:
    for number in range(199):
        yield _sample(f"metric_{number}", SIGN * UNIT_LENGTH, 1.0 + number)


def _facts(number: int) -> Mapping[str, str]:
    """As many as there is room for, each with another value than those of the next number."""
    room_b = FACTS_B - 400
    count = 1_900
    fact_b = room_b // count
    return {
        f"sw.{n:04}": f"{number}{SIGN * (fact_b - len('sw.0000') - len(str(number)))}"
        for n in range(count)
    }


@cache
def replicates() -> tuple[Replicate, ...]:
    """Fifty processes that share all values: most are steps, which pages draw."""
    share = TRACE_VALUES // PROCESSES - 2 * 5 * 200 - 2 * 12 * LOSSES // PROCESSES
    steps = _noise(share // 2)
    telemetry = Telemetry(
        hz=10.0, t_s=_noise(200), channels={name: _noise(200) for name in CHANNELS}
    )
    timed = _timed(steps)
    return tuple(
        a_replicate(timed, timed, seed).model_copy(
            update={
                "telemetry": {"full": telemetry, "synth": telemetry},
                "flags": tuple(f"f{seed}.{n}" for n in range(100)),
                "input": an_input(absent=SIGN * 500) if seed == 0 else None,
                "profile": _profile() if seed == 0 else None,
                "compilation": _compilation() if seed == 0 else None,
            }
        )
        for seed in range(PROCESSES)
    )


def _timed(steps: Trace) -> Pass:
    empty = Trace.of([])
    update = {"step_trace": steps, **dict.fromkeys(("stall_trace", "copy_trace"), empty)}
    return a_pass(0.1).model_copy(update=update | {"work_trace": empty})


def _noise(count: int) -> Trace:
    """Values that cannot be packed smaller."""
    noise = random.Random(count)
    return Trace.of(0.1 * noise.uniform(0.5, 1.5) for _ in range(count))


def _profile() -> Profile:
    long = SIGN * 490
    return Profile(
        steps=5,
        operations=tuple(
            Operation(
                name=f"{n}{SIGN * 250}",
                kind=f"k{n}",
                self_s=1.0,
                calls=1.0,
                source=long,
                found_by="inductor",
                flops=1e99,
                moved_b=1e99,
                arithmetic="bf16",
                blocks_per_sm=1e99,
                occupancy=0.123456789012345,
            )
            for n in range(100)
        ),
        kernel_times=tuple(
            KernelTime(name=f"{n}{SIGN * 290}", self_s=1.0, range_s=1.0, calls=1.0)
            for n in range(MOST_KERNEL_TIMES)
        ),
        synchronizations=tuple(
            Synchronization(what=f"{n}{long}", source=long, calls=n) for n in range(100)
        ),
        layers=Layers(
            of="step",
            steps=3,
            outside_s=1.0,
            modules=tuple(
                Layer(
                    name=f"m{n}{SIGN * 90}",
                    class_name="M",
                    calls=1.0,
                    forward_s=1.0,
                    backward_s=1.0,
                    flops=1.0,
                )
                for n in range(500)
            ),
        ),
        copies=tuple(
            NeedlessCopy(
                kind="layout", what=f"{n}{long}", source=long, calls=n, moved_b=1.0, self_s=1.0
            )
            for n in range(20)
        ),
        demands=tuple(
            Demand(name=f"{n}{long}", arithmetic="fp32", flops=1.0, moved_b=1.0, calls=n)
            for n in range(30)
        ),
        memory=_memory(),
    )


def _memory() -> Memory:
    """Twenty curves of two hundred instants, fifty lines, each as long as may be."""
    names, most = [f"{n:02}{'x' * 62}" for n in range(20)], 2**53
    return Memory(
        device_b=most,
        peak_b=most,
        peak_at_s=1.0,
        reserved_b=most,
        categories=dict.fromkeys(names, most),
        lines=tuple(
            MemoryLine(source=f"{n}{SIGN * 490}", category=names[0], size_b=most, blocks=most)
            for n in range(40)
        ),
        pools_b=(most,) * 100,
        phases_s=dict.fromkeys(names, 1.0),
        at_s=tuple(n / 7 for n in range(200)),
        alive_b=dict.fromkeys(names, (most,) * 200),
        held_b=(most,) * 200,
    )


def _compilation() -> Compilation:
    reasons = {f"{n}{SIGN * 450}": 1 for n in range(100)}
    return Compilation(graphs=1, breaks=reasons, recompiles=reasons)


def _beside() -> dict[str, object]:
    numbers = {f"{n}{'x' * 60}": 1.5 for n in range(100)}
    some = dict(list(numbers.items())[:64])
    at = "2026-11-20T01:00:00Z"
    line = SIGN * 500
    fields: dict[str, Contract] = {
        "verdict": Verdict(
            bottleneck=Bottleneck.UNKNOWN,
            confidence="low",
            sentence=line,
            evidence=numbers,
            bounds=numbers,
            suggestions=(Suggestion(axis="a", value="b", sentence=line),) * 3,
        ),
        "parity": Parity(
            status=ParityStatus.PASS,
            agreements=tuple(
                Agreement(quantity=f"q{n}", error=1.0, base_error=1.0, allowed=2.0)
                for n in range(40)
            ),
        ),
        "long_parity": LongParity(
            status=LongParityStatus.WORSE,
            reason=line,
            case=(_noise(LOSSES),) * 12,
            reference=(_noise(LOSSES),) * 12,
        ),
        "canary": Canary.model_validate({"measured_at": at, "readings": some, "moved": some}),
    }
    return {
        **fields,
        "rejected": tuple(
            Rejected(replicate=1, reasons=tuple(f"r{m}" for m in range(100)), rate=1.0)
            for _ in range(150)
        ),
        "flags": tuple(f"flag{n}" for n in range(100)),
        "log_tail": SIGN * 65_000,
        "item": SIGN * UNIT_LENGTH,
    }
