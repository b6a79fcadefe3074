"""The inspector of a server elsewhere: its page, and the reading calls of the contract by the Connect protocol.

The methods of the contract that the inspector may call. Each of them only reads.

Who may use the inspector of this machine: the page that was opened with its address, and nobody else.

Its calls have the operator's credentials. So they bring a token, which stands behind `#` in the address that was
printed: browsers send that part to nobody, and other pages do not know it. A page that has its own name lead to this
machine (DNS rebinding) goes by a name that is not let in.

Calls of the page, passed on to a server over gRPC with the credentials of whoever runs the inspector.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor

from nomemory.client.channel import Identity, with_credential
from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.caller import Metadata
from nomemory.server.listen_address import INSPECTOR, ListenAddress
from nomemory.server.metrics.meters import Meters
from nomemory.server.settings import Settings
from nomemory.server.web.application import answered, nothing_there
from nomemory.server.web.calls import respond_error
from nomemory.server.web.connect import ConnectDialect
from nomemory.server.web.errors import ErrorStatus, RefusedError, error_of
from nomemory.server.web.exchange import Exchange, Headers, Scope
from nomemory.server.web.inspector_pages import InspectorPages
from nomemory.v1 import ingest_service_pb2 as _ingest
from nomemory.v1 import query_service_pb2 as _query
from nomemory.v1 import recall_service_pb2 as _recall
from nomemory.v1 import server_service_pb2 as _server

_NAMES: Final = (
    f"{_query.DESCRIPTOR.package}.QueryService.ListUsers",
    f"{_query.DESCRIPTOR.package}.QueryService.ListMessages",
    f"{_query.DESCRIPTOR.package}.QueryService.CountMessages",
    f"{_query.DESCRIPTOR.package}.QueryService.LexicalSearch",
    f"{_query.DESCRIPTOR.package}.QueryService.HybridSearch",
    f"{_query.DESCRIPTOR.package}.QueryService.BatchGetMessages",
    f"{_recall.DESCRIPTOR.package}.RecallService.StreamRecall",
    f"{_server.DESCRIPTOR.package}.ServerService.GetServerInfo",
    f"{_ingest.DESCRIPTOR.package}.IngestService.GetIndexStatus",
)


def _path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


_METHODS: Final = tuple(descriptor_pool.Default().FindMethodByName(name) for name in _NAMES)
READING: Final[Mapping[str, MethodDescriptor]] = MappingProxyType({_path(method): method for method in _METHODS})
"""The methods by their paths: `/nomemory.v1.QueryService/ListMessages`."""


_TOKEN_BYTES: Final = 32
_OWN_SITES: Final = ("", "same-origin", "none")


class Guard:
    """Lets requests in.

    Attributes:
        token: what calls bring.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._hosts: frozenset[str] = frozenset()

    def stand_at(self, address: ListenAddress) -> None:
        """Take the names by which the address is reached."""
        self._hosts = frozenset({str(address), f"localhost:{address.port}"})

    def admit(self, exchange: Exchange) -> None:
        """Look by which name a request comes, and from which page.

        Raises:
            RefusedError: the name is another one, or the page is.
            Fault: MALFORMED_REQUEST.
        """
        host, origin = exchange.header(b"host").lower(), exchange.header(b"origin")
        if host not in self._hosts:
            raise _refused("the inspector goes by its own address only")
        if origin and origin != f"http://{host}":
            raise _refused("pages of other origins may not use the inspector")

    def authorize(self, exchange: Exchange) -> None:
        """Look for the token of a call.

        Raises:
            RefusedError: the call comes from another site.
            Fault: CREDENTIALS_MISSING, CREDENTIALS_INVALID, MALFORMED_REQUEST.
        """
        if exchange.header(b"sec-fetch-site") not in _OWN_SITES:
            raise _refused("pages of other sites may not use the inspector")
        kind, _, token = exchange.header(b"authorization").partition(" ")
        if not token:
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_MISSING, "open the address that `nomemory inspect` has printed")
        if kind.lower() != "bearer" or not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, "this is the address of an inspector that has ended")


def _refused(message: str) -> RefusedError:
    return RefusedError(Fault(Reason.ERROR_REASON_ORIGIN_REFUSED, message))


_PASSED_ON: Final = ("x-user-id", "x-user-id-bin", "x-request-id")
"""What of a request's headers the server gets: never its credentials, which are the inspector's own."""


