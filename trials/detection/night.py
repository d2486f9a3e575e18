"""Processor time of judging one night: 129 jobs of twelve metrics, in histories of 60 points.

    PYTHONPATH=.:tests python -m trials.detection.night [--profile]

Some jobs are judged by ``service.findings.pipeline.look`` on a SQLite file; the
figures are scaled to all. Noise is 0.3 %; every fifth series has a step of 2 % at its middle.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from builders import long_series as long
from sqlalchemy import insert, select

from benchmarks.contracts import Case
from service.database import migrate
from service.database.session import Database
from service.findings import pipeline
from service.models import SeriesRow

JOBS, METRICS, POINTS = 129, 12, 60
SOME = 20
"""Jobs that are judged."""
NOISE, STEP = 0.003, 0.02


def main() -> None:
    """Make the histories, judge their newest night, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'night.db'}"
        migrate.upgrade(url)
        database = Database(url)
        prepared(database)
        add(database, range(POINTS - 1))
        pipeline.look(database, daily=0)
        add(database, range(POINTS - 1, POINTS))
        profile = cProfile.Profile()
        if arguments.profile:
            profile.enable()
        wall, processor = time.perf_counter(), time.process_time()
        looked = pipeline.look(database, daily=0)
        profile.disable()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        database.close()
    scale = JOBS / SOME
    print(f"{looked.notes} results judged; a night takes {scale * processor:.1f} s of processor")
    each = 1e3 * processor / SOME / METRICS
    print(f"time and {scale * wall:.1f} s in one thread; {each:.2f} ms a series")
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")
    if arguments.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)


def series_of(job: int, metric: int) -> str:
    """The id of one series."""
    return f"{1000 * job + metric:032x}"


def prepared(database: Database) -> None:
    """The series of all jobs, without points."""
    long.CASES.clear()
    for job in range(SOME):
        axes = {"batch": str(8 + job)}
        long.CASES[series_of(job, 0)] = Case(workload="resnet50", preset="full", axes=axes)
    long.CASES[long.SERIES] = Case(workload="resnet50", preset="full")
    with database.writing() as session:
        long.prepare(session)
        first = session.scalars(select(SeriesRow).where(SeriesRow.id != long.SERIES)).all()
        rows = [
            {
                "id": f"{int(one.id, 16) + metric:032x}", "case_key": one.case_key,
                "case": one.case, "metric": f"metric_{metric}", "unit": one.unit,
                "direction": one.direction, "comparability": one.comparability,
                "created_at": one.created_at,
            }
            for one in first
            for metric in range(1, METRICS)
        ]  # fmt: skip
        session.execute(insert(SeriesRow), rows)


def add(database: Database, nights: range) -> None:
    """Points of all series at these nights."""
    with database.writing() as session:
        for job in range(SOME):
            for metric in range(METRICS):
                series = series_of(job, metric)
                values = history(job, metric)
                if not metric:
                    some = {night: values[night] for night in nights}
                    long.add(session, some, series_id=series, place=job)
                    continue
                for night in nights:
                    long.add_point(session, night, values[night], series, place=job)


def history(job: int, metric: int) -> list[float]:
    """The values of one series."""
    rng = np.random.default_rng((job, metric))
    level = STEP * (job % 5 == 0) * (np.arange(POINTS) >= POINTS // 2)
    values: list[float] = (100.0 * np.exp(level + rng.normal(0.0, NOISE, POINTS))).tolist()
    return values


if __name__ == "__main__":
    main()
