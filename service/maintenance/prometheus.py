"""The state of the service for Prometheus, read from the database at each scrape.

Nothing is counted in memory: all replicas answer alike, and one of them is enough to scrape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, JobState
from service import models
from service.findings import ACTIVE
from service.history.queries import newest_of
from service.jobs import workers
from service.outbox.deliveries import count_unrouted
from service.schemas.findings import FindingKind
from service.wording import formats

MOST_CLASSES = 20
"""Requirement classes with a line of their own; all others share one."""
MOST_SINKS = 20
MOST_LETTERS = 120
"""Of a label's value."""
OTHERS = "others"
_HELD = (AttemptState.GRANTED, AttemptState.STARTED)
_UNDELIVERED = (models.DeliveryState.WAITING, models.DeliveryState.DEAD)


class ServiceCollector(Collector):
    """Reads every metric in one session: what that session may not see is not counted.

    ``sinks`` are the names in the operator's file, ``pinned`` the ids of series with their value.
    """

    def __init__(
        self, session: Session, now: datetime, sinks: Sequence[str], pinned: Sequence[str]
    ) -> None:
        self._session = session
        self._now = now
        self._sinks = sinks[:MOST_SINKS]
        self._pinned = pinned

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Give the metrics; their names and labels are listed in docs/metrics.md."""
        yield from self._queue()
        yield from self._leases()
        yield from self._workers()
        yield from self._findings()
        yield from self._outbox()
        yield from self._series()

    def _queue(self) -> Iterator[GaugeMetricFamily]:
        waiting = _gauge(
            "jobs_waiting", "Jobs in the queue, by the labels they require", "requires"
        )
        oldest = _gauge(
            "jobs_oldest_waiting_seconds", "Age of the oldest job in the queue", "requires"
        )
        classes = self._classes()
        shown, others = classes[:MOST_CLASSES], classes[MOST_CLASSES:]
        if others:
            shown.append((OTHERS, sum(one[1] for one in others), max(one[2] for one in others)))
        for requires, count, age_s in shown:
            waiting.add_metric([requires], count)
            oldest.add_metric([requires], age_s)
        yield from (waiting, oldest)

    def _classes(self) -> list[tuple[str, int, float]]:
        """The requirement classes: labels, jobs that wait, age of the oldest; most jobs first."""
        job, labels = models.Job, models.LabelSet
        count = func.count(job.id).label("count")
        # Ids are ordered by time, and the index of the queue has them.
        waiting = select(job.requires, count, func.min(job.id).label("first"))
        of_class = waiting.where(job.state == JobState.QUEUED).group_by(job.requires).subquery()
        query = (
            select(of_class.c.count, labels.labels, job.created_at)
            .join(job, job.id == of_class.c.first)
            .join(labels, labels.digest == job.requires)
            .order_by(of_class.c.count.desc(), labels.digest)
        )
        return [
            (_labels(required), jobs, self._age_s(created_at))
            for jobs, required, created_at in self._session.execute(query)
        ]

    def _leases(self) -> Iterator[GaugeMetricFamily]:
        late = func.sum(case((models.Attempt.lease_expires_at < self._now, 1), else_=0))
        query = select(func.count(models.Attempt.job_id), late, func.min(models.Attempt.granted_at))
        held, expired, granted_at = self._session.execute(
            query.where(models.Attempt.state.in_(_HELD))
        ).one()
        yield _gauge("leases", "Jobs that workers hold", value=held)
        yield _gauge("leases_expired", "Leases over, not yet taken back", value=expired or 0)
        oldest_s = self._age_s(granted_at) if granted_at else 0.0
        yield _gauge("lease_oldest_seconds", "Age of the oldest lease", value=oldest_s)

    def _workers(self) -> Iterator[GaugeMetricFamily]:
        family = _gauge(
            "workers",
            "Workers of the last day: well; ill (an open finding, or warnings); away (unseen for a "
            "minute); drained",
            "state",
        )
        bad = select(models.FindingRow.worker).where(
            models.FindingRow.kind == FindingKind.BAD_NODE, models.FindingRow.state.in_(ACTIVE)
        )
        slow = set(self._session.scalars(bad))
        counts = dict.fromkeys(("well", "ill", "away", "drained"), 0)
        row = models.WorkerRow
        query = select(row.name, row.last_seen_at, row.warnings, row.drained_at)
        query = query.where(row.last_seen_at > self._now - workers.LATELY)
        for one in self._session.execute(query):
            if one.drained_at is not None:
                counts["drained"] += 1
            elif one.last_seen_at <= self._now - workers.PRESENT:
                counts["away"] += 1
            else:
                counts["ill" if one.warnings or one.name in slow else "well"] += 1
        for state, count in counts.items():
            family.add_metric([state], count)
        yield family

    def _findings(self) -> Iterator[GaugeMetricFamily]:
        family = _gauge("findings", "Findings that ask for attention", "state", "kind")
        row = models.FindingRow
        query = select(row.state, row.kind, func.count(row.id)).where(row.state.in_(ACTIVE))
        rows = self._session.execute(query.group_by(row.state, row.kind))
        counts = {(state, kind): count for state, kind, count in rows}
        for state in sorted(ACTIVE):
            for kind in FindingKind:
                family.add_metric([state, kind], counts.get((state, kind), 0))
        yield family

    def _outbox(self) -> Iterator[GaugeMetricFamily]:
        unrouted = count_unrouted(self._session, self._now)
        yield _gauge("outbox_unrouted", "Events not yet addressed to sinks", value=unrouted)
        waiting = _gauge("outbox_waiting", "Deliveries that were not made yet", "sink")
        lag = _gauge("outbox_lag_seconds", "Age of the oldest undelivered event", "sink")
        dead = _gauge("outbox_dead", "Deliveries that were given up", "sink")
        undelivered = self._undelivered()
        for sink in self._sinks:
            count, age_s = undelivered.get((sink, models.DeliveryState.WAITING), (0, 0.0))
            waiting.add_metric([sink], count)
            lag.add_metric([sink], age_s)
            dead.add_metric([sink], undelivered.get((sink, models.DeliveryState.DEAD), (0, 0.0))[0])
        yield from (waiting, lag, dead)

    def _undelivered(self) -> Mapping[tuple[str, str], tuple[int, float]]:
        """Deliveries that are not made, and the age of the oldest event, by sink and state."""
        row = models.DeliveryRow
        first = func.min(row.event_id).label("first")  # ids of events are ordered by time too
        of_sink = (
            select(row.sink, row.state, func.count(row.id).label("count"), first)
            .where(row.sink.in_(self._sinks), row.state.in_(_UNDELIVERED))
            .group_by(row.sink, row.state)
            .subquery()
        )
        query = select(
            of_sink.c.sink, of_sink.c.state, of_sink.c.count, models.OutboxEvent.at
        ).join(models.OutboxEvent, models.OutboxEvent.id == of_sink.c.first)
        return {
            (sink, state): (count, self._age_s(at))
            for sink, state, count, at in self._session.execute(query)
        }

    def _series(self) -> Iterator[GaugeMetricFamily]:
        named = ("series", "case", "metric", "unit", "hardware", "project")
        value = _gauge("series_value", "Newest value of a pinned series, in base units", *named)
        measured = _gauge(
            "series_measured_timestamp_seconds", "When that value was measured", "series"
        )
        for one in newest_of(self._session, self._pinned):
            if one.points:
                hardware = formats.hardware(one.comparability)
                labels = (one.id, one.case.key, one.metric, one.unit, hardware, one.project)
                value.add_metric([_bounded(label) for label in labels], one.points[-1].value)
                measured.add_metric([one.id], one.points[-1].measured_at.timestamp())
        yield from (value, measured)

    def _age_s(self, then: datetime) -> float:
        return max((self._now - then) / timedelta(seconds=1), 0.0)


def _gauge(
    name: str, documentation: str, *labels: str, value: float | None = None
) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"throughline_{name}", documentation, value, labels or None)


def _labels(requires: Mapping[str, str]) -> str:
    return (
        _bounded(",".join(f"{name}={value}" for name, value in sorted(requires.items()))) or "any"
    )


def _bounded(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"
