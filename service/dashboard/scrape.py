"""The address that Prometheus reads, where it looks for it: outside ``/api``."""

from __future__ import annotations

from fastapi import Request, Response
from prometheus_client.exposition import choose_encoder

from service.api.dependencies import DatabaseSession, Now
from service.auth.permissions import Permission
from service.dashboard.rendering import page_router
from service.maintenance.prometheus import ServiceCollector
from service.settings import Settings

router = page_router()


@router.get("/metrics")
@Permission.READ.required
def scrape(request: Request, session: DatabaseSession, now: Now) -> Response:
    """Give the state of the service as Prometheus reads it."""
    settings: Settings = request.app.state.settings
    sinks = [sink.name for sink in request.app.state.sinks.sink]
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    collector = ServiceCollector(session, now, sinks, settings.pinned_series)
    return Response(encode(collector), headers={"Content-Type": media_type})
