"""What the rows say, as tables for benchmarks/results/gate/README.md."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from trials.gate.gates import FALSE, Row


def page(rows: Sequence[Row], gpu_bound: Sequence[str]) -> str:
    """The table of equal revisions, then that of planted slowdowns."""
    return f"{_equal(rows)}\n\n{_planted(rows, gpu_bound)}"


def _equal(rows: Sequence[Row]) -> str:
    lines = _head("equal revisions", "false regressions", "passed", "unclear", "median of pairs")
    for kind in dict.fromkeys(row.replicates for row in rows if row.planted is None):
        own = [row for row in rows if row.replicates == kind and row.planted is None]
        gates = {row.gate for row in own}
        false = _share(len({row.gate for row in own if row.verdict == FALSE}), len(gates))
        naive = _share(len({row.gate for row in own if row.naive}), len(gates))
        lines.append(f"| **whole gates, {kind}** | {len(gates)} | {false} | | | |")
        lines.append(
            f"| Student's t at 1 % after each pair instead | {len(gates)} | {naive} | | | |"
        )
        cases = dict.fromkeys(row.case for row in own)
        lines += [_case(case, [row for row in own if row.case == case]) for case in cases]
    return "\n".join(lines)


def _head(first: str, *others: str) -> list[str]:
    names = (first, "gates", *others)
    return [f"| {' | '.join(names)} |", f"| {' | '.join(['---'] * len(names))} |"]


def _case(case: str, own: Sequence[Row]) -> str:
    false = sum(row.verdict == FALSE for row in own)
    passed = sum(row.verdict in ("same", "not_worse", "better") for row in own)
    unclear = sum(row.verdict == "unclear" for row in own)
    pairs = f"{median(row.pairs for row in own):g}"
    shares = " | ".join(_share(count, len(own)) for count in (false, passed, unclear))
    return f"| {case} | {len(own)} | {shares} | {pairs} |"


def _planted(rows: Sequence[Row], gpu_bound: Sequence[str]) -> str:
    what = "1 % slower in one case of the gate"
    lines = _head(what, "found", "passed", "mean estimate", "median of pairs")
    for kind in dict.fromkeys(row.replicates for row in rows if row.planted):
        own = [row for row in rows if row.replicates == kind and row.planted == row.case]
        bound = [row for row in own if row.case in gpu_bound]
        lines += [_found(f"**GPU-bound cases, {kind}**", bound)] if bound else []
        cases = dict.fromkeys(row.case for row in own)
        lines += [_found(case, [row for row in own if row.case == case]) for case in cases]
    return "\n".join(lines)


def _found(name: str, own: Sequence[Row]) -> str:
    found = sum(row.verdict == FALSE for row in own)
    passed = sum(row.verdict in ("same", "not_worse", "better") for row in own)
    mean = fmean(row.change for row in own if row.change is not None)
    pairs = f"{median(row.pairs for row in own):g}"
    return (
        f"| {name} | {len(own)} | {_share(found, len(own))} | {_share(passed, len(own))} | "
        f"{mean:+.2%} | {pairs} |"
    )


def _share(count: int, of: int) -> str:
    return f"{count} ({count / of:.1%})" if of else "none"
