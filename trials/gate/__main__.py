"""``make bench-gate``: gates of equal revisions, and of one that is 1 % slower in one case.

Writes one row per case and gate to ``benchmarks/results/gate/synthetic.jsonl`` and the tables into
its ``README.md``. ``--replicates FILE`` prints, and keeps nowhere, the same for recorded processes;
`trials.gate.replicates` says how such a file looks.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from builders.marked import replaced

from trials.gate import replicates, table
from trials.gate.gates import POLICY, Plan, Row, play
from trials.gate.replicates import MEASURED, Times

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "benchmarks" / "results" / "gate" / "synthetic.jsonl"
PAGE = ROWS.parent / "README.md"
SEED = 4
EQUAL, PLANTED = 500, 300
"""Gates of equal revisions, and of each slower case."""
HURT = 1.1
"""How much longer than it should one process of each case takes, where there is an outlier."""
PROCESSES = 2 * POLICY.max_pairs
LEAST = 2 * POLICY.min_pairs
"""A configuration of which fewer processes were recorded is left out."""
LEAST_IN_A_ROW = 10
"""Five pairs, if there are so many."""


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicates", type=Path, help="recorded processes, JSON lines")
    parser.add_argument("--seed", type=int, default=SEED, help="another one writes nothing")
    parser.add_argument("--gpu-bound", nargs="*", help="names in the file that the GPU limits")
    parser.add_argument("--share", type=float, default=1.0, help="so many times as many gates")
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    if arguments.replicates is not None:
        by_name = replicates.read(arguments.replicates)
        recorded = {name: its for name, its in by_name.items() if len(its) >= LEAST}
        print(f"left out, with too few processes: {len(by_name) - len(recorded)}")
        for name, times in recorded.items():
            print(f"{name}: {len(times)} processes, {replicates.spread(times):.2%} between them")
        bound = list(recorded) if arguments.gpu_bound is None else arguments.gpu_bound
        print(table.page(list(from_recorded(recorded, random)), bound))
        return
    rows = list(from_measured_noise(random, arguments.share))
    page = table.page(rows, list(replicates.names(MEASURED)))
    if (arguments.seed, arguments.share) != (SEED, 1.0):
        print(page)
        return
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    ROWS.write_text("".join(row.line() for row in rows), encoding="utf-8")
    PAGE.write_text(
        replaced(PAGE.read_text(encoding="utf-8"), "bench-gate", page), encoding="utf-8"
    )


def from_measured_noise(random: np.random.Generator, share: float = 1.0) -> Iterator[Row]:
    """Gates whose processes have the noise that was measured."""

    def drawn(gates: int) -> dict[str, Times]:
        return {one.name: replicates.made(one, gates, PROCESSES, random) for one in MEASURED}

    def hurt(gates: int) -> dict[str, Times]:
        return {name: replicates.hurt(times, HURT, random) for name, times in drawn(gates).items()}

    names = list(replicates.names(MEASURED))
    yield from _gates("seeded noise", drawn, [one.name for one in MEASURED], share)
    yield from _gates("and one process of each case 10 % slow", hurt, names, share / 2)


def from_recorded(recorded: Mapping[str, Times], random: np.random.Generator) -> Iterator[Row]:
    """Gates whose processes are recorded ones: drawn again and again, each used once, in a row."""

    def drawn(gates: int) -> dict[str, Times]:
        return {
            name: replicates.resampled(times, gates, PROCESSES, random)
            for name, times in recorded.items()
        }

    def once(gates: int) -> dict[str, Times]:
        return {name: replicates.shuffled(times, gates, random) for name, times in recorded.items()}

    def in_a_row(gates: int) -> dict[str, list[Times]]:
        return {
            name: replicates.in_a_row(times, gates, LEAST_IN_A_ROW, PROCESSES, random)
            for name, times in recorded.items()
        }

    yield from _gates("drawn with replacement", drawn, list(recorded))
    yield from _gates("each process once", once, list(recorded))
    yield from _gates("as they ran", in_a_row, list(recorded))


def _gates(
    kind: str,
    drawn: Callable[[int], Mapping[str, Sequence[Times]]],
    names: list[str],
    share: float = 1.0,
) -> Iterator[Row]:
    for planted in (None, *names):
        print(f"{kind}: {planted or 'equal revisions'} ...", file=sys.stderr)
        gates = round(share * (EQUAL if planted is None else PLANTED))
        processes = drawn(gates)
        for gate in range(gates):
            of_gate = {name: times[gate] for name, times in processes.items()}
            rows = play(Plan(kind, planted), gate, of_gate)
            yield from (row for row in rows if planted in (None, row.case))


if __name__ == "__main__":
    main()
