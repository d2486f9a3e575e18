"""The pull request that a gate is for, as an option or the variables of CI tell it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cli.exits import Stop
from service.schemas.pull_requests import PullRequest

_COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")


def told_or_found(
    told: str | None, contender: str, environment: Mapping[str, str]
) -> dict[str, Any] | None:
    """The pull request as a gate asks for it; None where there is none.

    Its newest commit is the contender where nothing else is told.

    Raises:
        Stop: what was ``told`` is none.
    """
    if told is not None:
        forge, _, rest = told.partition(":")
        repository, _, number = rest.rpartition("#")
        if (found := _checked(forge, repository, number, contender)) is None:
            raise Stop(
                f"--pull-request {told[:100]}: write such as github:acme/vision#12, and let the "
                "contender be the whole id of its newest commit."
            )
        return found
    for look in (_github, _gitlab, _gerrit):
        if (found := look(environment, contender)) is not None:
            return found
    return None


def _github(environment: Mapping[str, str], contender: str) -> dict[str, Any] | None:
    """GitHub Actions: the event tells number and head, for what is checked out is a merge."""
    repository = environment.get("GITHUB_REPOSITORY")
    if not repository or environment.get("GITHUB_ACTIONS") != "true":
        return None
    try:
        path = Path(environment["GITHUB_EVENT_PATH"])
        pull = json.loads(path.read_text(encoding="utf-8"))["pull_request"]
        return _checked("github", repository, str(pull["number"]), pull["head"]["sha"])
    except (OSError, ValueError, KeyError, TypeError):
        at = re.fullmatch(r"refs/pull/(\d+)/head", environment.get("GITHUB_REF", ""))
        return _checked("github", repository, at[1], contender) if at else None


def _gitlab(environment: Mapping[str, str], contender: str) -> dict[str, Any] | None:
    """GitLab CI: the project is the one that is merged into, also in the pipeline of a fork."""
    head = environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environment.get("CI_COMMIT_SHA")
    return _checked(
        "gitlab",
        environment.get("CI_MERGE_REQUEST_PROJECT_PATH", ""),
        environment.get("CI_MERGE_REQUEST_IID", ""),
        head or contender,
    )


def _gerrit(environment: Mapping[str, str], contender: str) -> dict[str, Any] | None:
    """Jenkins' Gerrit Trigger."""
    return _checked(
        "gerrit",
        environment.get("GERRIT_PROJECT", ""),
        environment.get("GERRIT_CHANGE_NUMBER", ""),
        environment.get("GERRIT_PATCHSET_REVISION") or contender,
    )


def _checked(forge: str, repository: str, number: str, head: str) -> dict[str, Any] | None:
    if not number.isdecimal() or not _COMMIT.fullmatch(head):
        return None
    document = {"forge": forge, "repository": repository, "number": int(number), "head": head}
    try:
        return PullRequest.model_validate_json(json.dumps(document)).model_dump(mode="json")
    except ValidationError:
        return None
