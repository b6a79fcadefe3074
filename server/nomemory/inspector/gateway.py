"""The local inspector: serves the inspector page, and forwards read-only calls to a server over gRPC.

Forwarded calls use the credentials of the person who runs the inspector, so each call of the page must contain a token.
The token is the fragment (after `#`) of the address that `nomemory inspect` prints. Browsers do not send fragments to
servers, and other pages cannot read the address.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final, NoReturn

import grpc
from google.rpc import status_pb2
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from nomemory.client.channel import ClientCredentials, add_authorization
from nomemory.server.api.call import IncomingCall
from nomemory.server.api.http.application import build_application
from nomemory.server.api.http.call_endpoint import RemoteStatusError, build_call_routes
from nomemory.server.api.http.http_rules import find_method_descriptors, get_http_rule
from nomemory.server.api.http.request_rejecter import RequestRejecter
from nomemory.server.api.http.static_pages import build_inspector_routes, make_inspector_redirect
from nomemory.server.api.identity.caller import Metadata
from nomemory.server.api.limits import RequestMemoryLimit
from nomemory.server.api.parsing import MAX_READ_BYTES
from nomemory.server.api.pipeline import ReadNextRequest, ReadRequest
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.listen_address import ListenAddress
from nomemory.server.runtime.metrics.meters import Meters

READ_METHODS: Final = (
    "/nomemory.v1.QueryService/ListUsers",
    "/nomemory.v1.QueryService/ListMessages",
    "/nomemory.v1.QueryService/CountMessages",
    "/nomemory.v1.QueryService/LexicalSearch",
    "/nomemory.v1.QueryService/HybridSearch",
    "/nomemory.v1.QueryService/BatchGetMessages",
    "/nomemory.v1.RecallService/StreamRecall",
    "/nomemory.v1.ServerService/GetServerInfo",
    "/nomemory.v1.IngestService/GetIndexStatus",
)
"""The gRPC methods that the inspector may call. All of them are read-only."""
_FORWARDED_HEADERS: Final = ("x-user-id", "x-user-id-bin", "x-request-id")
"""The headers that are forwarded to the server. Credentials of the request are not forwarded."""


class RequestGuard:
    """Access control of the inspector.

    Only a page that was opened at the address that `nomemory inspect` prints has access.

    Attributes:
        token: the token that every call must present.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe()
        self._hosts: frozenset[str] = frozenset()

    def set_address(self, address: ListenAddress) -> None:
        """Set the address of the inspector, which determines the allowed host names."""
        self._hosts = frozenset({str(address), f"localhost:{address.port}"})

    def check_origin(self, host: str, origin: str) -> None:
        """Check the host and the origin of a request, to prevent DNS rebinding.

        Raises:
            Fault: ORIGIN_NOT_ALLOWED.
        """
        if host.lower() not in self._hosts:
            raise _create_permission_denied_fault(
                "unexpected host name; open the address that `nomemory inspect` printed"
            )
        if origin and origin != f"http://{host.lower()}":
            raise _create_permission_denied_fault("requests from other origins are not allowed")

    def authorize(self, metadata: Metadata) -> None:
        """Check the token of a call.

        Raises:
            Fault: ORIGIN_NOT_ALLOWED (the call is from another site), CREDENTIALS_MISSING or CREDENTIALS_INVALID.
        """
        if any(name == "sec-fetch-site" and value not in {"same-origin", "none"} for name, value in metadata):
            raise _create_permission_denied_fault("requests from other sites are not allowed")
        authorization = " ".join(str(value) for name, value in metadata if name == "authorization")
        if not authorization:
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_MISSING, "open the address that `nomemory inspect` printed")
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Fault(
                Reason.ERROR_REASON_CREDENTIALS_INVALID, "wrong token; open the address that `nomemory inspect` printed"
            )


def _create_permission_denied_fault(message: str) -> Fault:
    return Fault(Reason.ERROR_REASON_ORIGIN_NOT_ALLOWED, message)


class GuardMiddleware:
    """Rejects requests with a wrong host or origin.

    Args:
        rejecter: creates the error responses of rejected requests.
    """

    def __init__(self, app: ASGIApp, guard: RequestGuard, rejecter: RequestRejecter) -> None:
        self._app = app
        self._guard = guard
        self._rejecter = rejecter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        headers = Headers(scope=scope)
        try:
            self._guard.check_origin(headers.get("host", ""), headers.get("origin", ""))
        except Fault as fault:
            await self._rejecter.reject(scope, fault)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class CallForwarder:
    """Forwards calls of the inspector page to a server over gRPC. Implements `CallExecutor`.

    Attributes:
        identity: the credentials of forwarded calls.
        timeout_s: the timeout of a forwarded call, in seconds.
        memory: limits the memory of requests.
    """

    guard: RequestGuard
    channel: grpc.aio.Channel
    identity: ClientCredentials
    timeout_s: float
    memory: RequestMemoryLimit

    async def execute_unary(self, incoming: IncomingCall, read: ReadRequest) -> bytes:
        """Forward a unary call."""
        return b"".join(
            [reply async for reply in self.execute_server_stream(incoming, read)]
        )  # on the wire, a unary reply is a stream of one message

    async def execute_server_stream(self, incoming: IncomingCall, read: ReadRequest) -> AsyncGenerator[bytes]:
        """Forward a server-streaming call."""
        self.guard.authorize(incoming.metadata)
        with self.memory.reservation() as reserve:
            request = await read(reserve)
            method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(incoming.path)
            call = method(request.SerializeToString(), timeout=self.timeout_s, metadata=self._build_metadata(incoming))
            try:
                async for reply in call:
                    yield reply
            except grpc.aio.AioRpcError as error:
                raise RemoteStatusError(_read_status(error)) from None
            finally:
                call.cancel()

    async def execute_client_stream(self, incoming: IncomingCall, _read_next: ReadNextRequest) -> NoReturn:
        """Raise NotImplementedError, because no read-only method streams requests."""
        raise NotImplementedError(incoming.path)

    def _build_metadata(self, incoming: IncomingCall) -> grpc.aio.Metadata:
        forwarded = [(name, value) for name, value in incoming.metadata if name in _FORWARDED_HEADERS]
        return grpc.aio.Metadata(*add_authorization((), self.identity), *forwarded)


def _read_status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    code, message = error.code(), error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            return status_pb2.Status.FromString(value)
    return status_pb2.Status(code=code.value[0], message=message)


def make_gateway(guard: RequestGuard, calls: CallForwarder) -> ASGIApp:
    """Return the ASGI application of the local inspector."""
    rejecter = RequestRejecter(Meters())
    size_limits = {get_http_rule(method): MAX_READ_BYTES for method in find_method_descriptors(READ_METHODS)}
    routes = [make_inspector_redirect("/"), *build_inspector_routes(), *build_call_routes(size_limits, calls)]
    return build_application(routes, [Middleware(GuardMiddleware, guard=guard, rejecter=rejecter)], rejecter)
