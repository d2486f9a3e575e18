"""Every page answers with what it promises, escapes what it shows, and asks no other host."""

from __future__ import annotations

import csv
import html
import json
import re
from collections import Counter
from datetime import timedelta
from importlib.resources import files
from typing import Any, cast

import pytest
from builders import history
from builders import long_series as long
from builders.html_page import faults, links
from builders.seeded import Seeded
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from plotly import graph_objects
from sqlalchemy import select

from benchmarks.catalog import catalog, suites
from benchmarks.contracts import Case
from service.dashboard import assets, queries
from service.database.session import Database, now_of
from service.models import Job, Point, SeriesRow, WorkerRow
from service.wording import formats


@pytest.fixture(scope="session")
def series_id(seeded: Seeded) -> str:
    database = Database(f"sqlite:///{seeded.path}")
    key = history.PLANS[9].case.key
    with database.reading() as session:
        found = session.query(SeriesRow).filter_by(case_key=key, metric="throughput").one().id
    database.close()
    return found


SLOWER = history.PLANS[9].case.key
"""Its newest run does one block's work twice."""


@pytest.fixture(scope="session")
def addresses(seeded: Seeded, series_id: str) -> dict[str, str]:
    ids = seeded.ids
    newest, before = history.revision_name(39), history.revision_name(38)
    return {
        "overview": "/",
        "cases": "/cases",
        "cases by a time": "/cases?metric=step_time&sort=change",
        "matrix": "/matrix?workload=resnet50",
        "series": f"/series/{series_id}",
        "series by date": f"/series/{series_id}?x=time&last=all&zero=true",
        "run": f"/runs/{ids['latest:' + history.PLANS[5].case.key]}",
        "run without input": f"/runs/{ids['latest:' + history.PLANS[5].case.key]}?during=synth",
        "run on a CPU": f"/runs/{ids['latest:' + history.PLANS[-1].case.key]}",
        "run that failed": f"/runs/{ids['oom']}",
        "unsupported run": f"/runs/{ids['unsupported']}",
        "noisy run": f"/runs/{ids['noisy']}",
        "hostile run": f"/runs/{ids['hostile']}",
        "late run": f"/runs/{ids['late']}",
        "jobs": "/jobs",
        "failed jobs": "/jobs?state=failed",
        "job": f"/jobs/{ids['running']}",
        "comparison": f"/compare?baseline={before}&contender={newest}",
        "suite comparison": f"/compare?baseline={before}&contender={newest}&suite=smoke",
        "no comparison": "/compare",
        "modules": f"/compare/modules?baseline={ids['before:' + SLOWER]}"
        f"&contender={ids['latest:' + SLOWER]}",
        "kernels": f"/compare/kernels?baseline={ids['before:' + SLOWER]}"
        f"&contender={ids['latest:' + SLOWER]}",
        "workers": "/workers",
        "schedules": "/schedules",
        "targets": "/targets",
        "tokens": "/tokens",
        "nowhere": "/nowhere",
    }


NAMES = (
    "overview",
    "cases",
    "matrix",
    "cases by a time",
    "series",
    "series by date",
    "run",
    "run without input",
    "run on a CPU",
    "run that failed",
    "unsupported run",
    "noisy run",
    "hostile run",
    "late run",
    "jobs",
    "failed jobs",
    "job",
    "comparison",
    "suite comparison",
    "no comparison",
    "modules",
    "kernels",
    "workers",
    "schedules",
    "targets",
    "tokens",
    "nowhere",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_well_made_and_asks_no_other_host(
    pages: TestClient, addresses: dict[str, str], name: str
) -> None:
    answer = pages.get(addresses[name])
    assert answer.status_code == (404 if name == "nowhere" else 200), answer.text[:500]
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert faults(answer.text) == []


@pytest.mark.parametrize("name", [name for name in NAMES if "run" in name.split()])
def test_one_tab_of_a_run_is_open_at_first(
    pages: TestClient, addresses: dict[str, str], name: str
) -> None:
    text = pages.get(addresses[name]).text
    assert text.count('<details name="more" open>') == 1


FIGURE = re.compile(r'<script type="application/json">(.+?)</script>', re.DOTALL)


def test_plotly_knows_every_property_of_every_chart(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    """plotly.js leaves out what it does not know, without a word; its package for Python refuses.

    Raises:
        ValueError: a chart has such a property, or a value that it cannot have.
    """
    drawn: Counter[str] = Counter()
    for address in addresses.values():
        for text in FIGURE.findall(pages.get(address).text):
            figure = json.loads(text)
            graph_objects.Figure(data=figure["data"], layout=figure["layout"])
            drawn.update(trace.get("type", "scatter") for trace in figure["data"])
    assert drawn["scatter"] > 20
    assert drawn["bar"] > 5


@pytest.fixture(scope="module")
def followed() -> set[str]:
    """Links of the pages that lead somewhere."""
    return set()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "nowhere"])
