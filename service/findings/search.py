"""Finds findings, revisions, series and runs by the words in their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from urllib.parse import quote

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric
from service.findings import queries
from service.history.queries import name_of
from service.history.revisions import IN_HISTORY
from service.models import ResultRow, Revision, SeriesRow
from service.schemas.search import SearchHit
from service.wording import formats

NEWEST = 200
"""Findings whose sentences are looked through."""
SHARE = 3
"""So many kinds share an answer: none takes more than a third before the others had their turn."""
_ID = re.compile(r"[0-9a-f]{6,32}")


def search(session: Session, text: str, limit: int) -> list[SearchHit]:
    """Find every word of a text in names: findings, revisions, series, and a run by its id.

    Without words the newest findings and revisions. Upper and lower case are the same.
    """
    words = text.lower().split()
    each = -(-limit // SHARE)
    kinds = [
        list(islice(found, limit))
        for found in (
            _runs(session, text.strip()),
            _findings(session, words),
            _revisions(session, words, limit),
            _series(session, words, limit) if words else iter(()),
        )
    ]
    first = chain.from_iterable(found[:each] for found in kinds)
    rest = chain.from_iterable(found[each:] for found in kinds)
    return list(islice(chain(first, rest), limit))


def _findings(session: Session, words: list[str]) -> Iterator[SearchHit]:
    for one in queries.list_findings(session, limit=NEWEST).items:
        if all(word in f"{one.sentence} {one.owner} {one.id}".lower() for word in words):
            said = one.state.value.replace("_", " ")
            yield SearchHit(
                kind="finding", title=one.sentence, said=said, page=f"/findings/{one.id}"
            )


def _revisions(session: Session, words: list[str], limit: int) -> Iterator[SearchHit]:
    columns = (Revision.name, Revision.title, Revision.author)
    named = [or_(*(one.icontains(word, autoescape=True) for one in columns)) for word in words]
    query = select(Revision).where(IN_HISTORY, *named).order_by(Revision.ordered_at.desc())
    for row in session.scalars(query.limit(limit)):
        short = formats.revision(row.name)
        said = " ".join(filter(None, (short if row.title else "", row.author)))
        page = f"/revisions/{quote(row.name)}"
        yield SearchHit(kind="revision", title=row.title or short, said=said, page=page)


def _series(session: Session, words: list[str], limit: int) -> Iterator[SearchHit]:
    """Those of throughput first; a metric is also found by its title."""
    row = SeriesRow
    named = [
        or_(
            row.case_key.icontains(word, autoescape=True),
            row.metric.icontains(word, autoescape=True),
        )
        for word in words
    ]
    order = ((row.metric == "throughput").desc(), row.case_key, row.metric, row.id)
    for found in session.scalars(select(row).where(and_(*named)).order_by(*order).limit(limit)):
        series = name_of(found)
        told = (metric(series.metric).title, formats.hardware(series.comparability), series.project)
        said = " · ".join(filter(None, told))
        yield SearchHit(kind="series", title=found.case_key, said=said, page=f"/series/{series.id}")


def _runs(session: Session, text: str) -> Iterator[SearchHit]:
    """A run by the beginning of its id."""
    if not _ID.fullmatch(text):
        return
    row = ResultRow
    query = select(row.id, row.case_key, row.revision).where(row.id >= text, row.id < text + "g")
    for result_id, case_key, revision in session.execute(query.order_by(row.id).limit(SHARE)):
        said = f"at {formats.revision(revision)}"
        yield SearchHit(kind="run", title=case_key, said=said, page=f"/runs/{result_id}")
