"""The inbox, a finding, and what other pages show of the analysis."""

from __future__ import annotations

import re
import shutil
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from builders import analysed as builder
from builders import long_series as long
from builders.access import guarded
from builders.analysed import Analysed
from builders.corrupted import run
from builders.html_page import faults, links
from builders.profiled import a_profile, kernels, profiled
from fastapi.testclient import TestClient
from sqlalchemy import delete, event, select, update

from service import findings
from service.analysis.statement import Statement
from service.app import create_app
from service.dashboard import finding_data, finding_labels, finding_pages
from service.database.session import Database
from service.findings import ACTIONS
from service.history.queries import stored_of
from service.models import (
    AnalysisRow,
    ChangeRow,
    ConfirmationRow,
    ConfirmationState,
    FindingRow,
    FindingSeries,
    FindingState,
    Point,
    ResultRow,
    Revision,
    SeriesRow,
    Submission,
)
from service.settings import Access, Settings


@pytest.fixture(scope="module")
def filled(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Analysed]:
    path = tmp_path_factory.mktemp("analysed") / "analysed.sqlite3"
    shutil.copyfile(sqlite_template, path)
    database = Database(f"sqlite:///{path}")
    told = builder.analyse(database)
    database.close()
    return path, told


@pytest.fixture(scope="module")
def ids(filled: tuple[Path, Analysed]) -> Analysed:
    return filled[1]


@pytest.fixture(scope="module")
def pages(filled: tuple[Path, Analysed]) -> Iterator[TestClient]:
    """Pages that are only read."""
    yield from client(filled[0])


@pytest.fixture
def acting(filled: tuple[Path, Analysed], tmp_path: Path) -> Iterator[TestClient]:
    """Pages of a history of its own, with which something is done."""
    shutil.copyfile(filled[0], tmp_path / "own.sqlite3")
    yield from client(tmp_path / "own.sqlite3")


def client(path: Path) -> Iterator[TestClient]:
    settings = Settings(database_url=f"sqlite:///{path}", background=False)
    with TestClient(create_app(settings), raise_server_exceptions=False) as found:
        yield found


def database_of(pages: TestClient) -> Database:
    database = pages.app.state.database  # type: ignore[attr-defined]
    assert isinstance(database, Database)
    return database


def read(pages: TestClient, path: str) -> str:
    answer = pages.get(path)
    assert answer.status_code == 200, answer.text[:500]
    return answer.text.replace("\u00a0", " ")


def addresses(ids: Analysed) -> list[str]:
    return [
        "/findings",
        f"/findings/{ids.regression}",
        f"/findings/{ids.node}",
        f"/series/{long.SERIES}",
        f"/series/{long.OTHER}?x=time",
        f"/runs/{builder.EXCLUDED}",
        f"/runs/{long.result_of(40)}",
        "/",
    ]


def test_pages_are_well_made_and_lead_somewhere(pages: TestClient, ids: Analysed) -> None:
    seen: set[str] = set()
    for path in addresses(ids):
        text = read(pages, path)
        assert faults(text) == [], path
        seen |= set(links(text)[:40])
    for link in sorted(seen):
        assert pages.get(link).status_code == 200, link


def test_the_words_of_strangers_are_shown_and_never_obeyed(
    pages: TestClient, ids: Analysed
) -> None:
    for path in addresses(ids)[:6]:
        text = read(pages, path)
        assert "<script>alert" not in text, path
        assert "<img src=x" not in text, path
    for path in addresses(ids)[:3]:
        assert "&lt;script&gt;alert" in read(pages, path)


def test_the_inbox_says_what_came_up_and_how_much_of_it_may_be_false(
    pages: TestClient, ids: Analysed
) -> None:
    text = read(pages, "/findings")
    assert re.search(r"<b>2</b> opened in the last 24 h; .* among them: <b>0\.\d\d</b>", text)
    attention = text[text.index("Asks for attention") : text.index("Being measured again now")]
    assert f'href="/findings/{ids.regression}"' in attention
    assert f'href="/findings/{ids.node}"' in attention
    assert "4.9 % slower since r00030" in attention
    assert "8.0 % slower" in attention
    assert "overdue" in attention
    assert ">not confirmed yet" in attention
    assert ">confirmed by reruns" in attention


