"""What calls may hold of a process while they come, are answered, and leave.

gRPC keeps a reply until its client has room for it, and a reply cannot be taken back. What remains is to refuse further
replies. Who reads nothing until then is closed by gRPC, with the age of its connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import grpc

from nomemory.server.faults import Fault, Reason
from nomemory.server.overload.arrivals import Arrivals
from nomemory.server.overload.places import Guest, Places, ProvenConnections, overloaded
from nomemory.server.settings.serving import ConnectionSettings

_SHORT_BYTES = 65_536


class UnreadReplies:
    """Counts the replies that are on their way, and their bytes, by their connections.

    Args:
        connections: how many there may be.
    """

    def __init__(self, connections: ConnectionSettings) -> None:
        self._connection_max = connections.unread_connection_max_bytes
        self._max = connections.unread_max_bytes
        self._retry_s = connections.retry_s
        self._replies: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._size = 0

    def send(self, connection: str, size: int, *, must_go: bool = False) -> None:
        """Note that a reply leaves.

        Args:
            connection: who gets it.
            size: its bytes.
            must_go: it is not refused: it says what has been done, and that is done.

        Raises:
            Fault: OVERLOADED, too many others were not taken yet.
        """
        if not must_go:
            self._refuse_too_much(connection, size)
        self._replies[connection] += 1
        self._bytes[connection] += size
        self._size += size

    def taken(self, connection: str, size: int) -> None:
        """Note that a reply has gone, or its connection."""
        self._replies[connection] -= 1
        self._bytes[connection] -= size
        self._size -= size
        if not self._replies[connection]:
            del self._replies[connection], self._bytes[connection]

    def refuse_another(self, connection: str) -> None:
        """Refuse a call before the work is done, where there is no room for one more reply like the others.

        Raises:
            Fault: OVERLOADED.
        """
        if connection in self._replies:
            self._refuse_too_much(connection, self._bytes[connection] // self._replies[connection])

    def _refuse_too_much(self, connection: str, size: int) -> None:
        unread = self._bytes[connection]
        if unread and unread + size > self._connection_max:
            raise overloaded("too many replies of this connection are unread", self._retry_s)
        # Who has read everything is not refused for what others have not read, unless these are very many.
        if self._size + size > (self._max if unread else self._max * 5 // 4):
            raise overloaded("too many replies are unread", self._retry_s)


Context = grpc.aio.ServicerContext[Any, Any]


class Bounds:
    """Bounds the calls of a process, their requests and their replies.

    Args:
        connections: the limits.
        streams_are_wrapped: whether a host's interceptors may have put a stream of their own around that of gRPC.

    Attributes:
        proven: the connections that have brought a whole request of somebody who was admitted.
    """

    def __init__(self, connections: ConnectionSettings, *, streams_are_wrapped: bool = False) -> None:
        self._streams_are_wrapped = streams_are_wrapped
        self.proven = ProvenConnections(connections.connections_max)
        self._arrivals = Arrivals(connections, self.proven)
        self._unread = UnreadReplies(connections)
        retry_s, nobody = connections.retry_s, ProvenConnections(0)  # whoever may watch is alike
        self._uploads = Places(connections.uploads_max, connections.upload_idle_s, retry_s, self.proven)
        self._watches = Places(connections.watches_max, 0.0, retry_s, nobody)
        self._free = connections.calls_max
        self._retry_s = retry_s
        self._held_bytes, self._held_max = 0, connections.requests_max_bytes

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

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Count the bytes of a request, or of a part of one, while the process has them. Short ones do not count.

        Raises:
            Fault: OVERLOADED, there is no room for them.
        """
        if size <= _SHORT_BYTES:
            yield
            return
        if self._held_bytes and self._held_bytes + size > self._held_max:
            raise overloaded("too many bytes of requests are in hand", self._retry_s)
        self._held_bytes += size
        try:
            yield
        finally:
            self._held_bytes -= size

    async def request(self, stream: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - the request type of the method
        """Read the one request of a call.

        Raises:
            Fault: OVERLOADED, it gave way to others, or replies are unread; MALFORMED_REQUEST, there is none.
        """
        request = await self._arrived(stream, context)
        if request is grpc.aio.EOF:
            raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the call has no request")
        self._unread.refuse_another(context.peer())
        return request

    async def requests(self, stream: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        """Return the requests of a stream of whoever may call, each read like the one of a call."""
        while (request := await self._arrived(stream, context)) is not grpc.aio.EOF:
            yield request

    async def _arrived(self, stream: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - as `request`
        # Reading past the stream, from the call itself, costs less.
        read = stream.__anext__ if self._streams_are_wrapped else context.read
        try:
            return await self._arrivals.whole(context.peer(), read)
        except StopAsyncIteration:
            return grpc.aio.EOF

    def uploading(self, context: Context) -> AbstractContextManager[Guest]:
        """Hold a place for an import, which waits for its requests by it. Entering it may raise OVERLOADED."""
        return self._uploads.held(context.peer())

    async def watched(self, answer: Awaitable[None], context: Context) -> None:
        """Await a call that goes on until its client ends it.

        Raises:
            Fault: OVERLOADED, there are too many, or it gave way to others.
        """
        with self._watches.held(context.peer()) as guest:
            await guest.awaits(answer)

    def reply(self, size: int, context: Context, *, must_go: bool = False) -> None:
        """Note that the only reply of a call leaves when its handler returns.

        Raises:
            Fault: OVERLOADED, too many others were not read yet.
        """
        task, connection = asyncio.current_task(), context.peer()
        if task is None:
            raise RuntimeError("a call runs in a task")
        self._unread.send(connection, size, must_go=must_go)
        # The context's own callbacks would keep the whole call until the next full garbage collection.
        task.add_done_callback(lambda _task: self._unread.taken(connection, size))

    @contextmanager
    def one_reply(self, size: int, context: Context) -> Iterator[None]:
        """Note one reply of a stream, until gRPC asks for the next.

        Raises:
            Fault: OVERLOADED, too many others were not read yet.
        """
        connection = context.peer()
        self._unread.send(connection, size)
        try:
            yield
        finally:
            self._unread.taken(connection, size)
