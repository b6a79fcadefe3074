"""The inspector of a server elsewhere: its page, and the calls of the contract that only read.

Calls are forwarded over gRPC with the credentials of the person who runs the inspector. They must therefore bring a
token. It stands after `#` in the address that the command prints: browsers do not send that part, and other pages do
not know it.
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

from nomemory.client.channel import Identity, with_credential
from nomemory.server.api.call import IncomingCall
from nomemory.server.api.http.application import application
from nomemory.server.api.http.call_endpoint import StatusError, call_routes
from nomemory.server.api.http.http_rules import http_rule, methods_at
from nomemory.server.api.http.refusal import Refusals
from nomemory.server.api.http.static_pages import inspector_redirect, inspector_routes
from nomemory.server.api.identity.caller import Metadata
from nomemory.server.api.limits import RequestMemory
from nomemory.server.api.parsing import MAX_READ_BYTES
from nomemory.server.api.pipeline import Read, ReadNext
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
"""The methods that the inspector may call, by their paths over gRPC. Each of them only reads."""
_FORWARDED_HEADERS: Final = ("x-user-id", "x-user-id-bin", "x-request-id")
"""The headers that the server gets. It never gets the credentials of the request."""


class Guard:
    """Decides who may use the inspector: the page that was opened by its address, and nobody else.

    Attributes:
        token: calls bring it.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe()
        self._hosts: frozenset[str] = frozenset()

    def serve_at(self, address: ListenAddress) -> None:
        """Answer to the names of this address."""
        self._hosts = frozenset({str(address), f"localhost:{address.port}"})

    def check_origin(self, host: str, origin: str) -> None:
        """Check under which name a request comes, and from which page. A page cannot let its own name point here.

        Raises:
            Fault: ORIGIN_NOT_ALLOWED.
        """
        if host.lower() not in self._hosts:
            raise _refused("the inspector answers to its own address only")
        if origin and origin != f"http://{host.lower()}":
            raise _refused("pages of other origins may not use the inspector")

    def authorize(self, metadata: Metadata) -> None:
        """Check the token of a call.

        Raises:
            Fault: ORIGIN_NOT_ALLOWED, the call comes from another site; CREDENTIALS_MISSING, CREDENTIALS_INVALID.
        """
        if any(name == "sec-fetch-site" and value not in {"same-origin", "none"} for name, value in metadata):
            raise _refused("pages of other sites may not use the inspector")
        sent = " ".join(str(value) for name, value in metadata if name == "authorization")
        if not sent:
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_MISSING, "open the address that `nomemory inspect` printed")
        scheme, _, token = sent.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, "this address belongs to an inspector that has ended")


def _refused(message: str) -> Fault:
    return Fault(Reason.ERROR_REASON_ORIGIN_NOT_ALLOWED, message)


class GuardMiddleware:
    """Refuses requests that the guard rejects.

    Args:
        app: the application.
        guard: decides.
        refusals: replies to what is refused.
    """

    def __init__(self, app: ASGIApp, guard: Guard, refusals: Refusals) -> None:
        self._app = app
        self._guard = guard
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = Headers(scope=scope)
        try:
            self._guard.check_origin(headers.get("host", ""), headers.get("origin", ""))
        except Fault as fault:
            await self._refusals.reply(scope, fault)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class ForwardedCalls:
    """Forwards calls to a server. Implements `Calls`.

    Attributes:
        guard: authorizes them.
        channel: leads to the server.
        identity: the credentials that they get.
        timeout_s: how long a call may take.
        memory: limits the bytes of requests.
    """

    guard: Guard
    channel: grpc.aio.Channel
    identity: Identity
    timeout_s: float
    memory: RequestMemory

    async def unary(self, incoming: IncomingCall, read: Read) -> bytes:
        """Forward a call with one reply."""
        return b"".join([reply async for reply in self.server_stream(incoming, read)])  # on the wire, a stream of one

    async def server_stream(self, incoming: IncomingCall, read: Read) -> AsyncGenerator[bytes]:
        """Forward a call with many replies."""
        self.guard.authorize(incoming.metadata)
        with self.memory.reservation() as reserve:
            request = await read(reserve)
            method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(incoming.path)
            call = method(request.SerializeToString(), timeout=self.timeout_s, metadata=self._metadata(incoming))
            try:
                async for reply in call:
                    yield reply
            except grpc.aio.AioRpcError as error:
                raise StatusError(_status(error)) from None
            finally:
                call.cancel()

    async def client_stream(self, incoming: IncomingCall, _read_next: ReadNext) -> NoReturn:
        """Refuse: no method that reads has many requests."""
        raise NotImplementedError(incoming.path)

    def _metadata(self, incoming: IncomingCall) -> grpc.aio.Metadata:
        forwarded = [(name, value) for name, value in incoming.metadata if name in _FORWARDED_HEADERS]
        return grpc.aio.Metadata(*with_credential((), self.identity), *forwarded)


def _status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    code, message = error.code(), error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            return status_pb2.Status.FromString(value)
    return status_pb2.Status(code=code.value[0], message=message)


def gateway(guard: Guard, calls: ForwardedCalls) -> ASGIApp:
    """Return the application.

    Args:
        guard: decides who may use it.
        calls: forwards calls.
    """
    refusals = Refusals(Meters())
    size_limits = {http_rule(method): MAX_READ_BYTES for method in methods_at(READ_METHODS)}
    routes = [inspector_redirect("/"), *inspector_routes(), *call_routes(size_limits, calls)]
    return application(routes, [Middleware(GuardMiddleware, guard=guard, refusals=refusals)], refusals)
