"""Dockerfiles read as what they are: stages of instructions, not text to grep."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Dockerfile."""

    name: str
    rest: str

    @property
    def exec_form(self) -> list[str]:
        """The words of ``["a", "b"]``, after whatever options stand before the bracket."""
        words: list[str] = json.loads(self.rest[self.rest.index("[") :])
        return words


@dataclass(frozen=True)
class Stage:
    """A ``FROM`` with all that follows it."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def all(self, name: str) -> list[Instruction]:
        return [found for found in self.instructions if found.name == name]

    def last(self, name: str) -> Instruction:
        return self.all(name)[-1]

    def pairs(self, name: str) -> dict[str, str]:
        """What ``ENV`` or ``LABEL`` sets."""
        words = [word for found in self.all(name) for word in shlex.split(found.rest)]
        return dict(word.split("=", 1) for word in words)


@dataclass(frozen=True)
class Dockerfile:
    """A Dockerfile: the arguments before the first stage, and the stages by name."""

    arguments: dict[str, str]
    stages: dict[str, Stage]

    def lineage(self, name: str) -> list[Stage]:
        """The stage and all that it is built on within this file, the first one first."""
        stage = self.stages[name]
        before = self.lineage(stage.base) if stage.base in self.stages else []
        return [*before, stage]

    def whole(self, name: str) -> Stage:
        """What the image of a target holds, its ancestors' instructions included."""
        line = self.lineage(name)
        return Stage(name, line[0].base, tuple(i for stage in line for i in stage.instructions))


def _logical_lines(text: str) -> Iterator[str]:
    held = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        held += line.strip()
        if held.endswith("\\"):
            held = held[:-1]
            continue
        yield held
        held = ""


def parse_dockerfile(text: str) -> Dockerfile:
    """Read the subset of the Dockerfile language that ours uses."""
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    current: list[Instruction] = []
    for line in _logical_lines(text):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            base, word, stage = rest.split()
            assert word == "AS", "every stage has a name"
            current = []
            stages[stage] = Stage(stage, base, ())
        elif stages:
            current.append(Instruction(name, rest.strip()))
            last = [*stages][-1]
            stages[last] = Stage(last, stages[last].base, tuple(current))
        else:
            assert name == "ARG"
            key, _, value = rest.partition("=")
            arguments[key] = value
    return Dockerfile(arguments, stages)
