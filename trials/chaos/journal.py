"""What clients were answered, written down line by line, and compared with the database."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.database.session import Database
from service.maintenance.verify import verify
from service.models import Attempt, Job, ResultRow


class Journal:
    """A file that only grows: each line is one write, so that a killed process leaves whole lines.

    ``note`` returns once the kernel has it; a killed process loses nothing of that.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, kind: str, **fields: object) -> None:
        os.write(self._file, json.dumps({"kind": kind, **fields}).encode() + b"\n")


def digest_of(body: bytes) -> str:
    """The digest that the service gives to a posted result."""
    return hashlib.sha256(orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS)).hexdigest()


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Every line of every journal in ``folder``."""
    for path in sorted(folder.glob("*.journal")):
        for line in path.read_bytes().splitlines():
            yield json.loads(line)


@dataclass(frozen=True)
class Checked:
    """How often each thing was answered, and every sentence that the database does not bear out."""

    answered: Counter[str]
    violations: list[str]


def check(database: Database, folder: Path) -> Checked:
    """Compare every answer with the database, and check its promises."""
    answered: Counter[str] = Counter()
    violations: list[str] = []
    with database.reading() as session:
        stored = _Stored.of(session)
    for line in read(folder):
        answered[line["kind"]] += 1
        wrong = stored.contradicts(line)
        if wrong:
            violations.append(f"{wrong} {line}")
    report = verify(database)
    violations += [f"promise {f.number}: {f.sentence}" for f in report.findings if f.breaches]
    violations += report.warnings
    return Checked(answered, violations)


@dataclass(frozen=True)
class _Stored:
    jobs: frozenset[str]
    attempts: dict[tuple[str, int], tuple[str, str]]
    results: dict[tuple[str, int, str], bool]

    @classmethod
    def of(cls, session: Session) -> _Stored:
        attempts = select(Attempt.job_id, Attempt.number, Attempt.secret, Attempt.worker)
        counted = ResultRow.counted
        results = select(ResultRow.job_id, ResultRow.attempt, ResultRow.digest, counted)
        return cls(
            frozenset(session.scalars(select(Job.id))),
            {(j, n): (secret, worker) for j, n, secret, worker in session.execute(attempts)},
            {(j, n, digest): counted for j, n, digest, counted in session.execute(results)},
        )

    def contradicts(self, line: dict[str, Any]) -> str:
        """Why ``line`` cannot be true; empty if it can."""
        match line["kind"]:
            case "submitted":
                missing = set(line["jobs"]) - self.jobs
                return f"{len(missing)} answered jobs are missing:" if missing else ""
            case "leased":
                leased = self.attempts.get((line["job"], line["attempt"]))
                good = leased == (line["secret"], line["worker"])
                return "" if good else "An answered lease is missing:"
            case "finished" | "counted" | "kept":
                counted = self.results.get((line["job"], line["attempt"], line["digest"]))
                if counted is None:
                    return "A result is missing:"
                expected = {"counted": True, "kept": False}.get(line["kind"], counted)
                return "" if counted is expected else "A result counts otherwise than was answered:"
            case "refused":
                return "A result was refused:"
        return ""