def test_the_inbox_tells_suspicions_that_run_from_those_that_came_to_nothing(
    pages: TestClient,
) -> None:
    text = read(pages, "/findings")
    running = text[text.index("Being measured again now") : text.index("Suspicious, and not")]
    assert re.search(r'href="/comparisons/[0-9a-f]{32}"', running)
    assert re.search(r"6\.\d % worse", running)
    nothing = text[text.index("Suspicious, and not") :]
    assert "Not reproduced" in nothing
    assert "3.0 % worse" in nothing


def test_an_empty_inbox_says_what_will_appear_and_when(empty_pages: TestClient) -> None:
    text = read(empty_pages, "/findings")
    assert "Nothing has been found yet" in text
    assert "A series is analysed from 10 points on; none has any yet." in text
    assert faults(text) == []
    assert 'class="count"' not in text


def test_every_page_says_how_many_ask_for_attention(pages: TestClient, ids: Analysed) -> None:
    for path in (*addresses(ids), "/jobs", "/comparisons", "/workers"):
        assert 'title="2 ask for attention">2<' in read(pages, path), path
    part = pages.get("/findings", headers={"HX-Request": "true"}).text
    assert part.lstrip().startswith('<div id="live"')
    assert "ask for attention</" not in part


def test_a_finding_shows_cause_evidence_effect_and_history(
    pages: TestClient, ids: Analysed
) -> None:
    text = read(pages, f"/findings/{ids.regression}")
    for said in (
        "4.9 % slower since r00030",
        "the revision changed",
        "Not excluded",
        "Named when ",
        "The environment is not known on both sides.",
        "100.0 img/s",
        "95.",
        f'href="/series/{long.SERIES}"',
        f'href="/runs/{long.result_of(30)}"',
        "baseline=r00029&amp;contender=r00030",
        "<b>throughline</b> found it",
        "<b>ada</b> planned",
        "Expected: new baseline",
        "fan broken",
    ):
        assert said in text, said
    assert text.count("data-chart") == 1


def labels_of(text: str) -> list[str]:
    """What the chart of a page says of changes."""
    drawn = re.search(r'<script type="application/json">(.*?)</script>', text)
    assert drawn
    return [each["text"] for each in orjson.loads(drawn[1])["layout"]["annotations"]]


def test_a_change_that_the_history_does_not_show_is_drawn_as_its_finding_knows_it(
    acting: TestClient, ids: Analysed
) -> None:
    path = f"/findings/{ids.regression}"
    before = labels_of(read(acting, path))
    with database_of(acting).writing() as session:
        session.execute(delete(AnalysisRow).where(AnalysisRow.series_id == long.SERIES))
    assert labels_of(read(acting, path)) == before
    assert len(before) == 1
    assert f'href="/findings/{ids.regression}"' in read(acting, f"/series/{long.SERIES}")
    with database_of(acting).writing() as session:
        session.execute(
            update(FindingSeries)
            .where(FindingSeries.finding_id == ids.regression)
            .values(ended="recovered", ended_at=long.placed_at(36))
        )
    text = read(acting, path)
    down, up = labels_of(text)
    assert down == before[0]
    assert up.startswith("▲")
    assert "back at its level" in text


def test_a_finding_leads_to_the_comparisons_that_confirmed_it(
    acting: TestClient, ids: Analysed
) -> None:
    with database_of(acting).writing() as session:
        running = ConfirmationRow.state == ConfirmationState.RUNNING
        known = session.scalars(select(ConfirmationRow).where(running)).one()
        known.series_id, known.first_bad = long.SERIES, long.revision_of(30)
        known.state = ConfirmationState.CONFIRMED
        known.says = Statement.of("refused", reason="They differ.").stored()
        comparison = known.comparisons[0]
    text = read(acting, f"/findings/{ids.regression}")
    again = text[text.index('id="again"') :]
    assert f'href="/comparisons/{comparison}"' in again
    assert "They differ." in again
    assert 'id="again"' not in read(acting, f"/findings/{ids.node}")


