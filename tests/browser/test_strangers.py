"""Whatever text a client stores, a page shows it to the letter, and nothing of it runs.

The places come from the API's own description: a new one that no page shows and that is not listed
here fails, and so does one listed here that a page shows by now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from builders import analysed as analysed_history
from builders.history_plans import PLANS, measured
from builders.service_hand import Hand
from builders.serving import serving
from builders.strangers import Strangers
from fastapi.testclient import TestClient
from playwright.sync_api import Page, expect

from service.app import create_app
from service.database.session import Database
from service.settings import Settings

pytestmark = pytest.mark.browser

NewPage = Callable[..., Page]
ATTEMPT = "/api/v1/jobs/{job_id}/attempts/{number}"
SUBMIT, JOB, RESULT = "POST /api/v1/submissions", "POST /api/v1/jobs", f"POST {ATTEMPT}/result"
IMPORT = "POST /api/v1/imports"
SOME_TIME = "2026-11-20T01:02:03Z"
EXCLUDE = "/api/v1/results/{result_id}/exclusion"
FINDING = "/api/v1/findings/{finding_id}"
PLAN = PLANS[5]
ENROL = "POST /api/v1/enrolments/redeem"
CHECKED = frozenset({f"{SUBMIT} .rerun_of", f"{JOB} .rerun_of", f"{ENROL} .code"})
"""Free by its description, but only the id of a job that is there, or a good code, is taken."""
NOWHERE = {
    f"{IMPORT} .points[].machine{{key}}": "shown where it changes; kept for who asks the API",
    f"{IMPORT} .points[].machine{{}}": "likewise",
    "POST /api/v1/comparisons .policy.rules[].cases": "a page tells the answer, not the policy",
    f"{RESULT} .replicates[].gang_trace.absent": "kept for who asks the API",
    f"{RESULT} .replicates[].phases.absent": "kept for who asks the API",
    f"{RESULT} .replicates[].profile.demands[].name": "summed up by kind",
    f"{RESULT} .replicates[].profile.notes[]": "kept for who asks the API",
    "PUT /api/v1/workers/{name} .listed.commits[].author": "of a revision, if asked for",
    "PUT /api/v1/workers/{name} .listed.commits[].title": "likewise",
    "PUT /api/v1/workers/{name} .listed.reason": "likewise; by the bisection that asked for it",
}
"""Places that no page shows, and why."""
EVERYTHING = """() => {
  const told = [document.documentElement.textContent];
  for (const one of document.querySelectorAll("*"))
    for (const name of one.attributes) told.push(name.value);
  return told.join("\\n");
}"""
LEADING = """() => [...document.querySelectorAll("a, area, form")].map((one) => {
  const told = one.href ?? one.action;
  return typeof told === "string" ? told : new URL(told.baseVal, location.href).href;
}).filter(Boolean)"""


@dataclass
class Stored:
    """What strangers have stored: their text, and the pages that could show it."""

    strangers: Strangers
    pages: list[str]
    series: str


class Planter:
    """A client that fills in hostile text wherever it may."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.strangers = Strangers(client.get("/api/v1/openapi.json").json())

    def send(self, call: str, body: Any, **parts: object) -> Any:
        method, path = call.split(" ")
        planted = self.strangers.body(call, body, skip=CHECKED)
        answer = self.client.request(method, path.format(**parts), json=planted)
        assert answer.is_success, answer.text
        return answer.json()

    def hand(self, name: str, call: str) -> Hand:
        """A worker that has what the jobs of this call ask for."""
        worker = Hand(self.client, name)
        asked = self.strangers.body(call, {"requires": {}}, skip=CHECKED)["requires"]
        worker.introduce(**asked)
        return worker

    def tell(self, worker: Hand, lease: Any, what: str, body: Any) -> Any:
        planted = self.strangers.body(f"POST {ATTEMPT}/{what}", body)
        answer = worker.tell(lease, what, planted)
        assert answer.is_success, answer.text
        return answer

    def measure(self, worker: Hand, result: dict[str, Any]) -> str:
        lease = worker.must_claim()
        assert worker.start(lease).is_success
        return str(self.tell(worker, lease, "result", result).json()["id"])


