"""The route that Prometheus reads. It lies outside ``/api/v1``, where Prometheus looks for it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder

from service.api.dependencies import DatabaseSession, Now
from service.auth.permissions import Permission, needs
from service.http.strict_route import StrictRoute
from service.maintenance.prometheus import ServiceCollector
from service.settings import Settings

router = APIRouter(include_in_schema=False, route_class=StrictRoute)


@router.get("/metrics")
@needs(Permission.READ)
def scrape(request: Request, session: DatabaseSession, now: Now) -> Response:
    """Give the state of the service as Prometheus reads it."""
    settings: Settings = request.app.state.settings
    sinks = [sink.name for sink in request.app.state.sinks.sink]
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    collector = ServiceCollector(session, now, sinks, settings.pinned_series)
    return Response(encode(collector), headers={"Content-Type": media_type})
