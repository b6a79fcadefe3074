"""What calls may hold of a process while they come, are answered, and leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import grpc

from nomemory.server.faults import Fault, Reason
from nomemory.server.rpc.arrivals import Arrivals
from nomemory.server.rpc.peer_sockets import address_of, close
from nomemory.server.rpc.places import Guest, Places, overloaded
from nomemory.server.rpc.proven_connections import ProvenConnections
from nomemory.server.rpc.request_stream import placed
from nomemory.server.rpc.unread_replies import UnreadReplies
from nomemory.server.settings.connections import ConnectionSettings

Context = grpc.aio.ServicerContext[Any, Any]


class Bounds:
    """Bounds the calls of a process, their requests and their replies.

    Args:
        connections: the limits.
        streams_are_wrapped: whether a host's interceptors may have put a stream of their own around that of gRPC.

    Attributes:
        proven: the connections that have brought a whole request.
    """

    def __init__(self, connections: ConnectionSettings, *, streams_are_wrapped: bool = False) -> None:
        self._streams_are_wrapped = streams_are_wrapped
        self.proven = ProvenConnections(connections.connections_max)
        self._arrivals = Arrivals(connections, self.proven)
        self._unread = UnreadReplies(connections, lambda names: close({address_of(name) for name in names}))
        retry_s, proven = connections.overload_retry_s, self.proven
        self._uploads = Places(connections.uploads_max, connections.upload_idle_s, retry_s, proven)
        self._conversations = Places(connections.reflections_max, connections.arriving_slow_s, retry_s, proven)
        self._watches = Places(connections.watches_max, 0.0, retry_s, proven)
        self._free = connections.calls_max
        self._retry_s = retry_s

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a call while it is answered.

        Raises:
            Fault: OVERLOADED, there are too many.
        """
        if self._free <= 0:
            raise overloaded("too many calls are being answered", self._retry_s)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1

    async def request(self, stream: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - the request type of the method
        """Read the one request of a call.

        Raises:
            Fault: OVERLOADED, it gave way to others, or replies are unread; MALFORMED_REQUEST, there is none.
        """
        # Reading past the stream, from the call itself, costs less.
        read = stream.__anext__ if self._streams_are_wrapped else context.read
        connection = context.peer()
        try:
            request = await self._arrivals.whole(connection, read)
        except StopAsyncIteration:
            request = grpc.aio.EOF
        if request is grpc.aio.EOF:
            raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the call has no request")
        self._unread.refuse_another(connection)
        return request

    def upload(self, stream: AsyncIterator[Any], context: Context) -> AbstractContextManager[AsyncIterator[Any]]:
        """Return the requests of an import, to be read until the context is left. It and they raise OVERLOADED."""
        return placed(self._uploads, context.peer(), stream, self.proven)

    def conversation(self, stream: AsyncIterator[Any], context: Context) -> AbstractContextManager[AsyncIterator[Any]]:
        """Return the same of a caller whom nobody knows."""
        return placed(self._conversations, context.peer(), stream, self.proven)

    @contextmanager
    def watching(self, context: Context) -> Iterator[None]:
        """Count a call that goes on until its client ends it.

        Raises:
            Fault: OVERLOADED, there are too many, or it gave way to others.
        """
        guest = Guest(context.peer())
        guest.waits()
        self._watches.take(guest)
        try:
            with self.proven.holding(guest.connection):
                yield
        except asyncio.CancelledError as cancellation:
            raise guest.reason_of(cancellation) from None
        finally:
            self._watches.leave(guest)

    def reply(self, size: int, deadline: float, context: Context, *, must_go: bool = False) -> None:
        """Note that the only reply of a call leaves when its handler returns.

        Raises:
            Fault: OVERLOADED, too many others were not read yet.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call runs in a task")
        parcel = self._unread.send(context.peer(), size, deadline, must_go=must_go)
        # The context's own callbacks would keep the whole call until the next full garbage collection.
        task.add_done_callback(lambda _task: self._unread.taken(parcel))

    @contextmanager
    def one_reply(self, size: int, deadline: float, context: Context) -> Iterator[None]:
        """Note one reply of a stream, until gRPC asks for the next.

        Raises:
            Fault: OVERLOADED, too many others were not read yet.
        """
        parcel = self._unread.send(context.peer(), size, deadline)
        try:
            yield
        finally:
            self._unread.taken(parcel)