def test_every_link_of_a_page_leads_somewhere(
    pages: TestClient, addresses: dict[str, str], followed: set[str], name: str
) -> None:
    for link in links(pages.get(addresses[name]).text)[:60]:
        if link not in followed:  # most pages have some in common
            assert pages.get(link).status_code == 200, link
        followed.add(link)


def test_the_table_of_cases_tells_value_change_and_cause(pages: TestClient) -> None:
    text = pages.get("/cases").text.replace("\u00a0", " ")
    assert "NVIDIA H200" in text
    assert "Intel Xeon Platinum 8481C · 2 cores" in text
    assert 'class="tone tone-worse"' in text
    assert "▼" in text
    assert 'class="tone tone-better"' in text
    assert re.search(r">8\.\d\d\u00d7<", text)  # speed-up of the fastest nanogpt
    assert "Input" in text
    assert text.count('class="spark"') == len(history.PLANS)


def test_what_the_intervals_do_not_allow_is_called_unclear(pages: TestClient) -> None:
    text = pages.get("/cases?workload=resnet50").text
    hollow = re.findall(r"[△▽]</span>[^<]*</span><span[^>]*> (\w+)<", text)
    assert set(hollow) == {"unclear"}
    assert len(hollow) == text.count("△") + text.count("▽")


def test_the_overview_counts_what_failed_of_late(pages: TestClient) -> None:
    text = pages.get("/").text
    failed = re.search(r'href="([^"]*)"><b>(\d+)</b> failed</a> in the last 24 h', text)
    assert failed
    listed = pages.get(html.unescape(failed[1])).text.count('<tr id="job-')
    assert int(failed[2]) == listed > 0


def test_all_that_runs_is_counted_and_a_part_listed(empty_pages: TestClient) -> None:
    for number in range(23):
        hand = Hand(empty_pages, name=f"w{number}")
        hand.introduce()
        body = {"case": {"workload": "unet"}, "revision": f"r{number}"}
        assert empty_pages.post("/api/v1/submissions", json=body).status_code == 201
        hand.start(hand.must_claim())
    text = empty_pages.get("/").text
    assert "<b>23</b> running" in text
    assert text.count("<progress") == 5
    assert '<a href="/jobs?state=running">and 18 more</a>' in text


def test_a_worker_that_is_gone_is_not_called_idle(empty_pages: TestClient) -> None:
    for name in ("here", "gone"):
        Hand(empty_pages, name=name).introduce()
    assert "<b>2</b> workers" in empty_pages.get("/").text
    database = cast("Any", empty_pages.app).state.database
    with database.writing() as session:
        row = session.get_one(WorkerRow, "gone")
        row.last_seen_at = now_of(session) - timedelta(minutes=4)
    assert "<b>1</b> of 2 workers" in empty_pages.get("/").text
    text = empty_pages.get("/workers").text
    doing = re.findall(r'id="worker-(\w+)".*?data-label="Doing"><[^>]*>([^<]*)<', text, re.DOTALL)
    assert doing == [("here", "idle"), ("gone", "not seen")]


