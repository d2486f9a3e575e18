"""The dashboard in a real browser: what people do with it, by mouse, by keyboard, on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from builders import history
from builders.polling import opened, see_charts, wait_until
from builders.seeded import Seeded
from playwright.sync_api import Page, Route, expect

from benchmarks.contracts import Worker
from service.database.session import Database, now_of
from service.jobs import workers

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
INPUT_BOUND = history.PLANS[5].case.key
SLOWER = history.PLANS[9].case.key
"""Its newest run does one block's work twice."""
DRAWN = ".plot .main-svg"
AXIS = "document.querySelector('.plot').layout.xaxis"
ASK_AGAIN = "document.querySelector('[data-live]').dispatchEvent(new Event('refresh'))"
"""Makes the page do what it does when its stream tells of a change."""
POLL_MS = 5_000
"""Time between two requests of a page without a stream. Tests set the page's clock forward."""


@pytest.fixture(scope="session")
def paths(seeded: Seeded) -> dict[str, str]:
    newest, before = history.revision_name(39), history.revision_name(38)
    return {
        "overview": "/",
        "cases": "/cases",
        "gates": "/comparisons",
        "run": f"/runs/{seeded.ids['latest:' + INPUT_BOUND]}",
        "failed run": f"/runs/{seeded.ids['oom']}",
        "unsupported run": f"/runs/{seeded.ids['unsupported']}",
        "noisy run": f"/runs/{seeded.ids['noisy']}",
        "hostile run": f"/runs/{seeded.ids['hostile']}",
        "findings": "/findings",
        "jobs": "/jobs",
        "explore": "/explore?workload=nanogpt",
        "matrix": "/matrix?workload=resnet50",
        "job": f"/jobs/{seeded.ids['running']}",
        "compare": f"/compare?baseline={before}&contender={newest}",
        "run by module": f"/runs/{seeded.ids['latest:' + SLOWER]}",
        "modules": f"/compare/modules?baseline={seeded.ids['before:' + SLOWER]}"
        f"&contender={seeded.ids['latest:' + SLOWER]}",
        "kernels": f"/compare/kernels?baseline={seeded.ids['before:' + SLOWER]}"
        f"&contender={seeded.ids['latest:' + SLOWER]}",
        "workers": "/workers",
        "schedules": "/schedules",
        "targets": "/targets",
        "tokens": "/tokens",
    }


def open_history(page: Page) -> None:
    """Go from the table of cases to the history of the nanogpt that got slower."""
    page.goto("/cases?workload=nanogpt&text=compile")
    page.get_by_role("rowheader").get_by_role("link").first.click()
    page.wait_for_url("**/series/*")
    expect(page.locator(DRAWN).first).to_be_visible()


