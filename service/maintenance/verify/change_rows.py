"""Checks the changes of series: each is at a point, and those shown are those computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session, aliased

from service.analysis.detection.change import ChangePoint
from service.analysis.detection.windows import joined
from service.maintenance.verify.agreement import ROWS
from service.maintenance.verify.values import Breach
from service.models import (
    AnalysisRow,
    ChangeRow,
    ConfirmationRow,
    FindingSeries,
    Point,
    SettledWindow,
)


def every_change(session: Session) -> Iterator[Breach]:
    """11: a change is at points of its series, and what refers to it is about that series."""
    first, last = aliased(Point), aliased(Point)
    at_first = and_(
        first.series_id == ChangeRow.series_id,
        first.result_id == ChangeRow.first_bad_result,
        first.revision == ChangeRow.first_bad,
        first.revision_at == ChangeRow.first_bad_at,
    )
    at_last = and_(last.series_id == ChangeRow.series_id, last.revision == ChangeRow.last_good)
    misplaced = or_(~select(first).where(at_first).exists(), ~select(last).where(at_last).exists())
    for name in session.scalars(select(ChangeRow.id).where(misplaced)):
        yield Breach(ROWS, f"change {name}", "It is at no point of its series.")
    for model in (FindingSeries, ConfirmationRow):
        about = select(ChangeRow.id).join(model, model.change_id == ChangeRow.id)
        for name in session.scalars(about.where(model.series_id != ChangeRow.series_id)):
            yield Breach(ROWS, f"change {name}", f"{model.__tablename__} has it in another series.")


def shown_changes(session: Session) -> Iterator[Breach]:
    """11: the changes of a series that are shown are those of its analysis."""
    shown: dict[str, dict[str, dict[str, Any]]] = {}
    for change in session.scalars(select(ChangeRow).where(ChangeRow.present)):
        shown.setdefault(change.series_id, {})[change.id] = change.estimate
    for row in session.scalars(select(AnalysisRow)):
        settled = select(SettledWindow.changes).where(SettledWindow.series_id == row.series_id)
        windows = (*session.scalars(settled.order_by(SettledWindow.number)), row.newest)
        points = joined([tuple(ChangePoint(**fields) for fields in window) for window in windows])
        computed = Counter(_sizes(asdict(point)) for point in points)
        for name, estimate in shown.pop(row.series_id, {}).items():
            if not computed[_sizes(estimate)]:
                yield Breach(ROWS, f"change {name}", "The analysis of its series has no such one.")
            computed[_sizes(estimate)] -= 1
        if +computed:
            yield Breach(ROWS, f"series {row.series_id}", "A change of its analysis is not shown.")
    for name in (name for changes in shown.values() for name in changes):
        yield Breach(ROWS, f"change {name}", "Its series has no analysis.")


def _sizes(estimate: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(estimate.get(name) for name in ("effect", "before", "after", "evidence"))
