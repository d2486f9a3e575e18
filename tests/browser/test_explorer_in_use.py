"""The explorer in a real browser: choosing, zooming, clicking, comparing, going back; axe-core."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from builders import long_series as long
from builders.long_forms import long_but
from builders.serving import serving
from playwright.sync_api import Page, expect

from service.database.session import Database

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
DRAWN = ".plot .main-svg"
BOTH = "/explore?workload=resnet50"
PLACE = """([series, number]) => {
  const plot = document.querySelector('.plot');
  const trace = plot.data.find((one) => one.meta === series && one.customdata);
  const box = plot.querySelector('.nsewdrag').getBoundingClientRect();
  const { xaxis, yaxis } = plot._fullLayout;
  return [box.x + xaxis.d2p(trace.x[number]), box.y + yaxis.d2p(trace.y[number])];
}"""


@pytest.fixture(scope="module")
def address(database: Database) -> Iterator[str]:
    """The address of a service with two histories, one of which drops."""
    with database.writing() as session:
        long.prepare(session)
        dropping = [*long.noisy(long.STEADY), *long.noisy(long.DROPPED)]
        long.add(session, dict(enumerate(dropping)))
        long.add(session, dict(enumerate(long.noisy([50.0] * 32))), series_id=long.OTHER, place=1)
        long.add(session, {40: 60.0}, disturbed="throttled")
        long.look(session)
    yield from serving(str(database.engine.url))


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def opened(page: Page, path: str = BOTH) -> Page:
    page.goto(path)
    expect(page.locator(DRAWN).first).to_be_visible()
    return page


def place(page: Page, number: int, series: str = long.SERIES) -> tuple[float, float]:
    page.locator(".plot").scroll_into_view_if_needed()
    x, y = page.evaluate(PLACE, [series, number])
    return x, y


def click(page: Page, number: int) -> None:
    """Click on a point once the chart says that it is under the pointer."""
    page.mouse.move(*place(page, number))
    expect(page.locator(".hoverlayer .hovertext")).to_contain_text(long.revision_of(number))
    page.mouse.down()
    page.mouse.up()


def test_a_typed_facet_shows_its_series_and_back_takes_it_away(page: Page) -> None:
    page.goto("/explore")
    page.get_by_label("Workload").fill("resnet50")
    page.get_by_label("Workload").press("Enter")
    expect(page.locator(DRAWN).first).to_be_visible()
    expect(page.locator("tr[data-series]")).to_have_count(2)
    assert query(page) == {"workload": ["resnet50"]}
    page.get_by_label("Setting").fill("precision=bf16")
    page.get_by_label("Setting").press("Enter")
    expect(page.locator("tr[data-series]")).to_have_count(1)
    page.go_back()
    expect(page.locator("tr[data-series]")).to_have_count(2)
    page.get_by_role("link", name="Without workload resnet50").click()
    expect(page.locator("tr[data-series]")).to_have_count(0)
    expect(page.locator("[data-plot]")).to_be_hidden()


def test_a_brush_zooms_and_a_double_click_shows_all_again(page: Page) -> None:
    opened(page)
    x, y = place(page, 5)
    page.mouse.move(x, y + 30)
    page.mouse.down()
    page.mouse.move(place(page, 15)[0], y + 30, steps=8)
    page.mouse.up()
    expect(page.locator("[data-said]")).to_contain_text("20 points of 2 series")
    assert query(page)["since"][0].startswith("2026-01-0")
    page.mouse.dblclick(x + 60, y + 30)
    expect(page.locator("[data-said]")).to_contain_text("65 points of 2 series")
    assert "since" not in query(page)
    page.go_back()
    expect(page.locator("[data-said]")).to_contain_text("20 points of 2 series")


def test_a_revision_on_the_axis_says_its_date(page: Page) -> None:
    opened(page, f"{BOTH}&x=order")
    page.locator(".plot").scroll_into_view_if_needed()
    name = page.locator(".xtick text").nth(2)
    box = name.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    told = page.locator(".hoverlayer .hovertext")
    expect(told).to_contain_text(re.compile(rf"{name.text_content()} · \d{{4}}-\d\d-\d\d"))


def test_a_click_opens_a_point_and_a_second_one_with_shift_compares_them(page: Page) -> None:
    opened(page)
    click(page, 25)
    panel = page.get_by_role("region", name="Point")
    expect(panel).to_contain_text("r00025")
    expect(panel.get_by_role("button", name="Measure again")).to_be_enabled()
    page.keyboard.down("Shift")
    click(page, 3)
    page.keyboard.up("Shift")
    expect(page.get_by_role("region", name="Two points")).to_contain_text("r00003")
    assert len(query(page)["point"]) == len(query(page)["other"]) == 1
    page.go_back()
    expect(panel).to_be_visible()
    panel.get_by_role("link", name="Compare with its last good").click()
    expect(page.get_by_role("region", name="Two points")).to_contain_text("r00019")
    page.reload()
    expect(page.get_by_role("region", name="Two points")).to_contain_text("r00019")


def test_a_point_is_excluded_from_its_panel(page: Page) -> None:
    opened(page, f"{BOTH}&point={long.OTHER}.{long.result_of(7, 1)}")
    page.get_by_text("Exclude it").first.click()
    page.get_by_label("Reason").fill("another job ran")
    page.get_by_label("Your name").fill("Ada")
    page.get_by_role("button", name="Exclude from its histories").click()
    expect(page.get_by_role("region", name="Point")).to_contain_text("another job ran")


def test_ticked_series_stay_and_panels_are_drawn(page: Page) -> None:
    opened(page)
    page.get_by_label("Draw").select_option("true")
    expect(page.locator(".plot .xy2, .plot .x2y2").first).to_be_attached()
    page.locator("tr[data-series] input").first.check()
    page.get_by_role("button", name="Show only the ticked").click()
    expect(page.locator("tr[data-series]")).to_have_count(1)
    assert query(page)["panels"] == ["true"]


def test_the_keyboard_alone_walks_from_point_to_point(page: Page) -> None:
    opened(page)
    page.locator("tr[data-series] td a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#panel")).to_be_visible()
    page.get_by_role("link", name="Earlier").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Later")).to_be_visible()


def test_without_scripts_the_form_chooses_and_the_table_answers(new_page: NewPage) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/explore")
    page.get_by_label("Workload").fill("resnet50")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("tr[data-series]")).to_have_count(2)
    page.get_by_label("Setting").fill("precision=bf16")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("tr[data-series]")).to_have_count(1)
    page.locator("tr[data-series] td a").first.click()
    expect(page.get_by_role("region", name="Point")).to_contain_text("r00031")


def test_the_chart_is_saved_as_a_picture(page: Page, tmp_path: Path) -> None:
    opened(page)
    page.locator(".plot").hover()
    with page.expect_download() as saved:
        page.locator(".modebar [data-title*='ownload plot']").click()
    saved.value.save_as(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


PATHS = (
    "/explore",
    BOTH,
    f"{BOTH}&point={long.SERIES}.{long.result_of(25)}",
    f"{BOTH}&point={long.SERIES}.{long.result_of(25)}&other={long.SERIES}.{long.result_of(3)}",
)


@pytest.mark.parametrize(
    ("scheme", "path"), long_but(itertools.product(["light", "dark"], PATHS), 3, 4)
)
def test_axe_finds_nothing_and_a_phone_does_not_scroll_sideways(
    new_page: NewPage, scheme: str, path: str
) -> None:
    page = new_page(width=390, height=740, color_scheme=scheme)
    page.goto(path)
    if path != "/explore":
        expect(page.locator(DRAWN).first).to_be_visible()
    found = Axe().run(page)
    assert found.response["violations"] == [], found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
