"""Which axis values explain what moved together."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import pytest
from builders.attributed import Night, explained, question, side
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.contracts import Case
from service.analysis.attribution import Cell, Moved, Question
from service.analysis.attribution.factors import (
    MOST_CONDITIONS,
    AxisRule,
    cells,
    not_told_apart,
    rule,
    where,
)
from service.wording.statements import say

QUICK = settings(max_examples=60, deadline=None, derandomize=True)
BEFORE, AFTER = side(Night(), 2), side(Night(revision="r12", work_s=0.103), 2, first_day=5)


def case(workload: str, **axes: str) -> Case:
    return Case(workload=workload, preset="full", axes={k: v for k, v in axes.items() if v})


MATRIX = [
    case(workload, compile=compiled, precision=precision, workers=workers)
    for workload in ("nanogpt", "resnet50", "unet")
    for compiled in ("", "default", "reduce-overhead")
    for precision in ("", "bf16")
    for workers in ("", "4")
]


def asked(moved: Iterable[Case], among: Iterable[Case] = MATRIX, effect: float = -0.03) -> Question:
    """A question about the first of ``moved``."""
    group = list(moved)
    rest = tuple(cell for cell in among if cell not in group)
    results = [run.result.model_copy(update={"case": group[0]}) for run in (*BEFORE, *AFTER)]
    sides = [
        type(BEFORE[0])(m.revision, m.worker, r)
        for m, r in zip((*BEFORE, *AFTER), results, strict=True)
    ]
    return question(
        sides[:2],
        sides[2:],
        case=group[0],
        effect=effect,
        moved=tuple(Moved(Cell(cell), effect) for cell in group[1:]),
        unmoved=tuple(map(Cell, rest)),
    )


def described(moved: Iterable[Case], among: Iterable[Case] = MATRIX) -> str:
    posed = asked(moved, among)
    return say(where(posed, rule(posed)))


def those(**wanted: str) -> list[Case]:
    return [
        cell
        for cell in MATRIX
        if all(
            cell.workload == value if name == "workload" else cell.axes.get(name, "") == value
            for name, value in wanted.items()
        )
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"workload": "unet"}, "unet: all 12 cases, none of the other 24"),
        (
            {"workload": "unet", "compile": "default"},
            "unet with compile=default: all 4 cases, none of the other 32",
        ),
        (
            {"workload": "unet", "compile": "default", "precision": "bf16"},
            "bf16 unet with compile=default: all 2 cases, none of the other 34",
        ),
        ({"precision": "bf16"}, "bf16 training: all 18 cases, none of the other 18"),
        ({"precision": ""}, "training with default precision: all 18 cases, none of the other 18"),
        (
            {"compile": "", "workload": "resnet50"},
            "uncompiled resnet50: all 4 cases, none of the other 32",
        ),
        ({}, "training: all 36 cases"),
    ],
)
def test_the_shortest_rule_names_the_cells(wanted: dict[str, str], expected: str) -> None:
    assert described(those(**wanted)) == expected


def test_any_value_of_an_axis_may_be_the_reason() -> None:
    compiled = [c for c in MATRIX if "compile" in c.axes]
    assert described(compiled) == "compiled training: all 24 cases, none of the other 12"


def test_one_of_four_may_stand_still() -> None:
    four = those(workload="unet", compile="default")
    assert (
        described(four[:3])
        == "unet with compile=default: 3 of 4 cases (1 unchanged), none of the other 32"
    )


def test_cases_that_do_not_tell_are_told_of() -> None:
    """Noise, or another cause, hides nine of the twelve; that of another workload is no matter."""
    unet = those(workload="unet")
    posed = asked(unet[:3], [one for one in MATRIX if one not in unet[3:]])
    posed = replace(posed, unclear=tuple(map(Cell, [*unet[3:], those(workload="nanogpt")[0]])))
    expected = "unet: 3 of 12 cases (9 unclear), none of the other 24"
    assert say(where(posed, rule(posed))) == expected


def on(hardware: str, moved: Iterable[Case], cause: Question) -> Question:
    """The same question, with all of its cells on another kind of hardware too."""
    more = [Moved(Cell(one, hardware), cause.effect) for one in moved]
    keys = {one.cell.case.key for one in more}
    everyone = [cause.cell.case, *(one.cell.case for one in cause.moved)]
    everyone += [cell.case for cell in cause.unmoved]
    still = [Cell(one, hardware) for one in everyone if one.key not in keys]
    return replace(cause, moved=(*cause.moved, *more), unmoved=(*cause.unmoved, *still))


def two_gpus(first: list[Case], second: list[Case]) -> str:
    def named(cell: Cell) -> Cell:
        return replace(cell, hardware=cell.hardware or "NVIDIA H200")

    posed = on("NVIDIA L40S", second, asked(first))
    posed = replace(
        posed,
        hardware="NVIDIA H200",
        moved=tuple(replace(one, cell=named(one.cell)) for one in posed.moved),
        unmoved=tuple(map(named, posed.unmoved)),
    )
    return say(where(posed, rule(posed)))


def test_a_case_on_two_kinds_of_gpu_counts_once() -> None:
    unet = those(workload="unet")
    both = "on H200 and L40S, none of the other 24"
    assert two_gpus(unet, unet) == f"unet: all 12 cases {both}"
    assert two_gpus(unet, unet[1:]) == f"unet: all 12 cases (1 of them not on all GPUs) {both}"
    assert two_gpus(unet, []) == "unet on H200: all 12 cases, not on L40S, none of the other 24"
    assert two_gpus(unet, unet[:1]) == f"unet on H200: all 12 cases {both}"
    assert two_gpus(unet[:1], []).endswith("1 of 36 cases on H200, not on L40S")


def test_a_single_case_that_moved_on_one_gpu_alone_names_it() -> None:
    one = those(workload="unet")[0]
    posed = replace(
        asked([one], [one]), hardware="NVIDIA H200", unmoved=(Cell(one, "NVIDIA L40S"),)
    )
    assert say(where(posed, rule(posed))) == f"{one.key}: on H200, not on L40S"


def test_a_case_that_cannot_tell_on_the_gpu_that_moved_is_unclear() -> None:
    unet = those(workload="unet")
    posed = on("NVIDIA L40S", [], asked(unet[1:], [one for one in MATRIX if one is not unet[0]]))
    named = [replace(one, hardware=one.hardware or "NVIDIA H200") for one in posed.unmoved]
    posed = replace(
        posed,
        hardware="NVIDIA H200",
        moved=tuple(
            replace(one, cell=replace(one.cell, hardware="NVIDIA H200")) for one in posed.moved
        ),
        unmoved=(*named, Cell(unet[0], "NVIDIA L40S")),
        unclear=(Cell(unet[0], "NVIDIA H200"),),
    )
    expected = "unet on H200: 11 of 12 cases (1 unclear), not on L40S, none of the other 24"
    assert say(where(posed, rule(posed))) == expected


def test_an_exact_rule_is_worth_one_more_condition() -> None:
    """Twelve of sixteen would let the workload alone pass."""
    modes = ("", "default", "reduce-overhead", "max-autotune")
    matrix = [case("unet", compile=m, layout=v) for m in modes for v in ("", "a", "b", "c")]
    moved = [cell for cell in matrix if "compile" in cell.axes]
    expected = "compiled unet: all 12 cases, none of the other 4"
    assert described(moved, matrix) == expected


def test_half_of_the_cells_are_no_rule() -> None:
    pair = [those(workload="unet", compile="default")[0], those(workload="nanogpt")[5]]
    assert described(pair).endswith("and 1 other case: 2 of 36 cases")


def test_one_more_cell_elsewhere_is_told_beside_the_rule() -> None:
    moved = [*those(workload="unet", compile="default"), those(workload="nanogpt")[0]]
    assert (
        described(moved)
        == "unet with compile=default: all 4 cases and 1 other, none of the other 31"
    )


def test_a_single_cell_is_named_in_full() -> None:
    one = those(workload="unet", compile="default", precision="bf16")[0]
    assert described([one]) == f"{one.key}: 1 of 36 cases"
    assert described([one], [one]) == one.key


def test_a_case_that_moved_the_other_way_did_not_move_with_it() -> None:
    slower, faster = those(workload="unet"), those(workload="nanogpt")
    posed = asked(slower)
    posed = question(
        posed.before, posed.after, case=posed.case, effect=-0.03,
        moved=(*posed.moved, *(Moved(Cell(cell), 0.05) for cell in faster)),
    )  # fmt: skip
    assert [cell.case.workload for cell in cells(posed)[0]] == ["unet"] * 12
    assert (
        "unet is 3.0\u00a0% slower since r12: all 12 cases, none of the other 12."
        in explained(posed).sentence
    )


def test_effects_that_differ_are_given_from_least_to_most() -> None:
    posed = asked(those(workload="unet"))
    effects = [-0.021, -0.048, *[-0.03] * 9]
    moved = tuple(Moved(m.cell, e) for m, e in zip(posed.moved, effects, strict=True))
    spread = question(posed.before, posed.after, case=posed.case, effect=-0.03, moved=moved)
    assert "is 2.1\u00a0% to 4.8\u00a0% slower" in explained(spread).sentence


def test_conditions_that_cover_the_same_cells_are_not_told_apart() -> None:
    tied = [
        case(w, compile=v, precision=v and "bf16")
        for w in ("unet", "nanogpt")
        for v in ("", "default")
    ]
    moved = [cell for cell in tied if cell.axes]
    posed = asked(moved, tied)
    assert tuple(map(say, not_told_apart(rule(posed)))) == (
        "compile=default and precision=bf16 hold for the same cases here, so either may be the "
        "reason.",
    )


def test_many_axes_are_searched_in_full_within_reason() -> None:
    names = [f"axis{number}" for number in range(12)]
    wide = [
        Case(
            workload="unet",
            preset="full",
            axes={n: "x" for i, n in enumerate(names) if at >> i & 1},
        )
        for at in range(0, 4096, 17)
    ]
    moved = [cell for cell in wide if {"axis2", "axis5", "axis9"} <= cell.axes.keys()]
    assert described(moved, wide).startswith("unet with axis2=x, axis5=x and axis9=x")


subsets = st.lists(st.sampled_from(MATRIX), min_size=1, max_size=14, unique_by=lambda c: c.key)


@QUICK
@given(subsets)
def test_a_rule_covers_what_it_says(moved: list[Case]) -> None:
    posed = asked(moved)
    found = rule(posed)
    if found is None:
        return
    covered = [cell for cell in MATRIX if all(c.holds(Cell(cell)) for c in found.conditions)]
    assert {c.key for c in covered} == {c.case.key for c in found.covered}
    assert {c.case.key for c in found.moved} == {c.key for c in moved} & {c.key for c in covered}
    assert {c.case.key for c in found.others} == {c.key for c in moved} - {c.key for c in covered}
    assert len(found.moved) >= 0.75 * max(len(covered), len(moved))
    assert posed.cell in found.covered


@QUICK
@given(subsets, st.randoms(use_true_random=False))
def test_the_order_of_cases_says_nothing(moved: list[Case], random: object) -> None:
    rest = [cell for cell in MATRIX if cell not in moved]
    mixed = moved[1:]
    random.shuffle(mixed)  # type: ignore[attr-defined]
    random.shuffle(rest)  # type: ignore[attr-defined]
    assert described(moved) == described([moved[0], *mixed], [*moved, *rest])


@QUICK
@given(subsets)
def test_no_shorter_rule_is_as_right(moved: list[Case]) -> None:
    """Against the obvious: every conjunction of settings, no bits and no shortcuts."""
    found = rule(asked(moved))
    exceptions, size = _exceptions(found, moved)
    for conditions in _obvious(moved[0]):
        covered = {c.key for c in MATRIX if all(_holds(c, cell) for cell in conditions)}
        if len(conditions) <= size and found is not None:
            matrix = {c.key for c in moved}
            enough = len(matrix & covered) >= 0.75 * max(len(matrix), len(covered))
            better = len(matrix ^ covered) < exceptions
            assert not (enough and better), conditions


def _exceptions(found: AxisRule | None, moved: list[Case]) -> tuple[int, int]:
    if found is None:
        return len(MATRIX), 0
    return len({c.key for c in moved} ^ {c.key for c in found.covered}), len(found.conditions)


def _obvious(of: Case) -> Iterable[tuple[tuple[str, str], ...]]:
    matrix = [
        ("workload", of.workload),
        *((a, of.axes.get(a, "")) for a in ("compile", "precision", "workers")),
    ]
    for size in range(MOST_CONDITIONS + 1):
        yield from combinations(matrix, size)


def _holds(each: Case, condition: tuple[str, str]) -> bool:
    name, value = condition
    return each.workload == value if name == "workload" else each.axes.get(name, "") == value