def test_the_table_of_cases_is_filtered_by_its_address(pages: TestClient) -> None:
    only = pages.get("/cases", params={"workload": "unet", "hardware": "NVIDIA H200"}).text
    assert only.count('class="spark"') == 2
    searched = pages.get("/cases", params={"text": "tf32 nanogpt"}).text
    assert searched.count('class="spark"') == 1
    assert "Nothing matches" in pages.get("/cases", params={"text": "no such thing"}).text


def test_htmx_gets_only_the_part_that_changes(pages: TestClient) -> None:
    for path in ("/", "/cases", "/jobs", "/workers"):
        part = pages.get(path, headers={"HX-Request": "true"})
        assert part.text.lstrip().startswith('<div id="live"')
        assert "<html" not in part.text
        assert "HX-Request" in part.headers["vary"]


def test_a_newcomer_is_told_what_to_type(empty_pages: TestClient) -> None:
    text = empty_pages.get("/").text
    assert "throughline submit smoke --wait" in text
    assert "make up" in text
    assert "throughline worker" in empty_pages.get("/workers").text
    assert "throughline submit" in empty_pages.get("/jobs").text
    assert empty_pages.get("/compare").status_code == 200
    assert empty_pages.get("/schedules").status_code == 200


def test_a_history_lists_its_points_and_what_changed_around_it(
    pages: TestClient, series_id: str
) -> None:
    text = pages.get(f"/series/{series_id}").text
    assert "570.172.08" in text
    assert "580.159.04" in text
    assert history.revision_name(39)[:10] in text
    assert f'<a href="/api/v1/series/{series_id}">JSON</a>' in text
    assert 'aria-current="page">Throughput<' in text
    assert "Peak memory" in text


def test_a_page_beyond_the_end_of_a_history_is_the_last(pages: TestClient, series_id: str) -> None:
    last = pages.get(f"/series/{series_id}").text
    assert pages.get(f"/series/{series_id}?page=7").text == last
    assert history.revision_name(39)[:10] in last[last.index('id="points"') :]


def test_only_what_gets_faster_has_a_speed_up(pages: TestClient) -> None:
    assert ">Speed-up</th>" in pages.get("/cases").text
    text = pages.get("/cases?metric=peak_memory").text
    assert ">Times better</th>" in text
    assert "Speed-up" not in text


def test_links_of_a_history_keep_what_was_chosen(pages: TestClient, series_id: str) -> None:
    start, end = history.revision_name(30), history.revision_name(35)
    text = pages.get(f"/series/{series_id}?x=time&last=50&start={start}&end={end}").text
    siblings = re.findall(r'href="(/series/[0-9a-f]+\?[^"]*)" data-keep', text)
    assert siblings
    assert all(f"start={start}&amp;end={end}" in link and "x=time" in link for link in siblings)


def test_a_history_downloads_as_csv(pages: TestClient, series_id: str) -> None:
    answer = pages.get(f"/series/{series_id}/points.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(answer.text.splitlines()))
    assert len(rows) == 12
    assert float(rows[-1]["value"]) == pytest.approx(519_634 * 1.012 * 0.937 * 0.996, rel=0.02)


def test_a_run_shows_numbers_verdict_phases_telemetry_and_how_to_repeat_it(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["run"]).text.replace("\u00a0", " ")
    for said in (
        "Throughput without input",
        "Input stall",
        "9.40 GiB",
        "What limits it: input",
        "waiting for input",
        "Device telemetry",
        "software power cap",
        "python -m benchmarks resnet50",
        "580.159.04",
        "clock_unstable",
        "Raw JSON",
        "Tensor.item() call",
        "matrix product",
        "against its median",
        "measured again",
    ):
        assert said in text
    assert text.count("data-chart") == 5


def test_a_run_says_what_differs_from_the_run_before_on_its_worker(
    pages: TestClient, seeded: Seeded
) -> None:
    key = history.PLANS[9].case.key
    newest, before = (seeded.ids[f"{name}:{key}"] for name in ("latest", "before"))
    text = pages.get(f"/runs/{newest}").text
    assert f'from <a href="/runs/{before}">the run before</a> on this worker' in text


def test_the_run_before_is_the_one_measured_before(client: TestClient) -> None:
    """Also where somebody measures an older revision today; what does not count is passed over."""
    database = client.app.state.database  # type: ignore[attr-defined]
    day = 24 * 60
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {5: 100.0, 30: 100.0})
        long.add(session, {6: 100.0}, place=1, minutes=25 * day, disturbed="throttled")
        long.add(session, {4: 100.0}, place=1, minutes=28 * day)
        backfilled = session.scalars(
            select(Point).where(Point.revision == long.revision_of(4))
        ).one()
        before = queries.point_before(session, backfilled)
        assert before
        assert before.revision == long.revision_of(30)
        earlier = queries.point_before(session, before)
        assert earlier
        assert earlier.revision == long.revision_of(5)


