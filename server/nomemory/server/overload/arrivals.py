"""Requests on their way in: how many are read at once, and who gives way.

HTTP/2's flow control keeps a request with its client until somebody reads it, but for its first 64 KB. Reading grants
it the room of its whole message, so what is read at once bounds the bytes. A request that has come is read in no time.
Those that have not give way to the next ones, so that slow clients do not make others wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from nomemory.server.overload.places import Guest, Places, ProvenConnections
from nomemory.server.settings.serving import ConnectionSettings

_Message = TypeVar("_Message")
_Turn = tuple[Guest, "asyncio.Future[None]"]


class Arrivals:
    """Reads requests within bounds.

    Args:
        connections: how many at once, and for how long.
        proven: the connections that go before others.
    """

    def __init__(self, connections: ConnectionSettings, proven: ProvenConnections) -> None:
        self._proven = proven
        self._most = connections.reading_max
        self._patience_s = connections.reading_s
        self._all = Places(connections.arriving_max, 0.0, connections.retry_s, proven)
        self._reading: dict[Guest, None] = {}
        self._lines: OrderedDict[str, deque[_Turn]] = OrderedDict()
        self._has_moved = False
        self._look: asyncio.TimerHandle | None = None

    async def whole(self, connection: str, read: Callable[[], Awaitable[_Message]]) -> _Message:
        """Read the one request of a call.

        Raises:
            Fault: OVERLOADED, it gave way to others.
        """
        with self._all.held(connection) as guest:
            return await guest.awaits(self._in_turn(guest, read))

    async def _in_turn(self, guest: Guest, read: Callable[[], Awaitable[_Message]]) -> _Message:
        try:
            if self._lines or len(self._reading) >= self._most:
                await self._turn(guest)
            else:
                self._reading[guest] = None
            request = await read()
            self._has_moved = True
            return request
        finally:
            self._reading.pop(guest, None)
            self._let_in()

    async def _turn(self, guest: Guest) -> None:
        """Wait until a request may be read. Connections take turns, the proven ones first."""
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(guest.connection, deque()).append((guest, turn))
        if guest.connection in self._proven:
            self._lines.move_to_end(guest.connection, last=False)
        if self._look is None:
            self._look_later()
        await turn

    def _let_in(self) -> None:
        while self._lines and len(self._reading) < self._most:
            connection, line = self._lines.popitem(last=False)
            guest, turn = line.popleft()
            if line:
                self._lines[connection] = line
            if not turn.done():  # or its call has ended before its turn
                self._reading[guest] = None
                turn.set_result(None)

    def _look_later(self) -> None:
        self._has_moved = False
        self._look = asyncio.get_running_loop().call_later(self._patience_s, self._look_at_slow_ones)

    def _look_at_slow_ones(self) -> None:
        """Where nothing was read while others waited, take half of the places back, from those who have most."""
        self._let_in()
        self._look = None
        if not self._lines:
            return
        if not self._has_moved:
            held = Counter(guest.connection for guest in self._reading)
            slow = sorted(self._reading, key=lambda one: (one.connection in self._proven, -held[one.connection]))
            for guest in slow[: (self._most + 1) // 2]:
                del self._reading[guest]
                guest.turn_out()
            self._let_in()
        self._look_later()
