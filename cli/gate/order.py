"""The gate's command line, read into a request for the service."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cli import parse_case
from cli.durations import seconds
from cli.exits import Stop
from cli.gate.pull_request import told_or_found
from cli.revision import Version, fork_point, given_or_checked_out, pushed_changes
from service.schemas.policy import Policy


class Inconclusive(StrEnum):
    """The ways in which CI can treat a gate that could not decide."""

    PASS = "pass"  # noqa: S105 - no secret
    FAIL = "fail"
    TWO = "2"


@dataclass(frozen=True)
class GateOptions:
    """The options of a gate on the command line."""

    baseline: str | None
    contender: str | None
    suite: str | None
    cases: Sequence[str]
    max_regression: str | None
    margin: str | None
    policy: Path | None
    budget: str
    requires: Sequence[str]
    worker: str | None
    key: str | None
    project: str | None = None
    duet: bool = True
    pull_request: str | None = None
    push_changes: bool = False

    @property
    def budget_s(self) -> float:
        """The budget in seconds."""
        return seconds(self.budget)

    def request(self) -> dict[str, Any]:
        """Return the request to post to the service.

        Raises:
            Stop: it says in one sentence what is wrong.
        """
        if (self.suite is None) == (not self.cases):
            raise Stop("Name what to measure: --suite, or --case as often as you like.")
        policy, budget_s = self._policy(), self.budget_s
        contender = self._contender(Path.cwd())
        of = contender.revision if self.push_changes else "HEAD"
        baseline = self.baseline or fork_point(Path.cwd(), of)
        if baseline is None:
            raise Stop(
                "No commit is known where this branch left the main branch: name one with "
                "--baseline, or fetch more of the history."
            )
        request: dict[str, Any] = {
            "baseline": baseline,
            "contender": contender.revision,
            "budget_s": budget_s,
            "policy": policy,
            "requires": parse_case.labels(self.requires),
            "source": "gate",
            "duet": self.duet,
        }
        optional = {
            "suite": self.suite,
            "worker": self.worker,
            "project": self.project,
            "pull_request": told_or_found(self.pull_request, contender.revision, os.environ),
        }
        if self.suite is None:
            request["cases"] = [_case(words) for words in self.cases]
        return request | {name: value for name, value in optional.items() if value is not None}

    def _contender(self, folder: Path) -> Version:
        if not self.push_changes:
            return given_or_checked_out(self.contender, folder, "--contender")
        if self.contender is not None:
            raise Stop("--push-changes gates what is changed here: leave --contender out.")
        return pushed_changes(folder)

    def _policy(self) -> dict[str, Any]:
        options = {"max_regression": self.max_regression, "margin": self.margin}
        given = {name: value for name, value in options.items() if value is not None}
        if self.policy is not None:
            if given:
                raise Stop("A policy file says how much may be lost: leave the other options out.")
            return checked(_document(self.policy), f"The policy {self.policy}")
        rules = [{"limits": [given]}] if given else []
        try:
            return checked({"rules": rules}, "The limit")
        except Stop as stop:
            words = (f"--{name.replace('_', '-')} {value}" for name, value in given.items())
            sentence = f"{' and '.join(words)}: write a share below 1, such as 2% or 0.02."
            raise Stop(sentence) from stop


def checked(policy: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Check a policy before it is sent, and return its plain form.

    Raises:
        Stop: it is none; the sentence names the place.
    """
    try:
        valid = Policy.model_validate_json(json.dumps(policy, default=str))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise Stop(f"{name} is wrong{f' at {place}' if place else ''}: {fault['msg']}.") from error
    return valid.model_dump(mode="json", exclude_unset=True)


def _case(words: str) -> dict[str, Any]:
    workload, *settings = words.split()[:65] or [""]
    name, preset = parse_case.named(workload)
    if not name:
        raise Stop("An empty --case names nothing; write such as --case 'unet precision=bf16'.")
    return parse_case.case(name, settings, preset or None).model_dump(mode="json")


def _document(path: Path) -> dict[str, Any]:
    """A policy file: JSON if it is named so, else TOML."""
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise Stop(f"The policy {path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise Stop(f"The policy {path} cannot be read: {error}.") from error
    if not isinstance(document, dict):
        raise Stop(f"The policy {path} is no document with names and values.")
    return document