def drag(page: Page, start: float, end: float) -> None:
    """Drag over the chart from one share of its width to another."""
    box = page.locator(".plot .nsewdrag").first.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, middle, steps=8)
    page.mouse.up()


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def background(page: Page) -> int:
    """How bright the page is, from 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return int(str(colour).split("(")[1].split(",")[0])


def test_the_overview_says_how_things_are_how_fast_and_what_runs(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("cases measured")
    speeds = page.get_by_role("region", name="How fast").get_by_role("row")
    devices = {(plan.case.workload, plan.case.preset, plan.gpu) for plan in history.PLANS}
    expect(speeds).to_have_count(1 + len(devices))
    expect(page.get_by_text("process 2 of 3")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < 1_200


def test_the_table_of_cases_shows_every_series_grouped(page: Page) -> None:
    page.goto("/cases")
    expect(page.locator("table.overview tbody tr")).to_have_count(len(history.PLANS))
    expect(page.get_by_role("heading", name="nanogpt full")).to_be_visible()
    expect(page.locator(".tone-worse")).to_contain_text("▼")


def test_the_filter_works_while_typing_and_stands_in_the_address(page: Page) -> None:
    page.goto("/cases")
    page.get_by_label("Search").fill("tf32")
    expect(page.locator("table.overview tbody tr")).to_have_count(2)
    wait_until(page, "location.search === '?text=tf32'")
    page.get_by_label("Metric").select_option("step_time")
    expect(page.locator("table.overview thead").first).to_contain_text("Step time")
    page.reload()
    expect(page.locator("table.overview tbody tr")).to_have_count(2)
    expect(page.get_by_label("Metric")).to_have_value("step_time")


def test_the_table_refreshes_itself_with_the_filter_in_force(page: Page) -> None:
    page.goto("/cases")
    page.get_by_label("Search").fill("tf32")
    expect(page.locator("table.overview tbody tr")).to_have_count(2)
    with page.expect_response(lambda answer: "text=tf32" in answer.url):
        page.evaluate(ASK_AGAIN)
    expect(page.locator("table.overview tbody tr")).to_have_count(2)
    assert page.locator("#live").count() == 1


def at_once(route: Route) -> None:
    """Let a stream tell without its pause."""
    route.continue_(url=route.request.url.split("?")[0] + "?pace_s=0")


def test_a_page_changes_when_something_was_committed_without_a_poll(
    page: Page, seeded: Seeded
) -> None:
    page.clock.install()  # no timer of the page goes off
    page.route("**/live?*", at_once)
    with page.expect_response("**/workers"):
        page.goto("/workers")
    expect(page.get_by_role("rowheader", name="after-hours")).to_have_count(0)
    with closing(Database(f"sqlite:///{seeded.path}")) as database, database.writing() as session:
        workers.introduce(session, Worker(name="after-hours"), now_of(session))
    expect(page.get_by_role("rowheader", name="after-hours")).to_be_visible()


def test_a_page_follows_no_more_once_nothing_runs_and_asks_when_it_is_seen_again(
    page: Page,
) -> None:
    asked: list[str] = []

    def nothing_runs(route: Route) -> None:
        answer = route.fetch()
        asked.append(route.request.url)
        route.fulfill(response=answer, body=answer.text().replace('data-live="5"', "data-live"))

    page.clock.install()
    page.goto("/cases")
    page.route("**/cases", nothing_runs)
    with page.expect_event("requestfailed", lambda one: "/live" in one.url):  # the page ends it
        page.evaluate(ASK_AGAIN)
    for _ in range(3):
        page.clock.fast_forward(POLL_MS)
    assert len(asked) == 1
    with page.expect_response("**/cases"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_a_page_whose_stream_is_refused_asks_every_few_seconds(new_page: NewPage) -> None:
    page = new_page(may_fail=True)
    page.clock.install()
    page.route("**/live?*", lambda route: route.fulfill(status=503))
    with page.expect_response("**/live?*"):
        page.goto("/cases")
    wait_for_refusal(page)
    for _ in range(2):
        with page.expect_response("**/cases"):
            page.clock.fast_forward(POLL_MS)


def wait_for_refusal(page: Page) -> None:
    """Wait until the browser has told the page: one refused later is told after an earlier one."""
    told = "new Promise((tell) => { new EventSource('/live?').onerror = () => tell(true); })"
    assert page.evaluate(told)


FILTER = "Filter rows of "


def test_a_long_table_is_filtered_by_words_and_stays_so_when_it_is_refreshed(page: Page) -> None:
    page.goto("/jobs")
    rows = page.locator("main tbody tr:visible")
    most = rows.count()
    assert most > 8
    field = page.get_by_role("searchbox", name=FILTER)
    field.fill("nanogpt compile")
    assert 0 < rows.count() < most
    expect(rows.filter(has_not_text="nanogpt")).to_have_count(0)
    few = rows.count()
    with page.expect_response("**/jobs"):
        page.evaluate(ASK_AGAIN)
    expect(field).to_be_focused()
    expect(field).to_have_value("nanogpt compile")
    expect(rows).to_have_count(few)
    field.fill("")
    expect(rows).to_have_count(most)


def test_a_long_table_is_sorted_by_a_column_and_stays_so_when_it_is_refreshed(page: Page) -> None:
    page.goto("/jobs")
    heads = page.get_by_role("columnheader")
    cases = page.locator("main tbody tr th")
    shown = cases.all_inner_texts()
    by_case = heads.filter(has_text="Case")
    by_case.get_by_role("button").click()
    expect(by_case).to_have_attribute("aria-sort", "ascending")
    ordered = cases.all_inner_texts()
    assert ordered != shown
    assert ordered[0].startswith("nanogpt")
    assert sorted(ordered) == sorted(shown)
    by_case.get_by_role("button").press("Enter")
    expect(by_case).to_have_attribute("aria-sort", "descending")
    assert cases.first.inner_text().startswith("unet")
    with page.expect_response("**/jobs"):
        page.evaluate(ASK_AGAIN)
    expect(by_case).to_have_attribute("aria-sort", "descending")
    expect(cases.first).to_contain_text("unet")


def test_numbers_are_sorted_by_what_they_are_in_one_unit(page: Page, paths: dict[str, str]) -> None:
    """Largest first, whatever their prefix; what says nothing comes last."""
    page.goto(paths["jobs"])
    largest_first = [
        *("1 h 2 min", "1,200 s", "2 min 59 s", "2 min 1 s", "4 s", "0.9 s", "1.5 ms", "860 µs"),
        *("\u22123 s", "\u2013"),
    ]
    rows = "".join(f"<tr><th>x</th><td>{cell}</td></tr>" for cell in sorted(largest_first))
    table = "<thead><tr><th>Case</th><th class=num>Took</th></tr></thead>"
    table = f"<table aria-label=t>{table}<tbody>{rows}</tbody></table>"
    page.locator("[data-live]").evaluate("(part, table) => { part.innerHTML = table; }", table)
    page.evaluate("document.dispatchEvent(new Event('htmx:after:swap'))")
    page.get_by_role("button", name="Took").click()
    assert page.locator("main tbody td").all_inner_texts() == largest_first
    sizes = ["1.01 GiB", "1,023 MiB", "512 KiB", "600 B", "130", "4 %", "3", "2", "1"]
    for cell, size in zip(page.locator("main tbody td").all(), [*sorted(sizes), "0"], strict=True):
        cell.evaluate("(cell, size) => { cell.textContent = size; }", size)
    page.get_by_role("button", name="Took").click(click_count=2)
    assert page.locator("main tbody td").all_inner_texts() == [*sizes[:3], *sizes[3:], "0"]


@pytest.mark.parametrize("name", ["run", "jobs", "matrix", "overview", "revision"])
def test_every_long_table_has_a_filter_with_a_name_of_its_own_and_no_short_one(
    page: Page, paths: dict[str, str], name: str
) -> None:
    page.goto(paths.get(name, f"/revisions/{history.revision_name(39)}"))
    tables = page.locator("main table:not(.overview, [data-group] *)").evaluate_all(
        """all => all.map((table) => {
          const place = table.closest(".scroll") ?? table;
          const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
          const field = place.previousElementSibling?.querySelector("input[type=search]");
          return [rows.filter((row) => !row.matches(".group")).length, field?.ariaLabel ?? null];
        })"""
    )
    assert tables
    for rows, field in tables:
        assert (field is not None) == (rows > 8), (rows, field)
    named = [field for _, field in tables if field]
    assert all(len(one) > len(FILTER) for one in named)
    assert len(set(named)) == len(named)


def test_focus_survives_a_refresh(page: Page) -> None:
    page.goto("/cases")
    link = page.get_by_role("rowheader").get_by_role("link").nth(3)
    link.focus()
    with page.expect_response(lambda answer: urlsplit(answer.url).path == "/cases"):
        page.evaluate(ASK_AGAIN)
    page.wait_for_timeout(200)
    expect(link).to_be_focused()


def test_a_lost_connection_is_said_and_the_numbers_stay(new_page: NewPage) -> None:
    page = new_page(may_fail=True)
    page.goto("/cases")
    rows = page.locator("table.overview tbody tr")
    expect(rows).to_have_count(len(history.PLANS))
    page.route("**/*", lambda route: route.abort())
    page.evaluate(ASK_AGAIN)
    expect(page.get_by_text("the service does not answer")).to_be_visible(timeout=15_000)
    expect(rows).to_have_count(len(history.PLANS))
    page.unroute("**/*")
    page.evaluate(ASK_AGAIN)
    expect(page.get_by_text("the service does not answer")).to_be_hidden(timeout=15_000)


@pytest.mark.parametrize(
    ("status", "said"),
    [(429, "too many requests at once"), (503, "the service has an error (503)")],
)
def test_an_answer_that_is_an_error_is_not_called_silence(
    new_page: NewPage, status: int, said: str
) -> None:
    page = new_page(may_fail=True)
    page.goto("/workers")
    page.route("**/workers", lambda route: route.fulfill(status=status, body="not now"))
    page.evaluate(ASK_AGAIN)
    expect(page.get_by_text(said)).to_be_visible(timeout=15_000)
    page.unroute("**/workers")
    page.evaluate(ASK_AGAIN)
    expect(page.get_by_text("Not updating")).to_be_hidden(timeout=15_000)


def test_the_history_is_drawn_and_hovering_tells_the_point(page: Page) -> None:
    open_history(page)
    expect(page.locator(".plot .point")).to_have_count(40)
    expect(page.locator(".plot .annotation")).to_have_count(2)
    spot = page.locator(".plot .point").nth(20).bounding_box()
    assert spot
    page.mouse.move(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    hover = page.locator(".plot .hoverlayer")
    expect(hover).to_contain_text(history.revision_name(20)[:10])
    expect(hover).to_contain_text("token/s")
    expect(hover).to_contain_text("3 processes")
    expect(hover).to_contain_text("h200-a")


def test_a_click_on_a_point_opens_its_run(page: Page) -> None:
    open_history(page)
    spot = page.locator(".plot .point").nth(39).bounding_box()
    assert spot
    page.mouse.click(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    page.wait_for_url("**/runs/*")
    expect(page.get_by_role("heading", level=1)).to_contain_text(history.revision_name(39)[:10])


def test_a_zoom_goes_to_the_address_and_comes_back(page: Page) -> None:
    open_history(page)
    drag(page, 0.25, 0.6)
    wait_until(page, "location.search.includes('start=')")
    zoomed = page.evaluate(f"{AXIS}.range")
    start, end = query(page)["start"][0], query(page)["end"][0]
    names = [history.revision_name(number) for number in range(40)]
    assert 0 < names.index(start) < names.index(end) < 39
    page.reload()
    expect(page.locator(DRAWN).first).to_be_visible()
    restored = page.evaluate(f"{AXIS}.range")
    assert restored == pytest.approx(zoomed, abs=1.0)
    step_time = page.get_by_role("link", name="Step time", exact=True)
    assert f"start={start}" in (step_time.get_attribute("href") or "")


def test_a_double_click_forgets_the_zoom(page: Page) -> None:
    open_history(page)
    drag(page, 0.25, 0.6)
    wait_until(page, "location.search.includes('start=')")
    box = page.locator(".plot .nsewdrag").first.bounding_box()
    assert box
    page.wait_for_timeout(400)  # or plotly takes the drag's end for the first of two clicks
    page.mouse.dblclick(box["x"] + box["width"] * 0.4, box["y"] + 20)
    wait_until(page, "!location.search.includes('start=')")


def test_the_axis_by_date_zooms_and_returns_as_well(page: Page) -> None:
    open_history(page)
    page.get_by_role("link", name="by date").click()
    page.wait_for_url("**x=time**")
    expect(page.locator(DRAWN).first).to_be_visible()
    drag(page, 0.3, 0.7)
    wait_until(page, "location.search.includes('start=')")
    zoomed = page.evaluate(f"{AXIS}.range.map(end => Date.parse(end))")
    page.reload()
    expect(page.locator(DRAWN).first).to_be_visible()
    restored = page.evaluate(f"{AXIS}.range.map(end => Date.parse(end))")
    assert restored == pytest.approx(zoomed, abs=60_000)


def test_the_other_metrics_of_a_case_are_one_click_away(page: Page) -> None:
    open_history(page)
    page.get_by_role("link", name="Peak memory").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Peak memory of nanogpt")
    expect(page.locator(DRAWN).first).to_be_visible()


def test_a_run_draws_its_steps_and_telemetry_and_filters_its_facts(
    page: Page, paths: dict[str, str]
) -> None:
    page.goto(paths["run"])
    expect(page.get_by_text("What limits it: input")).to_be_visible()
    expect(page.locator("[data-chart][data-drawn]")).to_have_count(1)  # no other is seen yet
    open_part(page, "Memory")
    expect(page.locator("[data-chart][data-drawn]")).to_have_count(2)
    open_part(page, "Steps and device")
    see_charts(page)
    expect(page.locator("[data-chart][data-drawn]")).to_have_count(5)
    open_part(page, "Environment")
    page.get_by_text(re.compile("^All .* facts$")).click()
    page.get_by_label("Filter facts").fill("driver")
    expect(page.locator("#facts tbody tr:visible")).to_have_count(1)
    expect(page.locator("#facts")).to_contain_text("580.159.04")


def open_part(page: Page, name: str) -> None:
    page.locator("[data-tabs] > details > summary", has_text=name).click()


@pytest.mark.parametrize("scripts", [True, False])
def test_one_part_of_a_run_is_open_and_the_address_names_it(
    new_page: NewPage, paths: dict[str, str], scripts: bool
) -> None:
    page = new_page(java_script_enabled=scripts)
    shown = page.locator("[data-tabs] > details[open] > summary")
    page.goto(paths["run"])
    expect(shown).to_have_text("Operations")
    page.goto(f"{paths['run']}#memory")
    expect(shown).to_have_text("Memory")
    open_part(page, "Log")
    expect(shown).to_have_text("Log")
    expect(page.get_by_role("heading", name="End of the log")).to_be_visible()
    if scripts:
        open_part(page, "Log")
        expect(shown).to_have_text("Log")
        assert page.url.endswith("#log")
        page.reload()
        expect(shown).to_have_text("Log")


def test_the_repro_command_is_copied(new_page: NewPage, paths: dict[str, str]) -> None:
    page = new_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{paths['run']}#repro")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "python -m benchmarks resnet50" in page.evaluate("navigator.clipboard.readText()")


def test_the_page_and_its_charts_follow_the_system_into_the_dark(new_page: NewPage) -> None:
    page = new_page(color_scheme="dark")
    open_history(page)
    assert background(page) < 60
    text = page.evaluate("document.querySelector('.plot .xtick text').style.fill")
    assert int(str(text).split("(")[1].split(",")[0]) > 120
    page.emulate_media(color_scheme="light")
    wait_until(page, "document.querySelector('.plot').layout.font.color.match(/\\d+/)[0] < 120")
    assert background(page) > 200


def test_paper_shows_a_chart_up_to_its_newest_point(page: Page) -> None:
    open_history(page)
    screen = page.evaluate(WIDTHS)
    page.evaluate(
        f"""() => {{ window.printed = [];
        matchMedia('print').addEventListener('change', () => printed.push(({WIDTHS})())); }}"""
    )
    page.pdf(format="A4")
    wait_until(page, "window.printed.length === 2")
    paper, after = page.evaluate("printed")
    assert paper[0] < screen[0]
    assert paper[0] == paper[1]
    assert after == screen


WIDTHS = """() => [document.querySelector('.plot').clientWidth,
  Math.round(document.querySelector('.plot .main-svg').getBoundingClientRect().width)]"""


def test_a_theme_chosen_by_hand_wins_and_is_kept(page: Page) -> None:
    page.goto("/")
    assert background(page) > 200
    button = page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    expect(button).to_have_text("Theme: Dark")
    assert background(page) < 60
    page.goto("/jobs")
    assert background(page) < 60
    expect(page.get_by_role("button", name="Theme")).to_have_text("Theme: Dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_enough(new_page: NewPage, scheme: str) -> None:
    """WCAG AA: 4.5 to 1 between each kind of text and what is behind it."""
    page = new_page(color_scheme=scheme)
    page.goto("/")
    found = page.evaluate(CONTRASTS)
    assert len(found) > 15
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


CONTRASTS = """() => {
  const probe = document.createElement('span');
  document.body.append(probe);
  const channels = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
  };
  const light = (name) => {
    const [r, g, b] = channels(name).map((v) => {
      v /= 255;
      return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratios = {};
  const pairs = { page: ['text', 'muted', 'accent'], surface: ['text', 'muted', 'accent', 'better',
    'worse', 'mark'], sunken: ['text', 'muted', 'accent'], 'accent-soft': ['accent'],
    'mark-soft': ['mark', 'text'], 'worse-soft': ['text'], accent: ['surface'] };
  for (const [behind, fronts] of Object.entries(pairs)) for (const front of fronts) {
    const [low, high] = [light(front), light(behind)].sort((a, b) => a - b);
    ratios[`${front} on ${behind}`] = (high + 0.05) / (low + 0.05);
  }
  probe.remove();
  return ratios;
}"""


def test_every_page_opens_on_a_phone_in_the_dark_and_none_scrolls_sideways(
    new_page: NewPage, paths: dict[str, str]
) -> None:
    page = new_page(width=360, height=740, has_touch=True, is_mobile=True, color_scheme="dark")
    wide = {}
    for name, path in paths.items():
        opened(page, path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
    open_history(page)
    wide["series"] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 360} == {}


def test_every_page_is_named_in_full_on_a_phone(new_page: NewPage, paths: dict[str, str]) -> None:
    page = new_page(width=390, height=740, has_touch=True, is_mobile=True)
    for name in (
        "overview",
        "cases",
        "explore",
        "findings",
        "gates",
        "compare",
        "jobs",
        "workers",
        "schedules",
    ):
        page.goto(paths[name])
        links = page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link").all()
        boxes = [box for link in links if (box := link.bounding_box())]
        assert len(boxes) == 9, name
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes), name


@pytest.mark.parametrize("widths", [(360, 375, 390), (1280,)])
@pytest.mark.parametrize("name", ["run", "noisy run"])
def test_nothing_on_a_run_is_cut_or_left_empty(
    new_page: NewPage, paths: dict[str, str], name: str, widths: tuple[int, ...]
) -> None:
    page = new_page(width=widths[0], height=740)
    page.goto(f"{paths[name]}#telemetry")
    expect(page.locator("[data-chart][data-drawn]").first).to_be_visible()
    for width in widths:
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate(CUT) == []
        assert_rows_are_full(page)


def assert_rows_are_full(page: Page) -> None:
    """Every row of figures is as wide as its frame."""
    rows: dict[float, float] = {}
    for tile in page.locator(".figures > div").all():
        box = tile.bounding_box()
        assert box
        rows[box["y"]] = rows.get(box["y"], -1.0) + box["width"] + 1
    whole = page.evaluate("document.querySelector('.figures').clientWidth")
    assert list(rows.values()) == pytest.approx([whole] * len(rows), abs=1.5)


CUT = """() => [...document.querySelectorAll('.scroll, .figures .big, .figures')]
  .filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.textContent)"""


def test_a_whole_commit_hash_can_be_read_where_it_is_typed(
    new_page: NewPage, paths: dict[str, str]
) -> None:
    for width in (390, 1280):
        page = new_page(width=width, height=740)
        page.goto(paths["compare"])
        for label in ("Baseline", "Contender"):
            field = page.get_by_label(label, exact=True)
            assert field.evaluate("field => field.scrollWidth <= field.clientWidth")


def test_the_toolbar_of_a_chart_waits_for_the_mouse(page: Page, paths: dict[str, str]) -> None:
    page.goto(f"{paths['run']}#steps")
    page.mouse.move(0, 0)
    chart = page.locator("section", has=page.locator("#steps")).locator("[data-chart]")
    toolbar = chart.locator(".modebar-group").first
    legend = chart.locator(".legend")
    chart.scroll_into_view_if_needed()
    expect(toolbar).to_have_css("opacity", "0")
    chart.hover()
    expect(toolbar).to_have_css("opacity", "1")
    tools, names = toolbar.bounding_box(), legend.bounding_box()
    assert tools
    assert names
    assert names["x"] + names["width"] <= tools["x"] or tools["y"] + tools["height"] <= names["y"]


def test_no_toolbar_lies_over_a_chart_on_a_phone(new_page: NewPage, paths: dict[str, str]) -> None:
    page = new_page(width=390, height=740, has_touch=True, is_mobile=True)
    page.goto(paths["run"])
    see_charts(page)
    for part in ("Memory", "Steps and device"):
        open_part(page, part)
        see_charts(page)
    expect(page.locator("[data-chart][data-drawn]")).to_have_count(5)
    assert page.locator(".modebar-btn").count() == 0


def test_the_keyboard_leads_from_the_overview_to_a_run(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    tab_to(page, "document.activeElement.pathname.startsWith('/series/')")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/series/*")
    tab_to(page, "document.activeElement.pathname.startsWith('/runs/')")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/*")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def tab_to(page: Page, condition: str) -> None:
    """Press Tab until the focused element fits."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate(f"Boolean(document.activeElement.pathname) && {condition}"):
            return
    pytest.fail(f"eighty tabs did not lead to where {condition}")


@pytest.mark.slow
def test_every_page_opens_without_a_fault(page: Page, paths: dict[str, str]) -> None:
    for path in paths.values():
        opened(page, path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_a_run_names_the_block_that_does_its_work_twice_and_draws_it_by_width(
    page: Page, paths: dict[str, str]
) -> None:
    page.goto(f"{paths['run by module']}#modules")
    section = page.locator("section", has=page.locator("#modules"))
    expect(section).to_contain_text("blocks.7 takes 2.0 times as long as its 11 siblings")
    blocks = section.locator(".point", has=page.get_by_text(re.compile(r"^blocks\.\d+$")))
    expect(blocks).to_have_count(12)
    wide = {box.text_content(): box.locator("path").bounding_box() for box in blocks.all()}
    assert {name for name, box in wide.items() if box and box["width"] > 100} == {"blocks.7"}
    place = wide["blocks.7"]
    assert place
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    expect(section.locator(".hoverlayer")).to_contain_text("13.4 % of the step")
    page.mouse.down()
    page.mouse.up()
    expect(section.get_by_text("norm", exact=True).nth(7)).to_be_visible()  # too narrow before


def test_a_run_draws_its_operations_below_their_lines(
    page: Page, paths: dict[str, str], tmp_path: Path
) -> None:
    page.goto(f"{paths['run']}#operations")
    section = page.locator("section", has=page.locator("#operations"))
    for label in ("example.py", "line 65", "aten::cudnn_convolution", "other operations"):
        expect(section.locator(".bartext", has_text=label)).to_be_visible()
    with page.expect_download() as saved:
        section.locator(".numbers").click()
    saved.value.save_as(tmp_path / "chart.csv")
    head, *rows = (tmp_path / "chart.csv").read_text().splitlines()
    assert head == 'trace,ids,base,"x: Device time, ms",y'
    assert [row.split(",")[1] for row in rows] == [
        "step",
        "benchmarks/workloads/example.py",
        "benchmarks/workloads/example.py:65",
        "aten::cudnn_convolution benchmarks/workloads/example.py:65",
        "all other operations",
    ]


def test_two_revisions_lead_to_their_modules_the_largest_difference_first(
    page: Page, paths: dict[str, str]
) -> None:
    page.goto(paths["compare"])
    slower = page.get_by_role("row", name="slower")
    slower.get_by_role("link", name="modules").click()
    rows = page.locator("#main tbody tr")
    expect(rows.first).to_contain_text("blocks.7.mlp")
    expect(rows.nth(1)).to_contain_text("blocks.7.attn")
    expect(page.locator(DRAWN).first).to_be_visible(timeout=15_000)


def test_hostile_text_runs_nothing(new_page: NewPage, paths: dict[str, str]) -> None:
    page = new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.goto(paths["hostile run"])
    expect(page.get_by_text("The measuring process died by a signal.")).to_be_visible()


def test_pages_can_be_read_without_scripts(new_page: NewPage, paths: dict[str, str]) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/cases?workload=unet")
    expect(page.locator("table.overview tbody tr")).to_have_count(2)
    page.get_by_role("rowheader").get_by_role("link").first.click()
    expect(page.locator("#points")).to_be_visible()
    assert page.locator("table").last.locator("tbody tr").count() == 40


def test_the_palette_opens_a_series_by_keyboard_alone(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search everything")).to_be_focused()
    page.keyboard.type("nanogpt tf32")
    options = page.get_by_role("listbox").get_by_role("option")
    expect(options.first).to_contain_text("precision=tf32")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/series/*")
    page.keyboard.press("Control+k")
    page.keyboard.type("sched")
    expect(options.first).to_contain_text("Schedules")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_enter_opens_what_was_typed_and_not_the_hits_before_it(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    expect(page.get_by_role("option", selected=True)).to_have_count(1)
    page.keyboard.type("schedules")
    page.keyboard.press("Enter")
    page.wait_for_url("**/schedules")


def test_the_palette_says_what_is_so(new_page: NewPage) -> None:
    page = new_page(may_fail=True)  # the browser itself writes a 401 to the console
    page.goto("/")
    said = page.get_by_role("dialog").get_by_role("status")
    page.keyboard.press("/")
    page.keyboard.type("schedules")
    expect(page.get_by_role("option")).to_have_count(1)
    expect(said).to_contain_text("Enter opens")
    page.keyboard.type("of nothing")
    expect(said).to_have_text("Nothing is called so.")
    statuses = iter((401, 403))
    page.route("**/api/v1/search?*", lambda route: route.fulfill(status=next(statuses)))
    for told in ("Sign in to search.", "You may not search here."):
        page.keyboard.type("!")
        expect(said).to_have_text(told)


def test_a_slash_in_a_field_is_a_slash(page: Page) -> None:
    page.goto("/cases")
    page.get_by_label("Search", exact=True).press("/")
    expect(page.get_by_label("Search", exact=True)).to_have_value("/")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_search_is_a_plain_page_without_scripts(new_page: NewPage) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/")
    page.get_by_role("link", name="Search").click()
    page.get_by_label("Words").fill("nanogpt tf32")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("main").get_by_role("link", name=re.compile("precision=tf32")).first.click()
    page.wait_for_url("**/series/*")


def test_a_chart_gives_its_numbers(page: Page, paths: dict[str, str], tmp_path: Path) -> None:
    page.goto(f"{paths['run']}#memory")
    with page.expect_download() as saved:
        page.locator("[data-chart][data-drawn] .numbers").first.click()
    saved.value.save_as(tmp_path / "chart.csv")
    head, *rows = (tmp_path / "chart.csv").read_text().splitlines()
    assert head == 'trace,"x: Time of the host, ms","y: Device memory, MiB"'
    assert rows[0] == "parameters and buffers,0,10"
    assert len(rows) == 10