def test_a_finding_that_moved_leads_to_what_did_not_confirm_it_where_it_was(
    acting: TestClient, ids: Analysed
) -> None:
    with database_of(acting).writing() as session:
        running = ConfirmationRow.state == ConfirmationState.RUNNING
        known = session.scalars(select(ConfirmationRow).where(running)).one()
        known.series_id, known.first_bad = long.SERIES, long.revision_of(33)
        known.first_bad_result = long.result_of(33)
        known.state = ConfirmationState.NOT_REPRODUCED
        known.says = Statement.of("refused", reason="They do not differ.").stored()
        row = session.get_one(FindingRow, ids.regression)
        row.measured = row.measured | {"not_reproduced": [long.result_of(33)]}
    assert "They do not differ." in read(acting, f"/findings/{ids.regression}")


def test_a_bad_node_shows_its_results_in_place_of_series(pages: TestClient, ids: Analysed) -> None:
    text = read(pages, f"/findings/{ids.node}")
    assert "data-chart" not in text
    assert "Worker x" in text
    assert "8.0 % slower" in text
    assert text.count('<a href="/runs/') == 20


def test_a_series_shows_its_changes_and_what_it_can_see(pages: TestClient, ids: Analysed) -> None:
    text = read(pages, f"/series/{long.SERIES}")
    assert re.search(r"Changes from <b>\d\.\d+ %</b> on are found within ten points", text)
    assert f'href="/findings/{ids.regression}">regression<' in text
    assert "analysed over 41 points" in text
    assert "Hollow points are not analysed" in text
    table = text[text.index('id="points"') :]
    assert table.count(">excluded<") == 1
    assert "fan broken" in table
    assert f"/findings/{ids.node}" not in text


def test_a_young_series_says_that_it_was_not_analysed(acting: TestClient) -> None:
    with database_of(acting).writing() as session:
        session.execute(delete(AnalysisRow).where(AnalysisRow.series_id == long.OTHER))
    assert "has not been analysed yet" in read(acting, f"/series/{long.OTHER}")


def test_a_run_can_be_excluded_or_put_back(pages: TestClient) -> None:
    out = read(pages, f"/runs/{builder.EXCLUDED}")
    assert f'data-send="DELETE /api/v1/results/{builder.EXCLUDED}/exclusion"' in out
    assert "It is shown, and analysed and compared no more." in out
    assert "fan broken" in out
    kept = read(pages, f"/runs/{long.result_of(40)}")
    assert f'data-send="PUT /api/v1/results/{long.result_of(40)}/exclusion"' in kept


def test_the_table_of_cases_marks_series_that_a_finding_is_about(
    pages: TestClient, ids: Analysed
) -> None:
    text = read(pages, "/cases")
    assert text.count('class="found"') == 1
    assert f'class="found" href="/findings/{ids.regression}"' in text


def test_a_series_and_its_runs_link_to_the_finding_about_them(
    pages: TestClient, ids: Analysed
) -> None:
    link = f'class="found" href="/findings/{ids.regression}"'
    finding = pages.get(f"/api/v1/findings/{ids.regression}").json()
    moved = finding["series"][0]
    assert link in read(pages, f"/series/{moved['series']['id']}")
    assert link in read(pages, f"/runs/{moved['first_bad_result']}")
    assert link not in read(pages, f"/runs/{long.result_of(2)}")  # before it


