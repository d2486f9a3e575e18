"""The report of the suite `full` says what each factor does, once every run has a number."""

import io

import pytest
from builders.service_hand import FACTS, Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.catalog.suites import suite
from benchmarks.contracts import Lease
from cli.client import read
from cli.output import result_table
from cli.output.console import Console
from service.schemas.reports import Effects, Report
from service.wording.formats import times

DESIGN = suite("full").designs[0]


def _rate(lease: Lease) -> float:
    """Planted: bf16 doubles, channels_last adds half, and half again beside bf16."""
    axes = lease.spec.case.axes
    rate = 1000.0
    if axes.get("precision") == "bf16":
        rate *= 2.0
    if axes.get("layout") == "channels_last":
        rate *= 1.5 if axes.get("precision") == "bf16" else 1.0
    return rate


def _measure(client: TestClient, hand: Hand, runs: int, elsewhere: int | None = None) -> str:
    body = {"suite": "full", "revision": "r1"}
    submission = str(client.post("/api/v1/submissions", json=body).json()["id"])
    for number in range(runs):
        lease = hand.must_claim()
        assert lease.spec.case.workload == "resnet50"
        rate = _rate(lease)
        facts = FACTS | {"hw.gpu.name": "another"} if number == elsewhere else FACTS
        values = (rate, rate * 1.001, rate * 0.999)
        assert hand.post(lease, result_of(lease, values, facts=facts)).status_code == 201
    return submission


def _report(client: TestClient, submission: str, **query: str) -> str:
    answer = client.get(f"/api/v1/submissions/{submission}/report", params=query)
    assert answer.status_code == 200, answer.text
    return str(answer.text)


def test_the_effects_of_a_finished_design_are_in_the_report(client: TestClient, hand: Hand) -> None:
    submission = _measure(client, hand, 16)
    told = read(Report, _report(client, submission))
    (found,) = told.effects  # of the other workloads nothing is measured yet
    terms = {term.name: term for term in found.terms}
    assert (found.workload, found.missing) == ("resnet50", ())
    assert terms["precision"].ratio == pytest.approx(2 * 1.5**0.5, rel=1e-3)
    assert terms["precision x layout"].ratio == pytest.approx(1.5, rel=1e-3)
    assert terms["compile"].ratio == pytest.approx(1.0, rel=1e-3)
    assert terms["precision"].clear
    assert not terms["compile"].clear
    assert "resolution V" in found.limits[0]
    markdown = _report(client, submission, format="markdown")
    assert "### Effects: resnet50" in markdown
    assert "precision=bf16 over fp32" in markdown.replace("\\", "")
    assert "2.45" in _shown(found)
    assert "with layout=channels_last over with contiguous" in _shown(found)


@pytest.mark.parametrize(("runs", "elsewhere"), [(15, None), (16, 7)], ids=["late", "elsewhere"])
def test_a_run_without_a_number_or_from_another_machine_leaves_no_effects(
    client: TestClient, hand: Hand, runs: int, elsewhere: int | None
) -> None:
    told = read(Report, _report(client, _measure(client, hand, runs, elsewhere)))
    (found,) = told.effects
    assert found.terms == ()
    assert len(found.missing) == 1
    assert "No effects: 1 of 16 runs have no number (resnet50:auto" in _shown(found)


def test_a_run_that_was_taken_out_leaves_no_effects(client: TestClient, hand: Hand) -> None:
    submission = _measure(client, hand, 16)
    told = read(Report, _report(client, submission))
    who = {"reason": "Another process held the CPU.", "actor": "ada"}
    result = told.rows[3].result_id
    assert client.put(f"/api/v1/results/{result}/exclusion", json=who).is_success
    (found,) = read(Report, _report(client, submission)).effects
    assert (found.terms, len(found.missing)) == ((), 1)


def _shown(found: Effects) -> str:
    console = Console(file=io.StringIO(), width=200)
    result_table.show_effects(found, console)
    printed = console.file
    assert isinstance(printed, io.StringIO)
    return printed.getvalue()


def test_the_matrix_shows_which_settings_act_on_each_other(client: TestClient, hand: Hand) -> None:
    _measure(client, hand, 15)
    page = "/matrix?workload=resnet50"
    assert (
        "Needs all 16 cases of the suite on this hardware; 15 are measured."
        in client.get(page).text
    )
    rate = _rate(lease := hand.must_claim())
    assert hand.post(lease, result_of(lease, (rate, rate * 1.001, rate * 0.999))).is_success
    text = client.get(page).text
    row = text[text.index("precision=bf16 with layout=channels_last") :].split("</tr>")[0]
    cells = [cell.split(">")[-1] for cell in row.split("</td>") if "data-label" in cell]
    assert cells[:2] == [f"{times(2.0)}, {times(1.0)}", times(3.0)]
    assert times(1.5) in cells
    assert "9 pairs more of which that is not sure" in text
