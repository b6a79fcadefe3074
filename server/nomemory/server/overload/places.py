"""Places that calls hold, shared evenly between connections.

Where room is short, the connection that has most loses a place first. Connections that have brought a whole request of
somebody who was admitted lose theirs last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from nomemory.server.faults import Fault, Reason


class ProvenConnections:
    """Remembers connections by their names.

    Args:
        most: how many it remembers; the oldest is forgotten first, until its next request.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._proven: dict[str, None] = {}

    def prove(self, connection: str) -> None:
        """Note that a whole request has come, of somebody who was admitted."""
        if connection in self._proven:
            return
        if len(self._proven) >= self._most:
            del self._proven[next(iter(self._proven))]
        self._proven[connection] = None

    def __contains__(self, connection: str) -> bool:
        return connection in self._proven


_Result = TypeVar("_Result")


class Guest:
    """A call that holds a place, by its connection. While it waits for its client it may be turned out."""

    __slots__ = ("_is_out", "_retry_s", "_since", "_wait", "connection")

    def __init__(self, connection: str, retry_s: float) -> None:
        self.connection = connection
        self._retry_s = retry_s
        self._since = 0.0
        self._wait: asyncio.Timeout | None = None
        self._is_out = False

    async def awaits(self, coming: Awaitable[_Result]) -> _Result:
        """Wait for the client.

        Raises:
            Fault: OVERLOADED, others got the place.
        """
        self._since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(None) as self._wait:
                return await coming
        except TimeoutError:
            if not self._is_out:
                raise
            raise overloaded("the request took too long to arrive, and others wait", self._retry_s) from None
        finally:
            self._wait = None

    def has_waited_since(self, moment: float) -> bool:
        """Return whether it has waited since then or longer, in the event loop's time."""
        return self._wait is not None and self._since <= moment

    def turn_out(self) -> None:
        """End its wait."""
        if self._wait is not None and not self._is_out:
            self._is_out = True
            self._wait.reschedule(0)


class Places:
    """A number of places. Where all are taken, a newcomer gets one of the connection that has most.

    Args:
        count: how many.
        patience_s: how long a guest may wait for its client before it can be turned out.
        retry_s: when those who are refused may try again.
        proven: the connections that lose a place last.
    """

    def __init__(self, count: int, patience_s: float, retry_s: float, proven: ProvenConnections) -> None:
        self._proven = proven
        self._free = count
        self._patience_s = patience_s
        self._retry_s = retry_s
        self._guests: dict[str, dict[Guest, None]] = {}

    @contextmanager
    def held(self, connection: str) -> Iterator[Guest]:
        """Hold a place.

        Raises:
            Fault: OVERLOADED, there is none, and no other connection has more and keeps it waiting.
        """
        guest = Guest(connection, self._retry_s)
        if self._free <= 0:
            self._make_room(connection)
        self._free -= 1
        self._guests.setdefault(connection, {})[guest] = None
        try:
            yield guest
        finally:
            self._leave(guest)

    def _leave(self, guest: Guest) -> None:
        own = self._guests.get(guest.connection)
        if own is None or guest not in own:  # it was turned out
            return
        self._free += 1
        del own[guest]
        if not own:
            del self._guests[guest.connection]

    def _make_room(self, newcomer: str) -> None:
        loser = max(self._guests, key=self._claim)
        latest = asyncio.get_running_loop().time() - self._patience_s
        oldest = next((guest for guest in self._guests[loser] if guest.has_waited_since(latest)), None)
        if oldest is None or self._claim(newcomer) >= self._claim(loser):
            raise overloaded("too many requests are on their way", self._retry_s)
        self._leave(oldest)
        oldest.turn_out()

    def _claim(self, connection: str) -> tuple[bool, int]:
        """Return how much a connection has had; who has most loses a place first."""
        return connection not in self._proven, len(self._guests.get(connection, ()))


def overloaded(message: str, retry_s: float) -> Fault:
    """Make the fault of a limit on what clients hold."""
    return Fault(Reason.ERROR_REASON_OVERLOADED, message, retry_after_s=retry_s)
