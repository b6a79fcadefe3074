"""Requests on their way in: how many are read at once, and who gives way.

HTTP/2's flow control keeps a request with its client until somebody reads it, but for its first 64 KB. Reading grants
it the room of its whole message, so what is read at once bounds the bytes. A request that has come is read in no time.
One that has not gives way to the next ones, so that slow clients do not make others wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import TypeVar

from nomemory.server.faults import Fault
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
        self._quick_max = connections.arriving_quick_max
        self._quick_s = connections.arriving_quick_s
        self._all = Places(connections.arriving_max, 0.0, connections.retry_s, proven)
        self._slow = Places(connections.arriving_slow_max, connections.arriving_slow_s, connections.retry_s, proven)
        self._quick: dict[Guest, None] = {}
        self._waiting: OrderedDict[str, deque[_Turn]] = OrderedDict()
        self._look: asyncio.TimerHandle | None = None

    async def whole(self, connection: str, read: Callable[[], Awaitable[_Message]]) -> _Message:
        """Read the one request of a call.

        Raises:
            Fault: OVERLOADED, it gave way to others.
        """
        guest = Guest(connection)
        guest.waits()
        self._all.take(guest)
        try:
            if self._waiting or len(self._quick) >= self._quick_max:
                await self._turn(guest)
            else:
                self._begin(guest)
            return await read()
        except asyncio.CancelledError as cancellation:
            raise guest.reason_of(cancellation) from None
        finally:
            self._end(guest)

    async def _turn(self, guest: Guest) -> None:
        """Wait until a request may be read. Connections take turns, the proven ones first."""
        turn = guest, asyncio.get_running_loop().create_future()
        if guest.connection not in self._waiting:
            self._waiting[guest.connection] = deque()
            if guest.connection in self._proven:
                self._waiting.move_to_end(guest.connection, last=False)
        self._waiting[guest.connection].append(turn)
        try:
            await turn[1]
        finally:
            turns = self._waiting.get(guest.connection, ())
            if turn in turns:  # its call has ended before its turn
                self._waiting[guest.connection].remove(turn)
                if not turns:
                    del self._waiting[guest.connection]

    def _next_turns(self) -> None:
        while self._waiting and len(self._quick) < self._quick_max:
            connection, turns = self._waiting.popitem(last=False)
            guest, turn = turns.popleft()
            if turns:
                self._waiting[connection] = turns
            if not turn.done():
                self._begin(guest)
                turn.set_result(None)

    def _begin(self, guest: Guest) -> None:
        guest.waits()
        self._quick[guest] = None
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(self._quick_s, self._slow_ones_give_way)

    def _end(self, guest: Guest) -> None:
        self._all.leave(guest)
        if guest in self._quick:
            del self._quick[guest]
            self._next_turns()
        else:
            self._slow.leave(guest)

    def _slow_ones_give_way(self) -> None:
        late = asyncio.get_running_loop().time() - self._quick_s
        for guest in list(takewhile(lambda guest: guest.has_waited_since(late), self._quick)):
            del self._quick[guest]
            try:
                self._slow.take(guest)
            except Fault as fault:
                guest.turn_out(fault)
        self._next_turns()
        going_on = self._quick or self._waiting
        self._look = (
            asyncio.get_running_loop().call_later(self._quick_s, self._slow_ones_give_way) if going_on else None
        )
