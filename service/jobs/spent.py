"""What attempts held of the devices, and what that cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, CompoundSelect, literal, select, union_all
from sqlalchemy.orm import Session

from benchmarks.contracts import GPUS
from service import models
from service.database.session import found
from service.jobs.prices import price_at
from service.schemas.costs import Price, Spent

Kind = type[models.ComparisonRow | models.BisectionRow | models.FindingRow]


def spent(
    session: Session, prices: Sequence[Price], now: datetime, *jobs: ColumnElement[bool]
) -> Spent:
    """Sum up the attempts of some jobs, at the price of the day on which each began."""
    gpu_s = cpu_s = unpriced_s = usd = 0.0
    used: set[Price] = set()
    held = list(_held(session, now, *jobs))
    for granted_at, held_s, labels in held:
        if labels.get("device") != "cuda":
            cpu_s += held_s
            continue
        gpus = labels.get(GPUS, "")
        seconds = held_s * (int(gpus) if gpus.isdecimal() else 1)  # people may set any label
        gpu_s += seconds
        price = price_at(prices, labels.get("gpu", ""), granted_at)
        if price is None:
            unpriced_s += seconds
        else:
            used.add(price)
            usd += price.usd_per_hour * seconds / 3_600
    return Spent(
        attempts=len(held),
        gpu_s=gpu_s,
        cpu_s=cpu_s,
        usd=usd if used else None,
        unpriced_gpu_s=unpriced_s,
        prices=tuple(sorted(used, key=lambda one: (one.gpu, one.since))),
    )


def _held(
    session: Session, now: datetime, *jobs: ColumnElement[bool]
) -> Iterator[tuple[datetime, float, dict[str, str]]]:
    """When each attempt began, for how many seconds it held its worker, and that one's labels."""
    query = (
        select(models.Attempt.granted_at, models.Attempt.ended_at, models.WorkerRow.labels)
        .join(models.Job, models.Job.id == models.Attempt.job_id)
        .join(models.WorkerRow, models.WorkerRow.name == models.Attempt.worker)
        .where(*jobs)
    )
    for granted_at, ended_at, labels in session.execute(query):
        yield granted_at, max(0.0, ((ended_at or now) - granted_at).total_seconds()), labels


def spent_on(
    session: Session, kind: Kind, name: str, now: datetime, prices: Sequence[Price]
) -> Spent:  # fmt: skip
    """What a comparison took, a bisection, or a finding: measuring it again, and its bisections.

    Raises:
        NotFound: there is no such thing.
    """
    found(session, kind, name)
    which = {
        models.ComparisonRow: models.ComparisonRow.id == name,
        models.BisectionRow: models.ComparisonRow.source == f"{models.PROBES}{name}",
        models.FindingRow: models.ComparisonRow.source.in_(_sources(name)),
    }
    made = select(models.ComparisonJob.job_id).join(
        models.ComparisonRow, models.ComparisonRow.id == models.ComparisonJob.comparison_id
    )
    return spent(session, prices, now, models.Job.id.in_(made.where(which[kind])))


def _sources(finding_id: str) -> CompoundSelect[str]:
    """The sources of the comparisons that a finding led to."""
    link, row = models.FindingSeries, models.ConfirmationRow
    changes = select(link.change_id).where(link.finding_id == finding_id)
    firsts = select(link.first_bad_result).where(link.finding_id == finding_id)
    again = row.change_id.in_(changes) | row.first_bad_result.in_(firsts)
    bisected = select(literal(models.PROBES) + models.BisectionRow.id)
    return union_all(
        select(literal(models.CONFIRMATIONS) + row.id).where(again),
        bisected.where(models.BisectionRow.finding_id == finding_id),
    )