def test_a_run_suggests_what_a_neighbour_of_its_revision_measured(
    pages: TestClient, seeded: Seeded
) -> None:
    eager = history.PLANS[0].case
    text = pages.get(f"/runs/{seeded.ids['latest:' + eager.key]}").text
    assert f"precision=bf16 measured +128% on {eager.key}." in text.replace("&#43;", "+")


def test_a_run_says_which_lines_cost_most(pages: TestClient, addresses: dict[str, str]) -> None:
    text = pages.get(addresses["run"]).text
    for said in (
        "Most expensive operations",
        "benchmarks/workloads/example.py:65",
        "The host waits for the device",
        "benchmarks/workloads/example.py:12",
        "once every 10 steps",
        "Needless copy",
        "example.py:40",
    ):
        assert said in text
    assert "Most expensive operations" not in pages.get(addresses["run on a CPU"]).text


def test_a_run_says_which_batches_were_tried(pages: TestClient, addresses: dict[str, str]) -> None:
    text = pages.get(addresses["run"]).text
    card = text.partition('aria-labelledby="batches"')[2].partition("</section>")[0]
    assert card.count("<tr>") == 4  # its head, half the batch, the batch and twice the batch
    assert re.findall(r'row">(\d+) <span class="chip mark">measured', card) == ["256"]
    assert "Batches that were tried" not in pages.get(addresses["run on a CPU"]).text


def test_a_run_names_the_block_that_is_slower_than_its_like(
    pages: TestClient, seeded: Seeded, addresses: dict[str, str]
) -> None:
    said = "blocks.7 takes 2.0 times as long as its 11 siblings, for 2.0 times their FLOPs."
    assert said in pages.get(f"/runs/{seeded.ids['latest:' + SLOWER]}").text
    before = pages.get(f"/runs/{seeded.ids['before:' + SLOWER]}").text
    assert "Time by module" in before
    assert "siblings" not in before
    assert "Time by module" not in pages.get(addresses["run"]).text


def test_modules_of_two_runs_stand_side_by_side_the_largest_difference_first(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["modules"]).text
    names = re.findall(r'<th scope="row"><code>([^<]+)</code>', text)
    assert names[:3] == ["blocks.7.mlp", "blocks.7.attn", "blocks.7.norm"]
    assert len(names) == 38  # three parts of twelve blocks, embedding and head
    assert "24 → 48" in text


def test_runs_without_modules_say_how_to_get_them(pages: TestClient, seeded: Seeded) -> None:
    plain, known = (seeded.ids[f"latest:{key}"] for key in (history.PLANS[5].case.key, SLOWER))
    text = pages.get(f"/compare/modules?baseline={plain}&contender={known}").text
    assert "The baseline was measured without a profile of its modules." in text
    assert "The contender was" not in text
    assert "data-chart" not in text
    missing = f"/compare/modules?baseline={'0' * 32}&contender={known}"
    assert pages.get(missing).status_code == 404
    assert "Choose two runs" in pages.get(f"/compare/modules?baseline={known}").text


