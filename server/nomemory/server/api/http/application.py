"""The ASGI application, which serves the API methods and the static pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from nomemory.server.api.errors import to_fault
from nomemory.server.api.health import ServerHealth
from nomemory.server.api.http.call_endpoint import build_call_routes
from nomemory.server.api.http.health_page import build_health_route
from nomemory.server.api.http.http_rules import get_http_rule
from nomemory.server.api.http.metrics_page import MetricsPage
from nomemory.server.api.http.openapi import build_openapi_document
from nomemory.server.api.http.origin_check import build_origin_middleware
from nomemory.server.api.http.request_body import UnsupportedMediaTypeError
from nomemory.server.api.http.request_id import RequestIdMiddleware
from nomemory.server.api.http.request_rejecter import RequestRejecter
from nomemory.server.api.http.static_pages import build_explorer_routes, build_inspector_routes, make_constant_route
from nomemory.server.api.parsing import MAX_READ_BYTES
from nomemory.server.api.pipeline import Pipeline
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.structured_logs import get_logger

_METHOD_NOT_ALLOWED: Final = 405
_UNSUPPORTED_MEDIA_TYPE: Final = 415
_log = get_logger("http")


def build_api_application(
    pipeline: Pipeline, health: ServerHealth, settings: Settings, metrics: MetricsPage | None
) -> ASGIApp:
    """Return the application that serves the API, and the metrics unless `metrics` is None."""
    methods = {get_http_rule(method.descriptor): method.served.required for method in pipeline.methods.values()}
    routes: list[BaseRoute] = [build_health_route(health)]
    if metrics is not None:
        routes.append(metrics.route())
    if settings.server.reflection:
        document = orjson.dumps(build_openapi_document(methods))
        routes += [make_constant_route("/openapi.json", document, "application/json"), *build_explorer_routes()]
    if settings.http.inspector:
        routes += build_inspector_routes()
    write_bytes = settings.limits.max_request_bytes
    routes += build_call_routes(
        {rule: write_bytes if required.is_write else MAX_READ_BYTES for rule, required in methods.items()}, pipeline
    )
    rejecter = RequestRejecter(pipeline.meters)
    return build_application(routes, build_origin_middleware(settings, rejecter), rejecter)


def build_metrics_application(page: MetricsPage, settings: Settings, rejecter: RequestRejecter) -> ASGIApp:
    """Return the application of the separate metrics endpoint."""
    return build_application([page.route()], build_origin_middleware(settings, rejecter), rejecter)


def build_application(
    routes: Sequence[BaseRoute], middleware: Sequence[Middleware], rejecter: RequestRejecter
) -> ASGIApp:
    """Return an application that adds request ids to responses and sends errors as `google.rpc.Status`.

    Args:
        routes: the routes, whose patterns match percent-encoded paths.
        middleware: the middleware that runs before the routes.
        rejecter: creates the error responses.
    """
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={
            HTTPException: partial(_render_http_exception, rejecter),
            Fault: partial(_render_fault, rejecter),
            Exception: partial(_render_fault, rejecter),
        },
    )
    app.router.redirect_slashes = False
    return RequestIdMiddleware(RawPathMiddleware(app))


class RawPathMiddleware:
    """Middleware that makes routes match the percent-encoded path, in which `%2F` is part of an id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        await self._app({**scope, "path": scope["raw_path"].decode("ascii")}, receive, send)


async def _render_fault(rejecter: RequestRejecter, request: Request, error: Exception) -> Response:
    status = _UNSUPPORTED_MEDIA_TYPE if isinstance(error, UnsupportedMediaTypeError) else None
    return rejecter.reject(request.scope, to_fault(error, _log), status)


async def _render_http_exception(rejecter: RequestRejecter, request: Request, error: Exception) -> Response:
    """Return the error response for an unknown path or an unsupported HTTP method."""
    if isinstance(error, HTTPException) and error.status_code == _METHOD_NOT_ALLOWED:
        headers = error.headers or {}
        fault = Fault(
            Reason.ERROR_REASON_PATH_NOT_FOUND,
            f"unsupported HTTP method; this path supports {headers.get('Allow', 'other methods')}",
        )
        return rejecter.reject(request.scope, fault, _METHOD_NOT_ALLOWED, headers)
    return rejecter.reject(request.scope, Fault(Reason.ERROR_REASON_PATH_NOT_FOUND, "unknown path"))
