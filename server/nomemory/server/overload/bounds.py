"""What calls may hold of a process while they come, are answered, and leave.

gRPC keeps a reply until its client has room for it, and a reply cannot be taken back. What remains is to refuse further
replies, and to close the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from nomemory.server.faults import Fault, Reason
from nomemory.server.overload.arrivals import Arrivals
from nomemory.server.overload.connections import address_of, close
from nomemory.server.overload.places import Guest, Places, ProvenConnections, overloaded, placed
from nomemory.server.settings.serving import ConnectionSettings
from nomemory.server.structured_logs import get_logger

_log = get_logger("rpc")
_SHORT_BYTES = 65_536
_LOOK_S = 1.0
"""How often overdue replies are looked for. A client that gives up by itself needs less to say so."""


@dataclass(slots=True, eq=False)
class Parcel:
    """A reply on its way: its connection and bytes, when it left, and by when it has to be taken."""

    connection: str
    size: int
    since: float
    deadline: float


@dataclass(slots=True)
class _Shelf:
    parcels: dict[Parcel, None] = field(default_factory=dict)
    size: int = 0
    is_closing: bool = False


class UnreadReplies:
    """Counts the bytes of replies that are on their way.

    Args:
        connections: how many there may be.
        close: closes connections, by their names.
    """

    def __init__(self, connections: ConnectionSettings, close: Callable[[Collection[str]], int]) -> None:
        self._connection_max = connections.unread_connection_max_bytes
        self._max = connections.unread_max_bytes
        self._patience_s = connections.unread_s
        self._retry_s = connections.retry_s
        self._close = close
        self._shelves: dict[str, _Shelf] = {}
        self._size = 0
        self._look: asyncio.TimerHandle | None = None

    def send(self, connection: str, size: int, deadline: float, *, must_go: bool = False) -> Parcel:
        """Note that a reply leaves.

        Args:
            connection: who gets it.
            size: its bytes.
            deadline: when the connection is closed if it was not taken, in the event loop's time.
            must_go: it is not refused: it says what has been done, and that is done.

        Raises:
            Fault: OVERLOADED, too many others were not taken yet.
        """
        loop = asyncio.get_running_loop()
        shelf = self._shelves.get(connection) or _Shelf()
        if not must_go:
            self._refuse_too_much(shelf, size)
        parcel = Parcel(connection, size, loop.time(), deadline)
        self._shelves[connection] = shelf
        shelf.parcels[parcel] = None
        shelf.size += size
        self._size += size
        if self._look is None:
            self._look = loop.call_later(_LOOK_S, self._close_overdue)
        return parcel

    def refuse_another(self, connection: str) -> None:
        """Refuse a call before the work is done, where there is no room for one more reply like the others.

        Raises:
            Fault: OVERLOADED.
        """
        shelf = self._shelves.get(connection)
        if shelf is not None:
            self._refuse_too_much(shelf, shelf.size // len(shelf.parcels))

    def taken(self, parcel: Parcel) -> None:
        """Note that a reply has gone, or its connection."""
        shelf = self._shelves[parcel.connection]
        del shelf.parcels[parcel]
        shelf.size -= parcel.size
        self._size -= parcel.size
        if not shelf.parcels:
            del self._shelves[parcel.connection]

    def _refuse_too_much(self, shelf: _Shelf, size: int) -> None:
        if shelf.size and shelf.size + size > self._connection_max:
            raise overloaded("too many replies of this connection are unread", self._retry_s)
        # Who has read everything is not refused for what others have not read, unless these are very many.
        most = self._max if shelf.size else self._max * 5 // 4
        if self._size + size > most:
            self._close_slowest()
            raise overloaded("too many replies are unread", self._retry_s)

    def _close_slowest(self) -> None:
        latest = asyncio.get_running_loop().time() - self._patience_s
        slow = {name: shelf for name, shelf in self._shelves.items() if next(iter(shelf.parcels)).since <= latest}
        if slow:
            self._close_all([max(slow, key=lambda name: slow[name].size)])

    def _close_overdue(self) -> None:
        loop = asyncio.get_running_loop()
        latest = loop.time() - _LOOK_S
        overdue = [
            name for name, shelf in self._shelves.items() if any(parcel.deadline <= latest for parcel in shelf.parcels)
        ]
        self._close_all(overdue)
        self._look = loop.call_later(_LOOK_S, self._close_overdue) if self._shelves else None

    def _close_all(self, names: Collection[str]) -> None:
        fresh = [name for name in names if not self._shelves[name].is_closing]
        if not fresh:
            return
        for name in fresh:
            self._shelves[name].is_closing = True
        _log.warning("closed connections whose replies nobody reads", count=self._close(fresh))


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
        self._unread = UnreadReplies(connections, lambda names: close({address_of(name) for name in names}))
        retry_s, proven = connections.retry_s, self.proven
        self._uploads = Places(connections.uploads_max, connections.upload_idle_s, retry_s, proven)
        nobody = ProvenConnections(0)  # whoever may call these is alike
        self._conversations = Places(connections.reflections_max, connections.arriving_slow_s, retry_s, nobody)
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

    async def admitted_request(self, stream: AsyncIterator[Any], context: Context) -> Any:  # noqa: ANN401 - the request type of the method
        """Read the one request of a call of somebody who was admitted. It and its errors are those of `request`."""
        request = await self.request(stream, context)
        self.proven.prove(context.peer())
        return request

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
        return placed(self._uploads, context.peer(), stream, self.proven.prove)

    def conversation(self, stream: AsyncIterator[Any], context: Context) -> AbstractContextManager[AsyncIterator[Any]]:
        """Return the same of a caller whom nobody knows."""
        return placed(self._conversations, context.peer(), stream)

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
