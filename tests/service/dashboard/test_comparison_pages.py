"""The pages of comparisons show what was decided, and escape what they show."""

from __future__ import annotations

import re

import numpy as np
import pytest
from builders import long_series as long
from builders.gate_hand import GateHand, measured, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.contracts import Lease, Result, Status
from service.history import contrasts
from service.models import ComparisonRow, EnvironmentRow, Point, SeriesRow
from service.models.project_filter import restrict
from service.wording import formats


def gate_of(client: TestClient, hand: Hand) -> GateHand:
    return GateHand(client, hand)


def test_a_comparison_has_a_page_with_its_cases_and_attempts(
    client: TestClient, hand: Hand
) -> None:
    gate = gate_of(client, hand)
    assert "Nothing was compared yet" in client.get("/comparisons").text
    told = gate.start()
    running = client.get(told["page"]).text
    assert "data-live" in running
    assert "0 of 2 submitted" in running
    gate.measure(steady(0.95))
    decided = client.get(told["page"])
    text = decided.text.replace("\u00a0", " ")
    assert decided.status_code == 200
    assert "data-live" not in text
    assert "Regression" in text
    assert f"{formats.MINUS}5.0 %" in text
    for used in gate.read(told["id"])["decision"]["used"]:
        assert f"/jobs/{used['job_id']}" in text
        assert client.get(f"/runs/{used['result_id']}").status_code == 200
    assert f'href="{told["page"]}"' in client.get("/comparisons").text


def test_gates_stand_apart_from_what_the_service_measured_again(
    client: TestClient, hand: Hand
) -> None:
    gates = [gate_of(client, hand).start() for _ in range(3)]
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        for gate, kind in zip(gates, ("confirmation:", "bisection:"), strict=False):
            session.get_one(ComparisonRow, gate["id"]).source = kind + "0" * 32

    def listed(path: str) -> list[str]:
        return re.findall(r'href="/comparisons/(\w+)"', client.get(path).text)

    assert listed("/comparisons") == [gates[2]["id"]]
    assert set(listed("/comparisons?kind=again")) == {gates[0]["id"], gates[1]["id"]}
    assert '<a href="/comparisons">Gates</a>' in client.get("/").text
    shown = re.findall(r"<code>(\w+)</code></a>", client.get("/comparisons?kind=again").text)
    assert len(set(shown)) == 2


def test_a_time_that_grew_is_shown_with_a_plus(client: TestClient, hand: Hand) -> None:
    gate = gate_of(client, hand)
    told = gate.start(policy={"rules": [{"limits": [{"metric": "step_time"}]}]})
    gate.measure(steady(0.95))
    text = client.get(told["page"]).text.replace("\u00a0", " ")
    assert re.search(r"\+5\.\d %</span>", text)
    assert re.search(r"step_time \+5\.\d %", text)
    assert f"{formats.MINUS}5." not in text
    assert "signed as it was measured" in text


def test_a_strangers_words_are_escaped(client: TestClient, hand: Hand) -> None:
    def script(lease: Lease) -> Result:
        return measured(lease, 0.0, status=Status.OOM, reason="<script>alert(1)</script>")

    gate = gate_of(client, hand)
    told = gate.start()
    gate.measure(script)
    text = client.get(told["page"]).text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_a_comparison_that_does_not_exist_is_a_page_that_says_so(client: TestClient) -> None:
    answer = client.get("/comparisons/none")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")


@pytest.fixture
def two_sided(client: TestClient) -> TestClient:
    """Two workers of which one is 3 % slower, and two settings, over twenty days until now."""
    database = client.app.state.database  # type: ignore[attr-defined]
    noise = np.random.default_rng(1).normal(1, 0.002, (3, 20))
    with database.writing() as session:
        long.prepare(session, ("fast", "slow"))
        fast, slow, bf16 = ([float(v) for v in row] for row in noise * [[100], [97], [200]])
        for place, (worker, values) in enumerate((("fast", fast), ("slow", slow))):
            long.add(session, dict(enumerate(values)), worker=worker, place=place)
        long.add(session, dict(enumerate(bf16)), "fast", series_id=long.OTHER, place=2)
    return client


TIME = "&since=2025-12-01&until=2026-03-01"
SIDES = [
    ("by=worker&baseline=fast&contender=slow", f"{formats.MINUS}3.", "20 pairs"),
    ("by=setting&baseline=precision%3Dfp32&contender=precision%3Dbf16", "+10", "20 pairs"),
    (
        "by=date&baseline=2026-01-01..2026-01-05&contender=2026-01-06..2026-01-20",
        "△</span> +0.1 %",
        "no revision in common",
    ),
]


@pytest.mark.parametrize(("query", "change", "how"), SIDES)
def test_two_sides_of_the_history_are_compared(
    two_sided: TestClient, query: str, change: str, how: str
) -> None:
    text = two_sided.get(f"/compare?{query}{TIME}").text.replace("\u00a0", " ")
    table = text[text.index("<tbody>") : text.rindex("</tbody>")]
    assert change in table
    assert how in table


