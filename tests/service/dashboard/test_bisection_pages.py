"""The pages of bisections: a dot for each probe, a bar for each commit, and who changed it."""

from __future__ import annotations

import re

import pytest
from builders.bisected import BisectionHand, commits, stepped
from builders.gate_hand import GateHand
from builders.service_hand import Hand
from fastapi.testclient import TestClient


@pytest.fixture
def bisecting(client: TestClient, hand: Hand) -> BisectionHand:
    return BisectionHand(GateHand(client, hand))


def text_of(client: TestClient, page: str) -> str:
    answer = client.get(page)
    assert answer.status_code == 200
    return answer.text.replace("\u00a0", " ")


def test_a_running_bisection_says_what_is_next(
    client: TestClient, bisecting: BisectionHand
) -> None:
    assert "Nothing was bisected yet" in text_of(client, "/bisections")
    told = bisecting.start()
    text = text_of(client, told["page"])
    assert "data-live" in text
    assert "Measure the bad end c8 beside the good end c0." in text
    assert "Verifying ends" in text
    assert f'href="{told["page"]}"' in text_of(client, "/bisections")


def test_the_culprit_is_named_with_a_dot_for_each_probe_and_a_bar_for_each_commit(
    client: TestClient, bisecting: BisectionHand
) -> None:
    told = bisecting.start()
    bisecting.measure(stepped(5, unbuildable=(2,)))
    told = bisecting.read(told["id"])
    text = text_of(client, told["page"])
    assert "data-live" not in text
    assert "c5 (Ada 5, &#34;Change number 5&#34;) changed it. Probability 99.9 %" in text
    measured = [probe for probe in told["probes"] if probe["difference"] is not None]
    assert text.count("<circle") == len(measured)
    assert text.count('class="chance"') == len(told["commits"]) == 9
    assert re.search(r"<title>c5: (2\.9|3\.0|3\.1) % worse than c4</title>", text)
    for probe in told["probes"]:
        assert f"/jobs/{probe['job_id']}" in text
    assert client.get(told["page"], headers={"HX-Request": "true"}).text.count("<html") == 0


def test_each_of_two_culprits_is_shown(client: TestClient, bisecting: BisectionHand) -> None:
    told = bisecting.start(12)
    bisecting.measure(stepped(4, 0.06, others={9: 0.03}))
    text = text_of(client, told["page"])
    assert "% of the change, c9 (Ada 9, &#34;Change number 9&#34;) " in text
    assert re.findall(r"<b>(Change number \d+)</b>", text) == ["Change number 4", "Change number 9"]


def test_a_commit_that_cannot_be_built_is_a_cross(
    client: TestClient, bisecting: BisectionHand
) -> None:
    told = bisecting.start()
    bisecting.measure(stepped(5, unbuildable=(4,)))
    text = text_of(client, told["page"])
    assert text.count('class="broken"') == 1
    assert "cannot be measured" in text
    assert "<title>c4 beside c0: it has no uv.lock.</title>" in text


def test_a_strangers_title_is_escaped(client: TestClient, bisecting: BisectionHand) -> None:
    named = [{**one, "title": "<script>alert(1)</script>"} for one in commits(2)]
    told = bisecting.start(commits=named)
    bisecting.measure(stepped(1))
    text = text_of(client, told["page"])
    assert "<script>alert" not in text
    assert re.search(r"&lt;script&gt;alert\(1\)&lt;/script&gt;", text)


def test_an_unknown_bisection_is_a_page_that_says_so(client: TestClient) -> None:
    answer = client.get("/bisections/none")
    assert answer.status_code == 404
    assert "There is no such bisection" in answer.text