def a_job(revision: str, **more: object) -> dict[str, Any]:
    case = PLAN.case.model_dump(mode="json")
    return {"case": case, "revision": revision, "priority": 100, **more}


def a_result(**more: object) -> dict[str, Any]:
    told = measured(PLAN, 39, datetime.now(UTC), np.random.default_rng(1)).model_dump(mode="json")
    protocol = {**told["protocol"], "trace": True}  # so that a page says why there is none
    skipped = {"status": "skipped"}
    return {**told, "protocol": protocol, "parity": skipped, "long_parity": skipped, **more}


def imported(plant: Planter) -> list[str]:
    """Import a point of another tool; its series."""
    elsewhere = {"values": [1.0], "direction": "lower", "revision": "r1"}
    answer = plant.send(IMPORT, {"source": "tool", "points": [elsewhere]})
    return list(answer["series"])


def introduce_a_drained_worker(plant: Planter) -> None:
    head = {"target": "ours", "ref": "refs/heads/main", "commit": "0" * 40, "at": SOME_TIME}
    between = [{"commit": "2" * 40, "at": SOME_TIME}]
    listed = {"good": "1" * 40, "bad": "2" * 40, "commits": between}
    stranger = {"name": "stranger", "labels": {}, "heads": [head], "listed": listed}
    plant.send("PUT /api/v1/workers/{name}", stranger, name="stranger")
    plant.send("PUT /api/v1/workers/{name}/drain", {}, name="stranger")


def store(client: TestClient, finding: str) -> Stored:
    plant = Planter(client)
    introduce_a_drained_worker(plant)
    submitting, single = plant.hand("s1", SUBMIT), plant.hand("s2", JOB)

    plant.send(JOB, a_job("r1"))
    first = plant.measure(single, a_result())
    plant.send(SUBMIT, a_job("r2"))
    used = {"flop_per_s": 1e14, "mfu": 0.4, "mfu_clock": 0.41}
    known = {"device": "", "peak_flop_per_s": 1e15, "uses": {"full": used, "synth": used}}
    kept = plant.measure(submitting, a_result(efficiency=known))
    plant.send(SUBMIT, a_job("r3"))
    failed = plant.measure(submitting, a_result(status="crashed", samples=[], verdict=None))

    held = plant.send(SUBMIT, a_job("r4"))["jobs"][0]["id"]
    lease = submitting.must_claim()
    assert submitting.start(lease).is_success
    told = {"progress": {"phase": "full", "throughput": 7.0}, "log_tail": ""}
    plant.tell(submitting, lease, "heartbeat", told)
    given_back = plant.send(JOB, a_job("r5"))
    lease = single.must_claim()
    plant.tell(single, lease, "release", {"reason": ""})

    plant.send(f"PUT {EXCLUDE}", {}, result_id=first)
    actor = plant.strangers.parameter(f"DELETE {EXCLUDE}", "actor")
    back = client.delete(EXCLUDE.format(result_id=first), params={"actor": actor})
    assert back.is_success, back.text
    plant.send(f"PUT {EXCLUDE}", {}, result_id=first)
    plant.send(f"PATCH {FINDING}", {}, finding_id=finding)
    plant.send(f"POST {FINDING}/actions", {"action": "acknowledge"}, finding_id=finding)
    plant.send("PUT /api/v1/schedules/{name}", {"cron": "0 3 * * *", "suite": "smoke"}, name="mine")
    plant.send("PUT /api/v1/thresholds", {"workload": "unet", "least_effect": 0.03})
    plant.send("POST /api/v1/annotations", {"revision": "r1"})
    sides = {"case": a_job("r6")["case"], "baseline": "r1", "contender": "r2"}
    compared = plant.send("POST /api/v1/comparisons", sides)
    commits = [{"revision": "r1"}, {"revision": "r2"}]
    range_ = {"case": sides["case"], "commits": commits}
    bisected = plant.send("POST /api/v1/bisections", range_)
    series = client.get("/api/v1/series", params={"metric": "throughput", "limit": 500}).json()
    unit = plant.strangers.planted[f"{RESULT} .samples[].unit"]
    own = [one["id"] for one in series["items"] if one["unit"] == unit]
    pages = [
        "/",
        "/findings",
        f"/findings/{finding}",
        "/jobs",
        f"/jobs/{held}",
        f"/jobs/{given_back['id']}",
        *(f"/runs/{one}" for one in (first, kept, failed)),
        *(f"/series/{one}" for one in (*own, *imported(plant))),
        f"/explore?series={own[0]}&point={own[0]}.{first}",
        f"/explore?series={own[0]}&point={own[0]}.{kept}",
        "/revisions/r1",
        "/compare?baseline=r1&contender=r2",
        f"/compare/kernels?baseline={first}&contender={kept}",
        "/comparisons",
        f"/comparisons/{compared['id']}",
        "/bisections",
        f"/bisections/{bisected['id']}",
        "/workers",
        *(f"/workers/{hand.name}" for hand in (single, submitting)),
        "/schedules",
        "/targets",
        "/thresholds",
        "/outbox",
    ]
    return Stored(plant.strangers, pages, own[0])