def test_a_run_leads_to_the_finding_that_began_with_it_for_ever(
    acting: TestClient, ids: Analysed
) -> None:
    moved = acting.get(f"/api/v1/findings/{ids.regression}").json()["series"][0]
    with database_of(acting).writing() as session:
        findings.act(session, ids.regression, "resolve", "ada", long.START)
    link = f'Here began: <a href="/findings/{ids.regression}">'
    assert link in read(acting, f"/runs/{moved['first_bad_result']}")
    assert link not in read(acting, f"/runs/{long.result_of(2)}")


def test_a_finding_draws_each_of_its_cases_and_lists_the_revisions_of_its_range(
    pages: TestClient, ids: Analysed
) -> None:
    text = read(pages, f"/findings/{ids.regression}")
    by_cell = text[text.index('id="by-cell"') :]
    by_cell = by_cell[: by_cell.index("</section>")]
    assert by_cell.count('class="reach"') == 1
    assert "1 case, \u22124.9 %" in by_cell
    came_in = text[text.index('id="range"') :]
    assert came_in[: came_in.index("</section>")].count("<li>") == 1
    assert 'id="by-cell"' not in read(pages, f"/findings/{ids.node}")


def test_closed_findings_are_paged_and_marks_go_away(
    acting: TestClient, ids: Analysed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding_data, "PER_PAGE", 1)
    with database_of(acting).writing() as session:
        for each in (ids.regression, ids.node):
            findings.act(session, each, "resolve", "ada", datetime.now(UTC))
    first = read(acting, "/findings")
    assert "Nothing does: every finding is closed." in first
    assert f'id="finding-{ids.node}"' in first
    assert f'id="finding-{ids.regression}"' not in first
    older = re.search(r'href="(/findings\?cursor=[^"]+)">Older', first)
    assert older
    second = read(acting, older[1])
    assert f'id="finding-{ids.regression}"' in second
    assert "overdue" not in second
    assert "Asks for attention" not in second
    assert 'class="found"' not in read(acting, "/cases")
    assert 'id="changed"' not in read(acting, "/")
    assert 'class="count"' not in second


def test_what_may_be_done_depends_on_the_state() -> None:
    named = {state: list(finding_labels.offers(state)) for state in FindingState}
    assert named[FindingState.OPEN] == list(ACTIONS)[:-1]
    assert named[FindingState.ACKNOWLEDGED] == [*named[FindingState.OPEN][1:], "reopen"]
    assert all(named[state] == ["reopen"] for state in FindingState if state not in findings.ACTIVE)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
def test_a_form_of_another_site_cannot_act(
    acting: TestClient, ids: Analysed, kind: str | None
) -> None:
    body = b'{"actor": "mallory", "action": "withdraw"}'
    headers = {"Content-Type": kind} if kind else {}
    path = f"/api/v1/findings/{ids.regression}"
    assert acting.post(f"{path}/actions", content=body, headers=headers).status_code == 415
    assert acting.get(path).json()["summary"]["state"] == "open"


def test_a_finding_that_does_not_exist_is_a_page_that_says_so(pages: TestClient) -> None:
    answer = pages.get("/findings/none")
    assert answer.status_code == 404
    assert "There is no such finding" in answer.text
    assert pages.get("/findings?cursor=nonsense").status_code == 422


@pytest.mark.parametrize(("kind", "offered"), [("read", False), ("submit", False), ("admin", True)])
def test_only_who_may_act_is_offered_to(
    filled: tuple[Path, Analysed], tmp_path: Path, kind: str, offered: bool
) -> None:
    path, told = filled
    shutil.copyfile(path, tmp_path / "guarded.sqlite3")
    with guarded(f"sqlite:///{tmp_path / 'guarded.sqlite3'}", tmp_path / "state") as doorman:
        page = doorman.ask("GET", f"/findings/{told.regression}", doorman.token(kind)).text
    assert faults(page) == []
    assert ("data-send=" in page) is offered
    assert "Who looks after it" in page
    assert ("You are signed in to read" in page) is not offered


