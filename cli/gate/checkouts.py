"""Compares two checkouts by a command that measures: pair by pair, with the gate's own decision."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean

from benchmarks.contracts import line
from cli.foreign_command import CommandFailed, ForeignCommand, Key
from cli.output.lines import remark
from cli.revision import checked_out
from service.analysis import gate
from service.schemas.gate import DecisionView, Side
from service.schemas.measured_elsewhere import ForeignPoint
from service.schemas.policy import Policy
from service.wording.statements import decision_of

ProcessRun = Mapping[Key, ForeignPoint] | str
"""The points of a process, or why it gave none."""
PairRun = Mapping[Side, ProcessRun]
FOLDERS = (Side.BASELINE, Side.CONTENDER)


@dataclass
class Checkouts:
    """Two checkouts, and what was measured in them so far."""

    command: ForeignCommand
    baseline: Path
    contender: Path
    max_regression: float
    margin: float
    runs: list[PairRun] = field(default_factory=list)

    def decide(self, budget_s: float) -> DecisionView:
        """Measure pairs until every benchmark is decided or the budget is spent.

        Raises:
            CommandFailed: the command fails in both folders before it has measured anything.
        """
        from_s = time.monotonic()
        while True:
            began_s = time.monotonic()
            self.runs.append(self._pair(len(self.runs)))
            self._check_measures()
            records, policy = self._records(), self._policy()
            cases = gate.decide_cases(records, policy)
            going_on = sum(not case.settled for case in cases)
            remark(f"Pair {len(self.runs)}: {going_on} of {len(cases)} benchmarks go on.")
            now_s = time.monotonic()
            if not going_on or now_s - from_s + (now_s - began_s) > budget_s:
                decision = gate.decide(records, policy, self.revisions, last=True)
                return decision_of(decision.model_dump(mode="json"))

    @cached_property
    def revisions(self) -> tuple[str, str]:
        """The commits that the folders have checked out; the path of one that is no checkout."""
        both = (self.baseline, self.contender)
        named = [checked_out(folder) for folder in both]
        baseline, contender = (
            version.revision if version else str(folder)
            for version, folder in zip(named, both, strict=True)
        )
        if baseline == contender and baseline.endswith("+dirty"):
            return str(self.baseline), str(self.contender)
        return baseline, contender

    def _pair(self, number: int) -> PairRun:
        """Run the command in both folders; the first one of a pair takes turns."""
        order = FOLDERS if number % 2 == 0 else FOLDERS[::-1]
        return {side: self._process(getattr(self, side.value)) for side in order}

    def _process(self, folder: Path) -> ProcessRun:
        try:
            return self.command.by_key(folder)
        except CommandFailed as failed:
            remark(failed.sentence)
            return line(failed.sentence)

    def _check_measures(self) -> None:
        said = [one for run in self.runs for one in run.values() if isinstance(one, str)]
        if len(said) == 2 * len(self.runs):
            raise CommandFailed("The command fails in both folders: nothing can be compared.")

    def _keys(self) -> list[Key]:
        """The benchmarks of the baseline; all of the contender where the baseline never has any."""
        return self._of(Side.BASELINE) or self._of(Side.CONTENDER)

    @property
    def added(self) -> list[str]:
        """The benchmarks that only the contender has: there is nothing to compare them with."""
        known = set(self._keys())
        return [case_key(key) for key in self._of(Side.CONTENDER) if key not in known]

    def _of(self, side: Side) -> list[Key]:
        measured = (run[side] for run in self.runs)
        return list(
            dict.fromkeys(key for one in measured if not isinstance(one, str) for key in one)
        )

    def _records(self) -> list[gate.CaseRecord]:
        one_revision = len(set(self.revisions)) == 1
        return [
            gate.CaseRecord(
                case_key=case_key(key),
                one_revision=one_revision,
                pairs=tuple(
                    gate.Pair(
                        baseline=self._measured(run, key, Side.BASELINE),
                        contender=self._measured(run, key, Side.CONTENDER),
                    )
                    for run in self.runs
                ),
            )
            for key in self._keys()
        ]

    def _measured(self, run: PairRun, key: Key, side: Side) -> gate.Measured:
        software, process = f"{side.value} {self.revisions[FOLDERS.index(side)]}", run[side]
        point = None if isinstance(process, str) else process.get(key)
        if point is None:
            reason = process if isinstance(process, str) else "It was not measured."
            return gate.Measured(trouble=gate.Trouble.FAILED, reason=reason, software=software)
        metric = gate.Metric(value=fmean(point.values), unit=point.unit, direction=point.direction)
        return gate.Measured(
            case_key=case_key(key), metrics={metric_name(key): metric}, software=software
        )

    def _policy(self) -> Policy:
        """A rule for each metric; every benchmark is held to its own."""
        names = sorted({metric_name(key) for key in self._keys()})
        limit = {"max_regression": self.max_regression, "margin": self.margin}
        rules = ({"cases": f"*[[]{n}]", "limits": ({"metric": n, **limit},)} for n in names)
        return Policy.model_validate({"rules": tuple(rules)})


def case_key(key: Key) -> str:
    """One line that names a benchmark, its parameters and its metric."""
    benchmark, parameters, _ = key
    settings = "".join(f" {name}={value}" for name, value in parameters)
    return f"{benchmark}{settings} [{metric_name(key)}]"


def metric_name(key: Key) -> str:
    """A metric's name in the form that a policy takes."""
    return re.sub(r"[^a-z0-9_.-]+", "_", key[2].lower()).lstrip("_.-")[:64] or "value"