def test_kernels_of_two_runs_stand_side_by_side_the_largest_difference_first(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["kernels"]).text.replace("\u00a0", " ")
    card = text.partition('aria-labelledby="kernels"')[2].partition("</section>")[0]
    rows = re.findall(r"<code>([^<]+)</code>.*?It is\">(\w+)<", card, re.DOTALL)
    assert sorted(rows[:3]) == [("fused_add", "gone"), ("gemm", "slower"), ("unfused_add", "new")]
    assert rows[0] == ("unfused_add", "new")  # a fifth of the step
    assert rows[3] == ("attention", "slower")  # the whole step takes longer
    assert "Idle" not in card
    step = text.partition('aria-labelledby="step"')[2].partition("</section>")[0]
    assert "Step under the profiler" in step
    assert "Launches by the host" in step
    assert "Idle in FULL: waits for a batch" in step


def test_runs_without_kernels_say_how_to_get_them(pages: TestClient, seeded: Seeded) -> None:
    on_cpu, known = (seeded.ids[f"latest:{key}"] for key in (history.PLANS[-1].case.key, SLOWER))
    text = pages.get(f"/compare/kernels?baseline={on_cpu}&contender={known}").text
    assert "The baseline: It was measured without a profile." in text
    assert "The contender: " not in text
    missing = f"/compare/kernels?baseline={'0' * 32}&contender={known}"
    assert pages.get(missing).status_code == 404
    assert "Choose two runs" in pages.get(f"/compare/kernels?baseline={known}").text


