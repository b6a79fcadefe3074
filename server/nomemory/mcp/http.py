"""MCP server over streamable HTTP. The credentials of each request are forwarded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

import grpc
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from nomemory.client.errors import NoMemoryError
from nomemory.mcp.backend import Backend
from nomemory.mcp.credentials import BoundCaller, Credential, UserNotNamedError
from nomemory.mcp.oauth import ChallengeHeaders, ProtectedResource
from nomemory.mcp.server import Context, MemoryServer

PATH: Final = "/mcp"
USER: Final = "x-user-id"
_OWN_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
REQUEST_BYTES: Final = 1_000_000
_STATUS: Final = {
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
}
_UNAVAILABLE: Final = 503
_BAD_REQUEST: Final = 400
_FORBIDDEN: Final = 403
_PUBLIC_PREFIX: Final = "/.well-known/"
"""Prefix of the paths that require no credentials. They serve only metadata."""


_NO_SCOPE: Final = "the credentials permit no tool: they need the scope query or recall"


class _HeaderError(Exception):
    """Raised if an authentication header is invalid."""


def read_credential(headers: Headers) -> Credential:
    """Return the credentials and the user id of a request.

    Raises:
        _HeaderError: a header is repeated or cannot be decoded.
    """
    authorization = _read_single_header(headers, "authorization")
    if not authorization.isascii() or not authorization.isprintable():
        raise _HeaderError("the Authorization header must be printable ASCII: check the token")
    return Credential(
        (("authorization", authorization),) if authorization else (), _read_single_header(headers, USER) or None
    )


def _read_single_header(headers: Headers, name: str) -> str:
    """Return a header decoded as UTF-8; empty if it is missing."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise _HeaderError(f"the header {name} must not be repeated")
    try:
        return values[0].encode("latin-1").decode() if values else ""
    except UnicodeDecodeError:
        raise _HeaderError(f"the header {name} is not UTF-8") from None


@asynccontextmanager
async def running_application(
    backend: Backend, *, on_loopback: bool, forget: bool = True, resource: ProtectedResource | None = None
) -> AsyncIterator[ASGIApp]:
    """Run the MCP endpoint at `/mcp` with authentication.

    Args:
        backend: makes the API calls of the tools.
        on_loopback: whether the endpoint listens on a loopback address. On a loopback address, Host and Origin headers
            are checked to prevent DNS rebinding, because the server may require no credentials.
        forget: whether to offer the tool `forget`.
        resource: the OAuth metadata to publish; None publishes no metadata. The host of its URL is also accepted in
            Host headers, because a proxy may forward that host.
    """
    protocol = MemoryServer(backend, _get_bound_caller, forget=forget).build_protocol_server()
    names = (*_OWN_NAMES, resource.host) if resource else _OWN_NAMES
    hosts = [host for name in names for host in (name, f"{name}:*")]
    security = TransportSecuritySettings(enable_dns_rebinding_protection=on_loopback, allowed_hosts=hosts)
    app = protocol.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=REQUEST_BYTES,
        transport_security=security,
        custom_starlette_routes=resource.build_routes() if resource else None,
    )
    async with app.router.lifespan_context(app):
        yield AuthMiddleware(app, backend, ChallengeHeaders(resource))


async def _get_bound_caller(context: Context) -> BoundCaller:
    return cast("BoundCaller", cast("Request", context.request).state.caller)


class AuthMiddleware:
    """Authenticates requests; a request that fails gets an HTTP error and does not reach the MCP server."""

    def __init__(self, app: ASGIApp, backend: Backend, challenges: ChallengeHeaders) -> None:
        self._app = app
        self._backend = backend
        self._challenges = challenges

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or reject it if the credentials are invalid or permit no tool."""
        requires_credentials = scope["type"] == "http" and not scope["path"].startswith(_PUBLIC_PREFIX)
        if requires_credentials and (rejection := await self._authenticate(scope)):
            await rejection(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _authenticate(self, scope: Scope) -> JSONResponse | None:
        try:
            caller = await self._backend.bind_caller(read_credential(Headers(scope=scope)))
        except _HeaderError as error:
            return JSONResponse({"error": str(error)}, _BAD_REQUEST)
        except UserNotNamedError as error:
            return JSONResponse({"error": f"{error}; send the header {USER}"}, _BAD_REQUEST)
        except NoMemoryError as error:
            status = _STATUS.get(error.code, _UNAVAILABLE)
            unauthenticated = error.code is grpc.StatusCode.UNAUTHENTICATED
            challenge = self._challenges.build_unauthenticated_headers(error) if unauthenticated else None
            return JSONResponse({"error": error.message, "reason": error.reason}, status, challenge)
        if not caller.scopes:
            body = {"error": _NO_SCOPE, "reason": "SCOPE_MISSING"}
            return JSONResponse(body, _FORBIDDEN, self._challenges.build_insufficient_scope_headers(_NO_SCOPE))
        scope.setdefault("state", {})["caller"] = caller
        return None
