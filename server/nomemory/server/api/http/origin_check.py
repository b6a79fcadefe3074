"""Checks of the Origin and Host headers.

A browser on a trusted machine can load pages of untrusted sites. Pages of other origins can call the server only if
the settings allow their origin. An untrusted site can also make its own host name resolve to this machine (DNS
rebinding). Therefore a server without credentials accepts only IP addresses and `localhost` as host names.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from nomemory.server.api.http.request_rejecter import RequestRejecter
from nomemory.server.api.identity.factory import requires_credentials
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.settings import Settings

_REQUEST_HEADERS: Final = (
    "authorization", "content-type", "traceparent", "tracestate",
    "x-api-key", "x-request-id", "x-timeout-ms", "x-user-id", "x-user-id-bin",
)  # fmt: skip
_PREFLIGHT_MAX_AGE_S: Final = 600


class OriginCheck:
    """Middleware that rejects requests from origins and for host names that are not allowed.

    Args:
        origins: the allowed origins; `*` allows all origins.
        any_host: whether the server accepts all host names.
    """

    def __init__(self, app: ASGIApp, rejecter: RequestRejecter, origins: frozenset[str], *, any_host: bool) -> None:
        self._app = app
        self._rejecter = rejecter
        self._origins = origins
        self._any_host = any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process a request."""
        headers = Headers(scope=scope)
        problem = self._find_problem(headers.get("host", ""), headers.get("origin", ""))
        if problem:
            fault = Fault(Reason.ERROR_REASON_ORIGIN_NOT_ALLOWED, problem)
            await self._rejecter.reject(scope, fault)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _find_problem(self, host: str, origin: str) -> str:
        if not self._any_host and not _is_local_name(host):
            return "a server without credentials accepts only IP addresses and localhost as host names"
        if origin and not self._origins & {origin, "*"} and origin.partition("://")[2] != host:
            return "origin not allowed: add the origin to NOMEMORY_HTTP_CORS_ORIGINS"
        return ""


def build_origin_middleware(settings: Settings, rejecter: RequestRejecter) -> list[Middleware]:
    """Return the origin check, followed by the CORS middleware if the settings allow origins."""
    origins = frozenset(settings.http.cors_origins.split())
    cors = Middleware(
        CORSMiddleware,
        allow_origins=sorted(origins),
        allow_methods=("GET", "POST", "PUT", "PATCH", "DELETE"),
        allow_headers=_REQUEST_HEADERS,
        expose_headers=("x-request-id", "retry-after"),
        max_age=_PREFLIGHT_MAX_AGE_S,
    )
    any_host = requires_credentials(settings)
    check = Middleware(OriginCheck, rejecter=rejecter, origins=origins, any_host=any_host)
    return [check, cors] if origins else [check]


def _is_local_name(host: str) -> bool:
    """Return whether a Host header is an IP address or `localhost`, with or without a port."""
    name, _, port = host.rpartition(":")
    name = name if name and port.isdecimal() else host
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return name.lower() == "localhost"
    return True