@pytest.fixture(scope="module")
def stored(database: Database) -> Stored:
    analysed = analysed_history.analyse(database)
    url = database.url.render_as_string()
    with TestClient(create_app(Settings(database_url=url, background=False))) as client:
        return store(client, analysed.regression)


@pytest.fixture(scope="module")
def address(database: Database, stored: Stored) -> Iterator[str]:
    """A service on what strangers have stored, in place of the one that other tests look at."""
    yield from serving(database.url.render_as_string())


def test_text_is_planted_in_every_place_that_the_description_names(stored: Stored) -> None:
    assert set(stored.strangers.planted) == stored.strangers.fields() - CHECKED


def test_every_stored_text_is_shown_to_the_letter_and_nothing_of_it_runs(
    new_page: NewPage, stored: Stored, address: str
) -> None:
    page = new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    shown = ""
    for path in stored.pages:
        answer = page.goto(path)
        assert answer is not None
        assert answer.status == 200, path
        if path == f"/series/{stored.series}":
            hover_over_a_point(page)
        if path.startswith("/explore"):
            expect(page.locator("[data-said] li").first).to_be_visible()  # and so is its chart
        shown += page.evaluate(EVERYTHING)
        elsewhere = [to for to in page.evaluate(LEADING) if not to.startswith(address + "/")]
        assert elsewhere == [], path
    hidden = {place for place, text in stored.strangers.planted.items() if text not in shown}
    assert sorted(hidden) == sorted(NOWHERE)


def test_pages_of_very_long_names_scroll_nowhere_sideways(
    new_page: NewPage, database: Database, address: str
) -> None:
    long = "x" * 500
    names = {"benchmark": long, "metric": long, "unit": "ms", "parameters": {long: long}}
    point = names | {"values": [1.0], "direction": "lower", "revision": "r" * 100}
    settings = Settings(database_url=database.url.render_as_string(), background=False)
    with TestClient(create_app(settings)) as client:
        answer = client.post("/api/v1/imports", json={"source": "tool", "points": [point]})
        asked = {"baseline": "r1", "contender": "r2", "suite": "smoke"}
        gate = client.post("/api/v1/comparisons", json=asked).json()["id"]
    [series] = answer.json()["series"]
    for width in (390, 1280):
        page = new_page(width=width, height=740)
        for path in ("/", f"/cases?metric={long}", f"/series/{series}", f"/comparisons/{gate}"):
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def hover_over_a_point(page: Page) -> None:
    """The chart writes text of its own when a point is pointed at."""
    spot = page.locator(".plot .point").last
    expect(spot).to_be_visible()
    box = spot.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".plot .hoverlayer")).to_contain_text("evil.example")