def test_two_revisions_and_a_run_lead_to_their_kernels(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    assert "/compare/kernels?baseline=" in pages.get(addresses["comparison"]).text
    assert 'action="/compare/kernels"' in pages.get(addresses["run"]).text
    assert 'action="/compare/kernels"' not in pages.get(addresses["run on a CPU"]).text


def test_a_run_says_what_held_the_memory_of_its_step(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["run"]).text.replace("\u00a0", " ")
    card = text.partition('aria-labelledby="memory"')[2].partition("</section>")[0]
    for said in (
        "40 MiB of 1 GiB at the peak",
        '</svg>activations</dt><dd>30 MiB <span class="muted">75',
        '<dt>held and not used</dt><dd>24 MiB <span class="muted">37.5',
        "<dt>each pool of CUDA graphs</dt><dd>2, 1 MiB</dd>",
        "<code>model.py:7</code>",
    ):
        assert said in card
    assert "Device memory of a step" not in pages.get(addresses["run on a CPU"]).text


def test_a_run_on_a_cpu_says_that_there_is_no_telemetry(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    assert "No telemetry was taken" in pages.get(addresses["run on a CPU"]).text


def test_a_failed_run_gives_its_reason_and_its_log(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["run that failed"]).text
    assert "Out of memory" in text
    assert "try a smaller batch" in text
    assert "torch.OutOfMemoryError" in text
    assert "data-chart" not in text


def test_a_combination_that_was_refused_says_so_before_any_log(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["unsupported run"]).text
    assert text.index("This device has no float8 arithmetic.") < text.index("Traceback")
    assert re.search(r"<details><summary>3 lines", text)
    assert "<details open>" in pages.get(addresses["run that failed"]).text


def test_noise_is_not_told_as_a_negative_input_stall(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["noisy run"]).text.replace("\u00a0", " ")
    headlines, _, rest = text.partition("</dl>")
    assert "not measurable" in headlines
    assert "noise: ± 34.0 %" in headlines
    assert "\u221271" not in headlines
    assert "What limits it: unknown" in rest
    assert "\u221271.62 %" in rest[rest.index("All metrics") :]


def test_a_late_result_is_shown_as_not_counted(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    assert "Not counted" in pages.get(addresses["late run"]).text


@pytest.mark.parametrize("name", ["hostile run", "jobs", "failed jobs"])
def test_hostile_text_is_shown_and_never_obeyed(
    pages: TestClient, addresses: dict[str, str], name: str
) -> None:
    text = pages.get(addresses[name]).text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert" in text


def test_hostile_addresses_are_not_echoed_as_markup(pages: TestClient) -> None:
    hostile = '"><script>alert(1)</script>'
    for path in ("/", "/jobs", "/compare"):
        names = ("text", "workload", "metric", "baseline", "contender", "before")
        text = pages.get(path, params=dict.fromkeys(names, hostile)).text
        assert "<script>alert" not in text


def test_a_job_shows_its_attempts_and_progress_until_it_is_over(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["job"]).text.replace("\u00a0", " ")
    assert "No heartbeat came before the lease expired." in text
    assert 'value="0.54"' in text
    assert 'data-live="2"' in text
    failed = re.search(r'href="(/jobs/[0-9a-f]+)"', pages.get("/jobs?state=failed").text)
    assert failed
    over = pages.get(failed[1]).text
    assert "hx-trigger" not in over
    assert "Open its result" in over


def test_a_measured_job_names_the_preset_that_was_measured(
    pages: TestClient, seeded: Seeded
) -> None:
    database = Database(f"sqlite:///{seeded.path}")
    with database.reading() as session:
        asked = session.query(Job).filter(Job.case_key.contains(":auto")).one().id
    database.close()
    text = pages.get("/jobs").text
    assert f'<a href="/jobs/{asked}">nanogpt tiny</a>' in text
    assert "nanogpt auto" not in text
    assert '<span class="muted">tiny at</span>' in pages.get(f"/jobs/{asked}").text


def test_a_queued_job_says_how_many_are_before_it(pages: TestClient) -> None:
    waiting = re.findall(r'<tr id="job-([0-9a-f]+)"', pages.get("/jobs?state=queued").text)
    assert len(waiting) == 5
    said = [pages.get(f"/jobs/{job}").text for job in reversed(waiting)]
    assert "It is the next." in said[0]
    assert "1 job is before it." in said[1]
    assert "4 jobs are before it." in said[4]


def test_a_job_leaves_out_what_there_is_nothing_to_say_about(pages: TestClient) -> None:
    text = pages.get("/jobs?state=queued").text
    assert formats.DASH not in text
    assert 'data-label="More"' not in text
    assert 'data-label="Worker"></td>' in text


def test_jobs_are_paged_without_losing_or_repeating_any(pages: TestClient) -> None:
    seen: list[str] = []
    path: str | None = "/jobs"
    while path:
        text = pages.get(path).text
        seen += re.findall(r'<tr id="job-([0-9a-f]+)"', text)
        older = re.search(r'href="([^"]+)">Older', text)
        path = older[1].replace("&amp;", "&") if older else None
    assert len(seen) == len(set(seen)) == 12 * len(history.PLANS) + 11
    assert seen == sorted(seen, reverse=True)


def test_a_comparison_puts_what_got_slower_first(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = pages.get(addresses["comparison"]).text
    rows = text[text.index("<tbody>") :].split("<tr>")
    assert "slower" in rows[1]
    assert "nanogpt" in rows[1]


def test_a_suite_is_compared_by_its_cases_as_they_are_measured(
    pages: TestClient, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pages.get("/api/v1/series?metric=throughput&workload=unet").json()["items"]
    measured = next(
        each["case"]["axes"] for each in found if "precision" not in each["case"]["axes"]
    )
    said = Case(workload="unet", axes={"precision": "fp32"} | measured)
    assert said != catalog.normalise(said), "it names a default"
    monkeypatch.setattr(suites, "_ALL", (suites.Suite("odd", "", (said,), suites.QUICK),))
    text = pages.get(f"{addresses['comparison']}&suite=odd").text
    assert "unet" in text[text.index("<tbody>") :]
    assert "missing" not in text[text.index("<tbody>") :]


def test_a_revision_is_not_compared_with_itself(pages: TestClient) -> None:
    name = history.revision_name(39)
    text = pages.get(f"/compare?baseline={name}&contender={name}").text
    assert "choose two different revisions" in text
    assert "<table" not in text


def test_revisions_are_suggested_with_their_age(pages: TestClient) -> None:
    text = pages.get("/compare").text.replace("\u00a0", " ")
    newest, older = history.revision_name(39), history.revision_name(37)
    assert re.search(rf'value="{newest}">{newest[:10]}, 4 h ago, the newest<', text)
    assert re.search(rf'value="{older}">{older[:10]}, 2 d ago<', text)


def test_revisions_are_compared_by_the_short_names_that_pages_show(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    before, newest = (formats.revision(history.revision_name(number)) for number in (38, 39))
    assert newest != history.revision_name(39)
    text = pages.get("/compare", params={"baseline": before, "contender": newest}).text
    assert text == pages.get(addresses["comparison"]).text
    assert "slower" in text


@pytest.mark.parametrize(
    "path", ["/compare?baseline=nope&contender=gone", "/compare?baseline=&contender=gone"]
)
def test_a_comparison_with_an_unknown_revision_says_so(pages: TestClient, path: str) -> None:
    text = html.unescape(pages.get(path).text)
    assert "Nothing was ever submitted at a revision 'gone'" in text
    assert ("at a revision 'nope'" in text) is ("nope" in path)
    assert "throughline submit" not in text


def test_a_comparison_of_an_unknown_suite_says_so(
    pages: TestClient, addresses: dict[str, str]
) -> None:
    text = html.unescape(pages.get(addresses["comparison"] + "&suite=bogus").text)
    assert "There is no suite 'bogus'" in text
    assert "<table" not in text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/nowhere", 404, "Nothing is kept at this address"),
        ("/series/none", 404, "There is no such series"),
        ("/runs/none", 404, "There is no such result"),
        ("/jobs/none", 404, "There is no such job"),
        ("/jobs?state=dancing", 422, "state"),
        ("/series/none?page=0", 422, "page"),
    ],
)
def test_an_error_outside_the_api_is_a_page_with_one_sentence(
    pages: TestClient, path: str, status: int, said: str
) -> None:
    answer = pages.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert said in answer.text
    assert "Go to the overview" in answer.text


def test_an_error_inside_the_api_stays_a_problem_document(pages: TestClient) -> None:
    answer = pages.get("/api/v1/series/00000000000000000000000000000000")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_assets_are_compressed_and_kept_for_good(pages: TestClient) -> None:
    page = pages.get("/").text
    style = re.search(r'href="(/assets/[0-9a-f]{16}/app\.css)"', page)
    assert style
    answer = pages.get(style[1])
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    plain = pages.get(style[1], headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.content == answer.content


def test_an_asset_of_an_older_version_leads_to_the_present_one(pages: TestClient) -> None:
    answer = pages.get("/assets/0000000000000000/app.js", follow_redirects=False)
    assert answer.status_code == 307
    assert pages.get(answer.headers["location"]).status_code == 200
    assert pages.get("/assets/0000000000000000/secrets.txt").status_code == 404


def test_a_page_with_a_plot_weighs_less_than_half_a_megabyte(
    pages: TestClient, series_id: str
) -> None:
    path = f"/series/{series_id}"
    needed = [path, *re.findall(r'"(/assets/[0-9a-f]{16}/[a-z.]+)"', pages.get(path).text)]
    assert any(one.endswith("/plotly.min.js") for one in needed)
    sent = [int(pages.get(one).headers["content-length"]) for one in needed]
    assert sum(sent) < 500_000


def test_plotly_is_served_so_that_browsers_compile_it_while_it_arrives(pages: TestClient) -> None:
    file = files("service.dashboard") / "static" / "plotly-basic.min.js"
    served = pages.get(assets.url("plotly.min.js")).content
    assert b"this, (() => {" in served
    assert len(served) == len(file.read_bytes()) + 2


def test_reading_pages_changes_nothing(pages: TestClient, seeded: Seeded) -> None:
    before = seeded.path.read_bytes()
    for path in ("/", "/jobs", "/workers", "/schedules", "/compare"):
        pages.get(path)
    assert seeded.path.read_bytes() == before