def test_where_reading_is_open_a_finding_leads_to_the_sign_in(
    filled: tuple[Path, Analysed], tmp_path: Path
) -> None:
    path, told = filled
    shutil.copyfile(path, tmp_path / "open.sqlite3")
    where = f"sqlite:///{tmp_path / 'open.sqlite3'}"
    with guarded(where, tmp_path / "state", access=Access.AUTO) as doorman:
        page = doorman.ask("GET", f"/findings/{told.regression}").text
    assert faults(page) == []
    assert "data-send=" not in page
    assert f'<a href="/sign-in?to=/findings/{told.regression}">Sign in</a> to act' in page


def give_kernels(database: Database, number: int, **seconds: float) -> None:
    """Have a result of the regression's history hold a profile with these kernels."""
    with database.writing() as session:
        run(session, "DROP TRIGGER IF EXISTS guard_results_update")
        row = session.get_one(ResultRow, long.result_of(number))
        profile = a_profile(0.09).model_copy(
            update={"kernel_times": kernels(**seconds), "idle_s": {"host_wait": 0.01}}
        )
        result = stored_of(row).result.model_copy(update={"replicates": (profiled(profile),)})
        row.document = zlib.compress(result.model_dump_json().encode())


def test_a_finding_shows_what_became_of_the_kernels_nearest_to_its_change(
    acting: TestClient, ids: Analysed
) -> None:
    database, address = database_of(acting), f"/findings/{ids.regression}"
    assert "Kernels before and after" not in read(acting, address)
    give_kernels(database, builder.STEADY - 2, gemm=0.05, softmax=0.02)
    assert "Kernels before and after" not in read(acting, address), "no side after the change"
    give_kernels(database, builder.STEADY + 1, gemm=0.06, sort=0.03)
    give_kernels(database, builder.STEADY + 2, gemm=0.99)
    text = read(acting, address)
    card = text.partition('aria-labelledby="kernels"')[2].partition("</section>")[0]
    rows = re.findall(r"<code>(\w+)</code>.*?It is\">(\w+)<", card, re.DOTALL)
    assert rows == [("sort", "new"), ("softmax", "gone"), ("gemm", "slower")]
    assert "+30 ms" in card
    assert "Idle: launched too late" in card
    sides = (builder.STEADY - 2, builder.STEADY + 1)
    (link,) = (one for one in links(text) if one.startswith("/compare/kernels"))
    assert [long.result_of(number) in link for number in sides] == [True, True]
    assert faults(text) == []
    assert "sort" in read(acting, link)


def range_of(text: str) -> str:
    return text.partition('id="range"')[2].partition("</section>")[0]


def test_its_revisions_are_those_of_its_projects_history(acting: TestClient, ids: Analysed) -> None:
    with database_of(acting).writing() as session:
        long.add_proposals(session, 29, 1)
        at = long.placed_at(29) + timedelta(hours=2)
        session.add(Revision(name="theirs", ordered_at=at, dated=True, first_seen_at=at))
        session.flush()
        foreign = Submission(id="t", suite=None, revision="theirs", source="api", created_at=at)
        foreign.project = "theirs"
        session.add(foreign)
    listed = range_of(read(acting, f"/findings/{ids.regression}"))
    assert re.findall(r"<li>.*?(r000\d\d|proposal|theirs)", listed) == [long.revision_of(30)]


def test_a_long_range_keeps_its_newest_revisions_and_tells_the_rest(
    acting: TestClient, ids: Analysed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding_data, "MOST_REVISIONS", 2)
    with database_of(acting).writing() as session:
        session.get_one(FindingRow, ids.regression).last_good = long.revision_of(20)
    listed = range_of(read(acting, f"/findings/{ids.regression}"))
    assert re.findall(r"<li>.*?(r000\d\d)", listed) == ["r00030", "r00029"]
    assert "8 earlier revisions of the range are left out" in listed


def other_cases(pages: TestClient, finding_id: str) -> int:
    """How many dots the row of other cases has; nought if there is no such row."""
    with database_of(pages).reading() as session:
        drawn = finding_data.cells_of(session, findings.load_finding(session, finding_id))
    assert drawn
    return drawn.others.count if drawn.others else 0


