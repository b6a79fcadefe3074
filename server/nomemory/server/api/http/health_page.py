"""The health check endpoint `/healthz`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nomemory.server.api.health import ServerHealth
from nomemory.server.api.http.json_reply import JsonReply


def build_health_route(health: ServerHealth) -> Route:
    """Return the route of the health check, which responds with 200 while the server is serving, otherwise with 503."""

    async def report_health(_request: Request) -> Response:
        if health.is_serving:
            return JsonReply({"status": "SERVING"})
        return JsonReply({"status": "NOT_SERVING"}, 503)

    return Route("/healthz", report_health)
