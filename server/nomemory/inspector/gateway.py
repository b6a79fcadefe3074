"""The inspector of a server elsewhere: its page, and the reading calls of the contract by the Connect protocol.

Calls of the page are passed on over gRPC with the credentials of whoever runs the inspector. So they bring a token,
which stands behind `#` in the address that was printed: browsers send that part to nobody, and other pages do not know
it. A page that has its own name lead to this machine (DNS rebinding) goes by a name that is not let in.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import grpc

from nomemory.client.channel import Identity, with_credential
from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.caller import Metadata
from nomemory.server.listen_address import INSPECTOR, ListenAddress
from nomemory.server.metrics.meters import Meters
from nomemory.server.overload.bounds import Bounds
from nomemory.server.rpc.call import Handler
from nomemory.server.settings import Settings
from nomemory.server.web.application import Application
from nomemory.server.web.bindings import methods_of
from nomemory.server.web.calls import Calls, HttpContext
from nomemory.server.web.exchange import Exchange
from nomemory.server.web.pages import inspector

READING: Final = (
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
"""The methods that the inspector may call, by their paths. Each of them only reads."""
_PASSED_ON: Final = ("x-user-id", "x-user-id-bin", "x-request-id")
"""What of a request's headers the server gets: never its credentials, which are the inspector's own."""


class Guard:
    """Lets requests in: those of the page that was opened with its address, and nobody else's.

    Attributes:
        token: what calls bring.
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe()
        self._hosts: frozenset[str] = frozenset()

    def stand_at(self, address: ListenAddress) -> None:
        """Take the names by which the address is reached."""
        self._hosts = frozenset({str(address), f"localhost:{address.port}"})

    async def admit(self, exchange: Exchange) -> None:
        """Look by which name a request comes, and from which page.

        Raises:
            Fault: ORIGIN_REFUSED, the name is another one, or the page is; MALFORMED_REQUEST.
        """
        host, origin = exchange.header(b"host").lower(), exchange.header(b"origin")
        if host not in self._hosts:
            raise _refused("the inspector goes by its own address only")
        if origin and origin != f"http://{host}":
            raise _refused("pages of other origins may not use the inspector")

    def authorize(self, metadata: Metadata) -> None:
        """Look for the token of a call.

        Raises:
            Fault: ORIGIN_REFUSED, the call comes from another site; CREDENTIALS_MISSING, CREDENTIALS_INVALID.
        """
        if any(name == "sec-fetch-site" and value not in {"same-origin", "none"} for name, value in metadata):
            raise _refused("pages of other sites may not use the inspector")
        shown = [str(value) for name, value in metadata if name == "authorization"]
        if not shown:
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_MISSING, "open the address that `nomemory inspect` has printed")
        kind, _, token = " ".join(shown).partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(token.encode(), self.token.encode()):
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, "this is the address of an inspector that has ended")


def _refused(message: str) -> Fault:
    return Fault(Reason.ERROR_REASON_ORIGIN_REFUSED, message)


@dataclass(frozen=True, slots=True)
class Forwarding:
    """Passes calls on, as bytes.

    Attributes:
        guard: lets them in.
        channel: leads to the server.
        identity: whose credentials they get.
        seconds: how long a call may take.
        request_s: how long its request may take to arrive.
    """

    guard: Guard
    channel: grpc.aio.Channel
    identity: Identity
    seconds: float
    request_s: float

    async def handler(self, path: str, metadata: Metadata) -> Handler:
        """Return what answers a call.

        Raises:
            Fault: as `Guard.authorize`.
        """
        self.guard.authorize(metadata)
        (method,) = methods_of([path])
        opened: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(path)
        passed = [(name, value) for name, value in metadata if name in _PASSED_ON]
        sent = grpc.aio.Metadata(*with_credential((), self.identity), *passed)

        async def replies(requests: AsyncIterator[bytes], context: HttpContext) -> AsyncIterator[bytes]:
            async with asyncio.timeout(self.request_s):
                request = await anext(requests, b"")
            call = opened(request, timeout=self.seconds, metadata=sent)
            try:
                async for raw in call:
                    yield raw
            except grpc.aio.AioRpcError as error:  # the call ends as the server has ended it
                await context.abort(error.code(), error.details() or "", error.trailing_metadata() or ())
            finally:
                call.cancel()

        async def reply(requests: AsyncIterator[bytes], context: HttpContext) -> bytes:
            return b"".join([raw async for raw in replies(requests, context)])  # on the wire, a stream of one

        if method.server_streaming:
            return grpc.stream_stream_rpc_method_handler(replies)
        return grpc.stream_unary_rpc_method_handler(reply)


def gateway(guard: Guard, forwarding: Forwarding, settings: Settings) -> Application:
    """Make the application.

    Args:
        guard: lets requests in.
        forwarding: where calls go.
        settings: limits of requests.
    """
    bounds = Bounds(settings.connections, streams_are_wrapped=False)
    pages = inspector(bounds)
    pages[b"/"] = pages[INSPECTOR.rstrip("/").encode()]
    return Application(guard.admit, pages, Calls(READING, (), forwarding.handler, bounds, settings), bounds, Meters())
