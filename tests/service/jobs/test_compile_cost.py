"""When compiling pays: seconds once against seconds saved at each step."""

import io
from collections.abc import Sequence

import pytest
from builders.measured import a_pass, a_replicate, a_result
from builders.service_hand import FACTS, Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import Case, Direction, Result, Sample
from cli.client import read
from cli.output import result_table
from cli.output.console import Console
from service.jobs import compile_cost
from service.schemas.reports import Report

EAGER = Case(workload="resnet50", preset="full", axes={"precision": "bf16"})
COMPILED = EAGER.model_copy(update={"axes": {"compile": "default", "precision": "bf16"}})


def measured(case: Case, step_s: float, *first_s: float) -> Result:
    """A result whose processes had these first steps."""
    result = a_result(a_replicate(a_pass(step_s), a_pass(step_s))).model_copy(update={"case": case})
    kept = [sample for sample in result.samples if sample.metric != "first_step_time"]
    names = ("first_step_time", "first_step_time_warm")
    parts = (first_s[:1], first_s[1:])
    kept += [
        Sample(metric=name, unit="s", direction=Direction.LOWER, values=values)
        for name, values in zip(names, parts, strict=True)
        if values
    ]
    return result.model_copy(update={"samples": tuple(kept)})


def test_it_pays_after_what_it_costs_beyond_the_eager_start_by_what_a_step_saves() -> None:
    """ResNet-50 on an H200: 50.5 s to compile, 6.3 s to tune the eager case, 17 ms saved a step
    where the loader keeps up."""
    found = compile_cost.cost(
        measured(COMPILED, 0.037, 50.537, 12.037, 14.037), measured(EAGER, 0.054, 6.354)
    )
    assert found is not None
    assert found.cold.compile_s == pytest.approx(50.5)
    assert found.cold.break_even_steps == round((50.5 - 6.3) / 0.017)
    assert found.warm is not None
    assert found.warm.break_even_steps == round((13.0 - 6.3) / 0.017)
    assert found.sentence == (
        "Compiling takes 50\u202fs, 13\u202fs with warm caches, and pays after 2,600 steps, "
        "or 394 with warm caches."
    ).replace("\u202f", "\u00a0")


def test_a_step_that_is_no_faster_never_pays() -> None:
    found = compile_cost.cost(measured(COMPILED, 0.05, 40.0), measured(EAGER, 0.05, 1.0))
    assert found is not None
    assert (found.cold.break_even_steps, found.warm) == (None, None)
    assert found.sentence.endswith("its steps are no faster: it never pays.")


def test_a_case_that_starts_no_later_pays_at_once() -> None:
    found = compile_cost.cost(measured(COMPILED, 0.04, 5.0), measured(EAGER, 0.05, 9.0))
    assert found is not None
    assert found.cold.break_even_steps == 0


def test_what_does_not_compile_has_no_neighbour_to_pay_against() -> None:
    assert compile_cost.eager_of(EAGER) is None
    assert compile_cost.eager_of(COMPILED) == EAGER


def _but(result: Result, others: Sequence[Sample]) -> tuple[Sample, ...]:
    names = {sample.metric for sample in others}
    return tuple(sample for sample in result.samples if sample.metric not in names)


@pytest.mark.both_databases
def test_a_report_says_when_compiling_pays(client: TestClient, hand: Hand) -> None:
    cases = [case.model_copy(update={"preset": "auto"}) for case in (EAGER, COMPILED)]
    body = {
        "cases": [case.model_dump() for case in cases],
        "revision": "r1",
    }
    made = client.post("/api/v1/submissions", json=body).json()
    for _ in range(2):
        lease = hand.must_claim()
        seconds = (0.04, 30.0) if "compile" in lease.spec.case.axes else (0.05, 2.0)
        times = [
            Sample(metric=name, unit="s", direction=Direction.LOWER, values=(value,))
            for name, value in zip(("step_time", "first_step_time"), seconds, strict=True)
        ]
        told = result_of(lease, (100.0,), facts=FACTS)
        told = told.model_copy(update={"samples": (*_but(told, times), *times)})
        answer = hand.post(lease, told)
        assert answer.status_code == 201, answer.text
    answer = client.get(f"/api/v1/submissions/{made['id']}/report")
    rows = read(Report, answer.text).rows
    (told_cost,) = [row.compile_cost for row in rows if row.compile_cost]
    assert told_cost.cold.break_even_steps == round((29.96 - 1.95) / 0.01)
    paper = Console(file=io.StringIO(), width=200)
    result_table.show(rows, paper)
    assert isinstance(paper.file, io.StringIO)
    assert "pays after 2,801 steps" in paper.file.getvalue()
    markdown = client.get(f"/api/v1/submissions/{made['id']}/report", params={"format": "markdown"})
    assert "pays after 2,801 steps" in markdown.text.replace("\\", "")
