"""Which factor is named where a cause meets a drift: one look, without a service. Pure.

    PYTHONPATH=.:tests python -m trials.nights.crossing

Every cell of the matrix has a history with the noise of the simulated fleet. A cause moves the
cells of its factor at one place; a workload drifts by 3 % in twelve nights, of which the first two
to ten have passed. What joins the cause and what counts against it is decided as the service does
(*step*), and by the whole shift of each series, as it did before (*shift*).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
from builders.attributed import question
from builders.marked import replaced
from builders.watched_series import placed_at, watched

from benchmarks.contracts import Case
from service.analysis.attribution import Cell, Moved
from service.analysis.attribution.factors import rule, where
from service.findings import causes
from service.findings.shift import Shift, shift_at, step_at
from service.findings.witnesses import support_at_place
from service.history.series_history import SeriesHistory
from service.wording.statements import say
from trials.nights.__main__ import PAGE, RESULTS
from trials.nights.cells import cases_of, named, numbered
from trials.nights.events import BF16, COMPILED, EVERYTHING, GPUS, Factor
from trials.nights.fleet import NODES
from trials.nights.score import alike

PLACE = 26
PLANTED = (
    ("bf16 1 % slower", BF16, 0.01),
    ("compiled 2 % slower", COMPILED, 0.02),
    ("driver 1.5 % slower", EVERYTHING, 0.015),
    ("driver 2 % faster", EVERYTHING, -0.02),
    ("unet 3 % slower", Factor(workload="unet"), 0.03),
    ("resnet50 on one GPU 3 % slower", Factor(workload="resnet50", gpu=GPUS[1]), 0.03),
)
DRIFTING = ("", "resnet50", "unet")
Looked = tuple[Cell, Shift]


@dataclass(frozen=True)
class Crossing:
    """What was named of one planted cause, by the step and by the whole shift."""

    seed: int
    planted: str
    drifting: str
    nights: int
    step: bool
    shift: bool


def crossing(seed: int, planted: tuple[str, Factor, float], drifting: str, nights: int) -> Crossing:
    """Plant a cause and look at it after some nights."""
    name, factor, size = planted
    cells = list(_cells(seed, factor, size, drifting, nights))
    named_right = []
    for look in (step_at, shift_at):
        found = [(cell, look(history, placed_at(PLACE), (), {})) for cell, history in cells]
        shown = [(cell, shift) for cell, shift in found if shift is not None]
        named_right.append(_right(shown, size, _planted(factor), by_step=look is step_at))
    return Crossing(seed, name, drifting, nights, *named_right)


def _cells(
    seed: int, factor: Factor, size: float, drifting: str, nights: int
) -> Iterator[tuple[Cell, SeriesHistory]]:
    random = np.random.default_rng(seed)
    begin = PLACE - int(random.integers(2, 11))
    at = np.arange(PLACE + nights)
    drift = 0.03 * np.clip((at - begin) / 12, 0.0, 1.0)
    for case, gpu in product(_cases(), GPUS):
        moves = factor.covers(case) and factor.gpu in ("", gpu)
        levels = -size * moves * (at >= PLACE) - drift * (case.workload == drifting)
        workers = [worker for worker, its in NODES.items() if its == gpu]
        history = watched(list(levels), int(random.integers(2**32)), case, workers)
        yield Cell(case, gpu), history


def _right(shown: Sequence[Looked], size: float, planted: frozenset[int], *, by_step: bool) -> bool:
    """Say if the right factor is named, as the score of the nights has it."""
    cause = math.log1p(-size)
    support = {cell: support_at_place(cause, shift) for cell, shift in shown}
    moved = [(cell, shift) for cell, shift in shown if support[cell] >= causes.SUPPORT]
    if not moved:
        return False
    first = max(moved, key=lambda one: support[one[0]])
    still = [
        cell
        for cell, shift in shown
        if support[cell] < causes.SUPPORT and _stayed(cause, shift, by_step=by_step)
    ]
    asked = question(
        (),
        (),
        case=first[0].case,
        hardware=first[0].hardware,
        effect=first[1].effect,
        moved=tuple(Moved(cell, shift.effect) for cell, shift in moved if cell != first[0]),
        unmoved=tuple(still),
    )
    subject, _, extent = say(where(asked, rule(asked))).partition(": ")
    whole = named(f"{subject} is 1.0 % slower: {extent}", _cases())
    cells = numbered(_cases())
    listed = frozenset(cells[cell.case.key, cell.hardware] for cell, _ in moved)
    return whole == planted or alike(listed, planted)


def _stayed(cause: float, shift: Shift, *, by_step: bool) -> bool:
    if by_step:
        return causes.stayed(cause, shift.log, shift.error)
    return causes.support(cause, shift.log, shift.error) < 0


def _planted(factor: Factor) -> frozenset[int]:
    cells = numbered(_cases()).items()
    covered = {case.key for case in _cases() if factor.covers(case)}
    return frozenset(at for (key, gpu), at in cells if key in covered and factor.gpu in ("", gpu))


def _cases() -> list[Case]:
    return cases_of(43)


def table(rows: Sequence[Crossing]) -> list[str]:
    """How often the right factor was named."""
    lines = ["| cause | no drift | in part of its cells, or beside them |", "| --- | --- | --- |"]
    for name, _, _ in PLANTED:
        of = [row for row in rows if row.planted == name]
        sides = ([row for row in of if bool(row.drifting) is drifts] for drifts in (False, True))
        shown = (
            f"{sum(row.shift for row in side)} → {sum(row.step for row in side)} of {len(side)}"
            for side in sides
        )
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return lines


def main() -> None:
    """Write the rows and their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1_000, help="first seed")
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    rows = [crossing(*one) for one in product(seeds, PLANTED, DRIFTING, (1, 4))]
    text = "".join(json.dumps(asdict(row)) + "\n" for row in rows)
    (RESULTS / "crossing.jsonl").write_text(text)
    lines = "\n".join(table(rows))
    PAGE.write_text(replaced(PAGE.read_text(), "crossing", lines))
    print(lines)


if __name__ == "__main__":
    main()
