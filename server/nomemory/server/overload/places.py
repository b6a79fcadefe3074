"""Places that calls hold, shared evenly between connections.

Where room is short, the connection that has most loses a place first. Connections that have brought a whole request of
somebody who was admitted lose theirs last.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
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


class Guest:
    """A call that holds a place, by its connection. While it waits for its client it may be turned out."""

    __slots__ = ("_cancelling", "_fault", "_since", "_task", "connection")

    def __init__(self, connection: str) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call runs in a task")
        self.connection = connection
        self._task = task
        self._cancelling = task.cancelling()
        self._since: float | None = None
        self._fault: Fault | None = None

    def waits(self) -> None:
        """Note that it waits for its client from now on."""
        self._since = asyncio.get_running_loop().time()

    def works(self) -> None:
        """Note that it does not."""
        self._since = None

    def has_waited_since(self, moment: float) -> bool:
        """Return whether it has waited since then or longer, in the event loop's time."""
        return self._since is not None and self._since <= moment

    def turn_out(self, fault: Fault) -> None:
        """End its wait. `reason_of` then has the fault."""
        if self._fault is None:
            self._fault = fault
            self._task.cancel()

    def reason_of(self, cancellation: asyncio.CancelledError) -> BaseException:
        """Return why its wait was cancelled: the fault if it was turned out, and nobody else has cancelled it."""
        fault, self._fault = self._fault, None
        if fault is None or self._task.uncancel() > self._cancelling:
            return cancellation
        return fault


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
        """Hold a place, at first waiting for the client.

        Raises:
            Fault: OVERLOADED, there is none, and no other connection has more and keeps it waiting; or it was lost.
        """
        guest = Guest(connection)
        guest.waits()
        if self._free <= 0:
            self._make_room(connection)
        self._free -= 1
        self._guests.setdefault(connection, {})[guest] = None
        try:
            yield guest
        except asyncio.CancelledError as cancellation:
            raise guest.reason_of(cancellation) from None
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
        oldest.turn_out(gave_way(self._retry_s))

    def _claim(self, connection: str) -> tuple[bool, int]:
        """Return how much a connection has had; who has most loses a place first."""
        return connection not in self._proven, len(self._guests.get(connection, ()))


def overloaded(message: str, retry_s: float) -> Fault:
    """Make the fault of a limit on what clients hold."""
    return Fault(Reason.ERROR_REASON_OVERLOADED, message, retry_after_s=retry_s)


def gave_way(retry_s: float) -> Fault:
    """Make the fault of a request that others did not wait for."""
    return overloaded("the request took too long to arrive, and others wait", retry_s)


_Message = TypeVar("_Message")


async def each(guest: Guest, requests: AsyncIterator[_Message]) -> AsyncIterator[_Message]:
    """Return the requests of a stream. Only while the next one is awaited its guest may be turned out.

    Raises:
        Fault: OVERLOADED, it was.
    """
    while True:
        guest.waits()
        try:
            request = await anext(requests)
        except StopAsyncIteration:
            return
        except asyncio.CancelledError as cancellation:
            raise guest.reason_of(cancellation) from None
        finally:
            guest.works()
        yield request
