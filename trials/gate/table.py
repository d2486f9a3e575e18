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
        of_kind = [row for row in rows if row.replicates == kind and row.planted is None]
        gates = {row.gate for row in of_kind}
        false = _share(len({row.gate for row in of_kind if row.verdict == FALSE}), len(gates))
        naive = _share(len({row.gate for row in of_kind if row.naive}), len(gates))
        lines.append(f"| **whole gates, {kind}** | {len(gates)} | {false} | | | |")
        lines.append(
            f"| Student's t at 1 % after each pair instead | {len(gates)} | {naive} | | | |"
        )
        cases = dict.fromkeys(row.case for row in of_kind)
        lines += [_case(case, [row for row in of_kind if row.case == case]) for case in cases]
    return "\n".join(lines)


def _head(first: str, *others: str) -> list[str]:
    names = (first, "gates", *others)
    return [f"| {' | '.join(names)} |", f"| {' | '.join(['---'] * len(names))} |"]


def _case(case: str, rows: Sequence[Row]) -> str:
    false = sum(row.verdict == FALSE for row in rows)
    passed = sum(row.verdict in ("same", "not_worse", "better") for row in rows)
    unclear = sum(row.verdict == "unclear" for row in rows)
    pairs = f"{median(row.pairs for row in rows):g}"
    shares = " | ".join(_share(count, len(rows)) for count in (false, passed, unclear))
    return f"| {case} | {len(rows)} | {shares} | {pairs} |"


def _planted(rows: Sequence[Row], gpu_bound: Sequence[str]) -> str:
    what = "1 % slower in one case of the gate"
    lines = _head(what, "found", "passed", "mean estimate", "median of pairs")
    for kind in dict.fromkeys(row.replicates for row in rows if row.planted):
        of_kind = [row for row in rows if row.replicates == kind and row.planted == row.case]
        bound = [row for row in of_kind if row.case in gpu_bound]
        lines += [_slower(f"**GPU-bound cases, {kind}**", bound)] if bound else []
        cases = dict.fromkeys(row.case for row in of_kind)
        lines += [_slower(case, [row for row in of_kind if row.case == case]) for case in cases]
    return "\n".join(lines)


def _slower(name: str, rows: Sequence[Row]) -> str:
    regressions = sum(row.verdict == FALSE for row in rows)
    passed = sum(row.verdict in ("same", "not_worse", "better") for row in rows)
    mean = fmean(row.change for row in rows if row.change is not None)
    pairs = f"{median(row.pairs for row in rows):g}"
    return (
        f"| {name} | {len(rows)} | {_share(regressions, len(rows))} "
        f"| {_share(passed, len(rows))} | {mean:+.2%} | {pairs} |"
    )


def _share(count: int, of: int) -> str:
    return f"{count} ({count / of:.1%})" if of else "none"
