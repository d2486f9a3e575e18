"""The Grafana dashboard asks for what the service answers with: metrics, labels, JSON paths."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import long_series as long
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from service.app import create_app
from service.database.session import Database
from service.settings import Settings

FOLDER = Path(__file__).parents[2] / "integrations" / "grafana"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
SOURCES: dict[str, Any] = yaml.safe_load((FOLDER / "datasource.yaml").read_text(encoding="utf-8"))
TARGETS: list[dict[str, Any]] = [
    target for panel in DASHBOARD["panels"] for target in panel["targets"]
]
QUERIES = [target["expr"] for target in TARGETS if "expr" in target]
REQUESTS = [target for target in TARGETS if "url" in target]
METRIC = re.compile(r"throughline_\w+")


@pytest.fixture
def client(database: Database, database_url: str, tmp_path: Path) -> Any:
    """A service with a pinned series, a queue of its own kind and a sink."""
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(long.STEADY)))
    outbox = tmp_path / "outbox.toml"
    outbox.write_text(
        'address = "https://perf.example.com"\n[[sink]]\nname = "chat"\nkind = "slack"\n'
        'url = "https://chat.example.com/hook"\n'
    )
    settings = Settings(
        database_url=database_url, background=False, pinned=long.SERIES, outbox=outbox
    )
    with TestClient(create_app(settings)) as one:
        body = {"case": {"workload": "resnet50"}, "revision": "r", "requires": {"gpu": "H100"}}
        one.post("/api/v1/submissions", json=body).raise_for_status()
        yield one


@pytest.fixture
def labels(client: TestClient) -> dict[str, set[str]]:
    """The labels of each metric that the service answers with."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {
        family.name: {label for sample in family.samples for label in sample.labels}
        for family in families
    }


def test_every_metric_and_label_of_a_query_is_one_of_the_service(
    labels: dict[str, set[str]],
) -> None:
    assert len(QUERIES) >= 12
    for target in (one for one in TARGETS if "expr" in one):
        names = METRIC.findall(target["expr"])
        assert names
        assert set(names) <= set(labels), target["expr"]
        selectors = re.findall(r'(\w+)="', target["expr"])
        grouped = re.findall(r"by \((\w+)\)", target["expr"])
        shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        known = set.union(*(labels[name] for name in names))
        assert {*selectors, *grouped, *shown} <= known, target["expr"]


def test_every_metric_has_a_panel(labels: dict[str, set[str]]) -> None:
    assert {name for query in QUERIES for name in METRIC.findall(query)} == set(labels)


def test_the_variable_offers_the_pinned_series(client: TestClient) -> None:
    [variable] = DASHBOARD["templating"]["list"]
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
    assert found is not None
    families = text_string_to_metric_families(client.get("/metrics").text)
    offered = {
        sample.labels[found[2]]
        for family in families
        if family.name == found[1]
        for sample in family.samples
    }
    assert offered == {long.SERIES}


def test_every_path_of_a_request_is_in_its_answer(client: TestClient) -> None:
    assert len(REQUESTS) == 2
    for target in REQUESTS:
        answer = client.get(target["url"].replace("${series}", long.SERIES))
        assert answer.status_code == 200, answer.text
        items = answer.json()[target["root_selector"]]
        assert len(items) == len(long.STEADY)
        for column in target["columns"]:
            assert column["selector"] in items[0]
        if target["format"] == "timeseries":
            assert {one["type"] for one in target["columns"]} == {"timestamp", "number"}


def test_panels_use_the_data_sources_that_are_provisioned() -> None:
    known = {one["uid"]: one["type"] for one in SOURCES["datasources"]}
    for owner in [*DASHBOARD["panels"], *TARGETS, *DASHBOARD["templating"]["list"]]:
        assert known[owner["datasource"]["uid"]] == owner["datasource"]["type"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