def copied(row: Any, **changes: Any) -> Any:
    """Another row like this one."""
    values = {column.key: getattr(row, column.key) for column in type(row).__table__.columns}
    return type(row)(**values | changes)


def test_other_cases_are_of_the_project_and_of_no_finding_there(
    acting: TestClient, ids: Analysed
) -> None:
    assert other_cases(acting, ids.regression) == 1
    with database_of(acting).writing() as session:
        session.get_one(SeriesRow, long.OTHER).project = "theirs"
    assert other_cases(acting, ids.regression) == 0
    with database_of(acting).writing() as session:
        session.get_one(SeriesRow, long.OTHER).project = ""
        link = session.scalars(
            select(FindingSeries).where(FindingSeries.finding_id == ids.regression)
        ).one()
        change = session.get_one(ChangeRow, link.change_id)
        session.add(copied(change, id="8" * 32, series_id=long.OTHER))
        session.flush()
        of_it = {"finding_id": ids.node, "series_id": long.OTHER, "change_id": "8" * 32}
        session.add(copied(link, **of_it))
    assert other_cases(acting, ids.regression) == 0


def test_no_more_other_cases_are_drawn_than_a_page_takes(
    acting: TestClient, ids: Analysed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_of(acting).writing() as session:
        series = session.get_one(SeriesRow, long.OTHER)
        session.add(copied(series, id="8" * 32, case_key="another"))
        session.flush()
        for point in session.scalars(select(Point).where(Point.series_id == long.OTHER)).all():
            session.add(copied(point, series_id="8" * 32))
    assert other_cases(acting, ids.regression) == 2
    monkeypatch.setattr(finding_data, "MOST_OTHERS", 1)
    assert other_cases(acting, ids.regression) == 1


def test_profiles_far_from_a_change_say_nothing_about_it(acting: TestClient, ids: Analysed) -> None:
    give_kernels(database_of(acting), builder.STEADY - 4, gemm=0.05)
    give_kernels(database_of(acting), builder.STEADY + 1, gemm=0.06)
    assert "Kernels before and after" not in read(acting, f"/findings/{ids.regression}")


def test_what_a_slow_worker_measured_is_set_apart_from_the_change(
    client: TestClient, database: Database
) -> None:
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(long.STEADY + long.DROPPED)))
        (finding_id,) = long.look(session)
        row = session.get_one(FindingRow, finding_id)
        fields = {one.name: getattr(row, one.key) for one in FindingRow.__mapper__.columns}
        slow = {"id": "f" * 32, "kind": "bad_node", "worker": "w"}
        slow["first_bad_at"] = long.placed_at(len(long.STEADY + long.DROPPED) - 1)
        session.add(FindingRow(**fields | slow))
    text = client.get(f"/findings/{finding_id}").text
    assert text.count(finding_data.SLOW_WORKER) == 1, "the newest point alone"


def test_a_finding_shows_some_of_many_series_in_numbers_and_all_on_demand(
    pages: TestClient, ids: Analysed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding_pages, "SERIES_SHOWN", 0)
    cell, address = 'data-label="May be false"', f"/findings/{ids.regression}"
    text = read(pages, address)
    assert cell not in text
    (more,) = (one for one in links(text) if "series=all" in one)
    assert more == f"{address}?series=all"
    assert cell in read(pages, more)


def test_the_documents_beside_a_change_are_read_in_one_statement(
    pages: TestClient, ids: Analysed
) -> None:
    seen: list[str] = []

    def note(*arguments: object) -> None:
        seen.append(str(arguments[2]))

    engine = database_of(pages)._reader
    event.listen(engine, "before_cursor_execute", note)
    read(pages, f"/findings/{ids.regression}")
    event.remove(engine, "before_cursor_execute", note)
    assert len([one for one in seen if "results.document" in one]) == 1