class ForwardedError(Exception):
    """The server has answered with an error, or does not answer."""

    def __init__(self, error: ErrorStatus) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True)
class _Ended(grpc.Status):
    """How a call ended, as gRPC's servers have it."""

    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True, slots=True)
class Forwarding:
    """Passes calls on, as bytes.

    Attributes:
        channel: leads to the server.
        identity: whose credentials they get.
        seconds: how long a call may take.
    """

    channel: grpc.aio.Channel
    identity: Identity
    seconds: float

    async def unary(self, path: str, request: bytes, headers: Metadata) -> bytes:
        """Return the reply of a method that has one.

        Raises:
            ForwardedError: there is none.
        """
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(path)
        call = method(request, timeout=self.seconds, metadata=self._metadata(headers))
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise _forwarded(error) from None

    async def stream(self, path: str, request: bytes, headers: Metadata) -> AsyncGenerator[bytes, None]:
        """Return the replies of a method that streams them. Whoever stops early cancels the call.

        Raises:
            ForwardedError: the stream ends with an error.
        """
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(path)
        call = method(request, timeout=self.seconds, metadata=self._metadata(headers))
        try:
            async for reply in call:
                yield reply
        except grpc.aio.AioRpcError as error:
            raise _forwarded(error) from None
        finally:
            call.cancel()

    def _metadata(self, headers: Metadata) -> grpc.aio.Metadata:
        passed = [(name, value) for name, value in headers if name in _PASSED_ON]
        return grpc.aio.Metadata(*with_credential((), self.identity), *passed)


def _forwarded(error: grpc.aio.AioRpcError) -> ForwardedError:
    trailing = tuple(error.trailing_metadata() or ())
    return ForwardedError(error_of(_Ended(error.code(), error.details() or "", trailing)))


_SAFE: Final[Headers] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Gateway:
    """Answers requests, as ASGI has them.

    Args:
        guard: lets them in.
        forwarding: where calls go.
        settings: limits of requests.
    """

    def __init__(self, guard: Guard, forwarding: Forwarding, settings: Settings) -> None:
        self._guard = guard
        self._forwarding = forwarding
        self._settings = settings
        self._pages = InspectorPages()
        self._meters = Meters()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's messages are dicts
        """Answer one request."""
        await answered(Exchange(scope, receive, send), self._answer, self._meters)

    async def _answer(self, exchange: Exchange) -> None:
        self._guard.admit(exchange)
        path = exchange.raw_path.decode("latin-1")
        page = self._pages.at(INSPECTOR.rstrip("/").encode() if path == "/" else exchange.raw_path)
        if page is not None and exchange.verb in {"GET", "HEAD"}:
            await exchange.respond(page.status, page.headers, page.body)
        elif path in READING and exchange.verb == "POST":
            self._guard.authorize(exchange)
            await self._call(exchange, path, READING[path])
        else:
            raise nothing_there(["GET"] if page is not None else ["POST"] if path in READING else [])

    async def _call(self, exchange: Exchange, path: str, method: MethodDescriptor) -> None:
        dialect = ConnectDialect.of(exchange, method, self._settings)
        async with asyncio.timeout(self._settings.timing.deadline_default_s):
            request = await anext(dialect.requests(exchange), b"")
        try:
            if method.server_streaming:
                await self._stream(exchange, path, dialect, request)
            else:
                reply = await self._forwarding.unary(path, request, exchange.metadata())
                media_type = (b"content-type", dialect.media_type.encode())
                await exchange.respond(200, (media_type, *_SAFE), dialect.reply(reply))
        except ForwardedError as forwarded:
            await self._refuse(exchange, dialect, forwarded)

    async def _stream(self, exchange: Exchange, path: str, dialect: ConnectDialect, request: bytes) -> None:
        form = dialect.stream()
        async with aclosing(self._forwarding.stream(path, request, exchange.metadata())) as replies:
            async for raw in replies:
                if not exchange.is_answered:
                    await exchange.start(200, ((b"content-type", form.media_type.encode()), *_SAFE))
                await exchange.send(form.reply(raw))
        if not exchange.is_answered:
            await exchange.start(200, ((b"content-type", form.media_type.encode()), *_SAFE))
        await exchange.end(form.end())

    async def _refuse(self, exchange: Exchange, dialect: ConnectDialect, forwarded: ForwardedError) -> None:
        if exchange.is_answered:
            await exchange.end(dialect.stream().error(forwarded.error))
        else:
            await respond_error(exchange, forwarded.error, dialect)