def test_environments_are_compared_by_a_fact_and_tell_what_else_differs(
    two_sided: TestClient,
) -> None:
    database = two_sided.app.state.database  # type: ignore[attr-defined]
    facts = [{"sw.torch": "2.12"}, {"sw.torch": "2.13", "flag.threads": "4"}]
    with database.writing() as session:
        session.get_one(EnvironmentRow, "e").facts = facts[0] | {"flag.threads": "2"}
        session.add(EnvironmentRow(digest="n", facts=facts[1], first_seen_at=long.START))
        session.flush()
        newer = update(Point).where(Point.revision_at >= long.placed_at(10))
        session.execute(newer.values(environment="n"))
    sides = "by=environment&baseline=sw.torch%3D2.12&contender=sw.torch%3D2.13"
    text = two_sided.get(f"/compare?{sides}{TIME}").text
    assert "flag.threads" in text[text.index("The environments differ") :]
    assert "10 revisions" in text.replace("\u00a0", " ")
    assert '<option value="sw.torch=2.13">' in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("by=setting&baseline=compile%3Doff&contender=precision%3Dbf16", "of one axis"),
        ("by=environment&baseline=x&contender=y", "named by a fact"),
        ("by=date&baseline=yesterday&contender=today", "a range of days"),
        ("by=date&baseline=9999-12-31&contender=today", "a range of days"),
        ("by=date&baseline=2024-01-01..2025-06-01&contender=2026-01-01", "366 days at most"),
        ("by=worker&baseline=a&contender=b&since=2020-01-01", "366 days at most"),
        ("by=setting&baseline=a%3D1&contender=a%3D2&since=2020-01-01", "366 days at most"),
    ],
)
def test_a_side_that_is_not_understood_is_told(client: TestClient, query: str, said: str) -> None:
    answer = client.get(f"/compare?{query}")
    assert answer.status_code == 200
    assert said in answer.text


@pytest.mark.parametrize("query", [query for query, *_ in SIDES])
def test_a_side_with_too_many_measurements_is_refused_until_it_is_narrowed(
    two_sided: TestClient, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(contrasts, "MOST_POINTS", 4)
    page = f"/compare?{query}{TIME}"
    assert "A side has more than 4 measurements" in two_sided.get(page).text
    assert "A side has more" not in two_sided.get(f"{page}&workload=unet").text


def test_the_largest_changes_between_revisions_are_drawn(client: TestClient) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {number: 100.0 if number < 6 else 90.0 for number in range(10)})
        long.add(session, {4: 200.0, 7: 210.0}, series_id=long.OTHER, place=1)
    ends = [long.revision_of(number) for number in (5, 6)]
    text = client.get(f"/compare?baseline={ends[0]}&contender={ends[1]}").text
    drawn = text[text.index("The largest changes") : text.index("<table")]
    assert drawn.count('<svg class="beside"') == 1
    assert drawn.count("h0") == 10
    assert f'href="/series/{long.SERIES}"' in drawn
    assert f"{formats.MINUS}10.0" in drawn
    backwards = client.get(f"/compare?baseline={ends[1]}&contender={ends[0]}").text
    assert "The largest changes" not in backwards
    ends = [long.revision_of(number) for number in (4, 7)]
    text = client.get(f"/compare?baseline={ends[0]}&contender={ends[1]}").text
    assert f'href="/series/{long.OTHER}"' in text
    assert text.count('<svg class="beside"') == 1  # two points alone are no history


def test_values_are_of_the_revisions_that_are_compared(client: TestClient) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        long.prepare(session, ("a", "b"))
        values = {number: 100.0 if number < 3 else 50.0 for number in range(10)}
        long.add(session, values, worker="a")
        long.add(session, {0: 100.0, 1: 100.0, 2: 100.0}, worker="b", place=1)
        ends = [long.START, long.placed_at(99)]
        (one,) = contrasts.contrasts(session, "worker", ("a", "b"), "throughput", *ends)
    assert one.baseline
    assert one.contender
    assert one.found
    assert one.found.pairs == len(one.baseline.logs) == len(one.contender.logs) == 3
    assert (one.baseline.value, one.contender.value) == pytest.approx((100.0, 100.0))


def test_a_project_is_offered_the_facts_of_its_own_environments_alone(client: TestClient) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        long.prepare(session)
        for digest in "nmo":
            facts = {"sw.torch": f"2.{ord(digest)}"}
            session.add(EnvironmentRow(digest=digest, facts=facts, first_seen_at=long.START))
        session.flush()
        for place, (series_id, project) in enumerate(
            {long.SERIES: "red", long.OTHER: "blue"}.items()
        ):
            owned = update(SeriesRow).where(SeriesRow.id == series_id)
            session.execute(owned.values(project=project))
            long.add(session, {1: 1.0, 2: 2.0}, series_id=series_id, place=place, project=project)
        for number, digest in ((1, "n"), (2, "m")):
            of = (Point.series_id == long.SERIES, Point.revision == long.revision_of(number))
            session.execute(update(Point).where(*of).values(environment=digest))
        blue = update(Point).where(Point.series_id == long.OTHER)
        session.execute(blue.values(environment="o"))
    with database.reading() as session:
        assert len(contrasts.varied_facts(session)) == 3
    with database.reading() as session:
        restrict(session, "red")
        assert contrasts.varied_facts(session) == ["sw.torch=2.109", "sw.torch=2.110"]
