"""The policy of a gate: a strictly checked document that says for each case what passes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from benchmarks.contracts import Contract, Name

THROUGHPUT = "throughput"
IN_TURN = frozenset({THROUGHPUT, "step_time", "peak_memory", "cycles"})
"""Metrics that a duet tells as well as a process with the device to itself."""


def _share(value: object) -> object:
    """Read ``2%`` as 0.02; a plain number is a share already."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100
        except ValueError:
            return value
    return value


Share = Annotated[FiniteFloat, Field(ge=0, lt=1), BeforeValidator(_share)]
"""A share of the baseline's value: ``0.02`` or ``"2%"``."""
SomeShare = Annotated[FiniteFloat, Field(gt=0, lt=1), BeforeValidator(_share)]
Pattern = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A shell pattern over a case's key, such as ``resnet50:* *precision=bf16*``; no expression."""


class Limit(Contract):
    """The limit to how much worse one metric may get."""

    metric: Name = THROUGHPUT
    max_regression: Share = 0.0
    """A change for the worse that is surely larger than this is a regression."""
    margin: SomeShare = 0.01
    """What is surely less than this (or than ``max_regression``, if that is larger) is the same."""

    @property
    def allowed(self) -> float:
        """The share that a change for the worse must surely stay below to pass."""
        return max(self.max_regression, self.margin)


class Trade(Contract):
    """A larger change for the worse is allowed where another metric surely gets better."""

    metric: Name = THROUGHPUT
    max_regression: SomeShare
    if_metric: Name
    if_better: SomeShare
    """By at least this share of its baseline: ``20%`` less memory, ``20%`` more throughput."""


class Rule(Contract):
    """The limits and trades for the cases that a pattern names."""

    cases: Pattern = "*"
    limits: Annotated[tuple[Limit, ...], Field(min_length=1, max_length=10)] = (Limit(),)
    """Each must hold; the first metric is the one that the case's answer is about."""
    trades: Annotated[tuple[Trade, ...], Field(max_length=10)] = ()

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        metrics = [limit.metric for limit in self.limits]
        if len(set(metrics)) != len(metrics):
            raise ValueError("a rule has two limits for the same metric; keep one")
        for trade in self.trades:
            if trade.metric not in metrics:
                raise ValueError("a trade loosens a metric that its rule does not limit")
            if trade.if_metric == trade.metric:
                raise ValueError("a trade weighs a metric against itself; name another one")
        return self

    def fits(self, case_key: str) -> bool:
        """Return True if the rule's pattern names the case of this key."""
        return fnmatchcase(case_key, self.cases)


class Policy(Contract):
    """The rules by which a gate passes, and how sure it has to be.

    The first rule whose pattern fits a case decides it; a case that no rule names gets the default
    rule, which is no confirmed slowdown.
    """

    version: Literal[1] = 1
    rules: Annotated[tuple[Rule, ...], Field(max_length=100)] = ()
    false_alarm: Annotated[FiniteFloat, Field(strict=True, gt=0, le=0.2)] = 0.01
    """Probability that a gate of two equal revisions finds any difference, all cases and all looks
    together; half of it, a false regression."""
    false_pass: Annotated[FiniteFloat, Field(strict=True, gt=0, le=0.2)] = 0.05
    """Probability that a case passes whose change is not within what is allowed."""
    min_pairs: Annotated[int, Field(strict=True, ge=3, le=25)] = 3
    max_pairs: Annotated[int, Field(strict=True, ge=3, le=25)] = 12

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_pairs > self.max_pairs:
            raise ValueError("min_pairs is larger than max_pairs")
        return self

    def rule_of(self, case_key: str) -> Rule:
        """The rule that decides the case of this key."""
        return next((rule for rule in self.rules if rule.fits(case_key)), DEFAULT_RULE)

    def in_turn(self, case_key: str) -> bool:
        """Return True if a duet can decide the case of this key.

        A batch that is searched needs the memory that the other side would hold.
        """
        rule = self.rule_of(case_key)
        asked = {limit.metric for limit in rule.limits} | {one.if_metric for one in rule.trades}
        return asked <= IN_TURN and _SEARCHES.isdisjoint(case_key.split())


DEFAULT_RULE = Rule()
_SEARCHES = frozenset({"batch=auto", "batch=fastest"})
