"""Chooses the threshold of a series: from which size on its changes are reported. Pure.

By default that is what the noise allows, and at least `LEAST_EFFECT`. A team may say otherwise of a
project, a workload, a metric or a series, and of what several of them have in common. The rule that
is nearest to the reader of the finding wins: that of the series itself; else the rule of a project
before one of all projects, because its people read the finding; else the rule of a workload before
one of all workloads; else the rule of a metric. Two rules never tie, because a scope has one rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from service.analysis.contrast import LEAST_EFFECT
from service.schemas.series import SeriesName
from service.schemas.thresholds import ThresholdView

NEVER = math.inf
"""No change is as large."""


def threshold_of(rules: Iterable[ThresholdView], series: SeriesName) -> ThresholdView | None:
    """Return the rule that decides for a series; None if none is about it."""
    return max((rule for rule in rules if covers(rule, series)), key=_nearness, default=None)


def least_effect(rule: ThresholdView | None) -> float:
    """Return the smallest change that a rule, or the default, has reported: a share, or `NEVER`."""
    if rule is None:
        return LEAST_EFFECT
    return NEVER if rule.least_effect == "never" else rule.least_effect


def covers(rule: ThresholdView, series: SeriesName) -> bool:
    """Return True if a series is in the scope of a rule."""
    if rule.series_id is not None:
        return rule.series_id == series.id
    scope = (rule.project, series.project), (rule.workload, series.case.workload)
    return all(wanted in (None, own) for wanted, own in (*scope, (rule.metric, series.metric)))


def _nearness(rule: ThresholdView) -> tuple[bool, ...]:
    scope = (rule.series_id, rule.project, rule.workload, rule.metric)
    return tuple(part is not None for part in scope)
