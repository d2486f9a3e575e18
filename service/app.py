"""Puts the service together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import anyio.to_thread
from fastapi import FastAPI

from benchmarks.artifact_kinds import ArtifactKind
from benchmarks.version import installed
from service.api.openapi import DescribedApi
from service.api.routes import ROUTES
from service.auth.authenticate import Authenticator
from service.dashboard import (
    badges,
    bisection_pages,
    comparison_pages,
    explore_pages,
    finding_pages,
    kernels,
    live_stream,
    matrix_pages,
    modules,
    night_pages,
    outbox_pages,
    pages,
    revision_pages,
    scrape,
    search_pages,
    series_pages,
    sign_in,
    target_pages,
    token_pages,
    worker_pages,
)
from service.dashboard.live_stream import LiveStreams
from service.database.health import Checkup
from service.database.session import Database
from service.findings.nights import announce
from service.history.artifacts import store_of
from service.http import exchange, problems, strict_route
from service.http.server import affordable
from service.jobs import prices
from service.jobs.types import Terms
from service.maintenance.artifact_cleanup import ArtifactCleanup
from service.maintenance.background import AnalysisProcess, Background, Unasked
from service.outbox import sinks
from service.settings import Settings


class Application(exchange.BoundedExchanges, DescribedApi):
    """The service as an ASGI application: described, its requests and answers bounded."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """Make the application for one replica; without ``settings`` the environment's.

    Raises:
        SinksWrong: the file of the outbox cannot be used.
        PricesWrong: nor that of prices.
        DatabaseUnavailable: the database's address is not understood. Whether it can be reached
            is told by ``GET /api/v1/health``.
    """
    settings = settings or Settings()
    app = Application(
        title="Throughline",
        summary="Measures how fast PyTorch trains, keeps the history, and says what changed.",
        version=installed(),
        lifespan=_lifespan,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # its page would load from a public host
        redoc_url=None,
        redirect_slashes=False,  # one address for each thing; none is made from the Host header
    )
    app.state.settings = settings
    app.state.database = Database(settings.url, settings.threads)
    app.state.checkup = Checkup(app.state.database)
    app.state.live = LiveStreams(app.state.database, affordable(settings.connections) // 4)
    app.state.terms = terms_of(settings)
    app.state.artifacts = store_of(settings)
    app.state.sinks = sinks.NOBODY if settings.outbox is None else sinks.load(settings.outbox)
    app.state.prices = () if settings.prices is None else prices.load(settings.prices)
    starts_analysis = settings.background and settings.role == "all"
    app.state.analysis = AnalysisProcess(settings) if starts_analysis else None
    kept = (settings.bodies_limit_b, settings.answers_limit_b)
    app.bound(exchange.Limits(*kept, body_s=settings.body_timeout_s))
    problems.install(app)
    app.router.routes.extend(ROUTES)
    for shown in (
        *(pages, series_pages, finding_pages, comparison_pages, bisection_pages, modules, kernels),
        *(night_pages, explore_pages, outbox_pages, matrix_pages, revision_pages, search_pages),
        target_pages,
        token_pages,
        worker_pages,
        badges,
        scrape,
        sign_in,
        live_stream,
    ):
        app.router.routes.extend(shown.router.routes)
    pages.mount(app)
    app.state.permissions = strict_route.declared(app.routes)
    app.state.authenticator = Authenticator(app.state.database, settings)
    return app


def terms_of(settings: Settings) -> Terms:
    """For how long this service leases, and how often an attempt may be lost."""
    return Terms(
        lease=timedelta(seconds=settings.lease_s),
        heartbeat=timedelta(seconds=settings.heartbeat_s),
        max_lost_attempts=settings.max_lost_attempts,
        patience=timedelta(seconds=settings.patience_s),
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    # One thread for every session that may be open, and some for what needs no database.
    tokens = 2 * settings.threads + 4
    anyio.to_thread.current_default_thread_limiter().total_tokens = tokens
    unasked = Unasked(settings.bisections, settings.backfill)
    days = {ArtifactKind.TRACE: settings.traces_days, ArtifactKind.LOG: settings.logs_days}
    kept = {kind: timedelta(days=count) for kind, count in days.items() if count}
    background = Background(
        app.state.database,
        app.state.terms,
        settings.sweep_s,
        app.state.analysis,
        unasked,
        app.state.sinks,
        chores=[
            partial(announce.announce, app.state.database, app.state.prices),
            ArtifactCleanup(app.state.database, app.state.artifacts, kept).look,
        ],
    )
    if settings.background:
        background.start()
    try:
        yield
    finally:
        if settings.background:
            await anyio.to_thread.run_sync(background.stop)
        app.state.database.close()
