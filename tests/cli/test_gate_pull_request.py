"""The pull request that a gate finds in the variables of CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.exits import Stop
from cli.gate.pull_request import told_or_found

HEAD, MERGE = "a" * 40, "f" * 40
ON_GITHUB = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/vision", "GITHUB_SHA": MERGE}


def pull(
    forge: str = "github", repository: str = "acme/vision", number: int = 12
) -> dict[str, Any]:
    return {"forge": forge, "repository": repository, "number": number, "head": HEAD}


def github(folder: Path, event: Any) -> dict[str, str]:
    path = folder / "event.json"
    path.write_text(json.dumps(event))
    return ON_GITHUB | {"GITHUB_REF": "refs/pull/12/merge", "GITHUB_EVENT_PATH": str(path)}


def test_github_tells_the_head_and_not_the_merge_also_of_a_fork(tmp_path: Path) -> None:
    head = {"sha": HEAD, "repo": {"full_name": "stranger/vision"}}
    environment = github(tmp_path, {"pull_request": {"number": 12, "head": head}})
    assert told_or_found(None, MERGE, environment) == pull()


@pytest.mark.parametrize(
    "event", [{}, {"pull_request": None}, {"pull_request": {"number": "x"}}, [], "x"]
)
def test_github_without_a_pull_request_tells_nothing(tmp_path: Path, event: Any) -> None:
    assert told_or_found(None, MERGE, github(tmp_path, event)) is None
    assert told_or_found(None, MERGE, ON_GITHUB | {"GITHUB_REF": "refs/heads/main"}) is None
    assert told_or_found(None, HEAD, ON_GITHUB | {"GITHUB_REF": "refs/pull/12/head"}) == pull()


def test_gitlab_tells_the_project_that_is_merged_into() -> None:
    environment = {
        "CI_PROJECT_ID": "7",
        "CI_PROJECT_PATH": "stranger/vision",
        "CI_MERGE_REQUEST_PROJECT_PATH": "acme/ml/vision",
        "CI_MERGE_REQUEST_IID": "12",
        "CI_COMMIT_SHA": HEAD,
    }
    assert told_or_found(None, HEAD, environment) == pull("gitlab", "acme/ml/vision")
    merged = environment | {
        "CI_COMMIT_SHA": MERGE,
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": HEAD,
    }
    assert told_or_found(None, MERGE, merged) == pull("gitlab", "acme/ml/vision")
    del environment["CI_MERGE_REQUEST_IID"]
    assert told_or_found(None, HEAD, environment) is None


def test_gerrit_tells_its_change() -> None:
    environment = {
        "GERRIT_PROJECT": "acme/vision",
        "GERRIT_CHANGE_NUMBER": "12",
        "GERRIT_PATCHSET_REVISION": HEAD,
    }
    assert told_or_found(None, "main", environment) == pull("gerrit")


def test_an_option_comes_first() -> None:
    assert told_or_found("gitlab:acme/a#3", HEAD, ON_GITHUB) == pull("gitlab", "acme/a", 3)


@pytest.mark.parametrize(
    "told", ["12", "github:acme/vision", "github:#1", "forge:a/b#1", "github:../x#1", "github:a#0"]
)
def test_a_wrong_option_is_refused_with_an_example(told: str) -> None:
    with pytest.raises(Stop, match="github:acme/vision#12"):
        told_or_found(told, HEAD, {})
    with pytest.raises(Stop, match="the whole id of its newest commit"):
        told_or_found("github:acme/vision#12", "main", {})
