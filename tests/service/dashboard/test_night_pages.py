"""The pages of nights: what they show, where they lead, and the feed."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import timedelta
from typing import Any

from builders import analysed
from builders.html_page import faults, links
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.database.session import now_of
from service.findings.nights import announce
from service.jobs import schedules
from service.models import Schedule

ATOM = "{http://www.w3.org/2005/Atom}"


def test_a_night_is_shown_listed_and_in_the_feed(empty_pages: TestClient) -> None:
    app: Any = empty_pages.app
    assert "No night was reported yet" in empty_pages.get("/nights").text
    assert "/nights" in links(empty_pages.get("/findings").text)
    assert empty_pages.get("/nights/newest").status_code == 404
    opened = analysed.analyse(app.state.database)
    with app.state.database.writing() as session:
        due_at = now_of(session) - timedelta(hours=8.5)
        session.execute(update(Schedule).values(next_due_at=due_at))
        schedules.fire_due(session, due_at)
    announce.announce(app.state.database)
    listed = empty_pages.get("/nights").text
    assert faults(listed) == []
    [page] = {one for one in links(listed) if one.startswith("/nights/2")}
    assert page.endswith("?project=")
    shown = empty_pages.get(page).text
    assert faults(shown) == []
    assert f"/findings/{opened.regression}" in links(shown)
    assert "Expected false alarms" in shown
    assert "No worker has taken it yet." in shown
    assert empty_pages.get("/nights/newest").text.count("<h2") == shown.count("<h2") == 5
    answer = empty_pages.get("/nights.atom")
    assert answer.headers["content-type"] == "application/atom+xml"
    [entry] = ET.fromstring(answer.text).iter(f"{ATOM}entry")
    link = entry.find(f"{ATOM}link")
    assert link is not None
    assert link.get("href") == f"http://127.0.0.1:8765{page}"
    assert f"/findings/{opened.regression}" in (entry.findtext(f"{ATOM}content") or "")
    assert (entry.findtext(f"{ATOM}updated") or "").endswith("+00:00")
