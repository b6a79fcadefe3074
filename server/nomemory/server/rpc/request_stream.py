"""A stream of requests that holds a place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TypeVar

from nomemory.server.rpc.places import Guest, Places
from nomemory.server.rpc.proven_connections import ProvenConnections

_Message = TypeVar("_Message")


@contextmanager
def placed(
    places: Places, connection: str, requests: AsyncIterator[_Message], proven: ProvenConnections
) -> Iterator[AsyncIterator[_Message]]:
    """Return a stream of requests, to be read until the context is left.

    Raises:
        Fault: OVERLOADED, there is no place. Reading the stream raises it where it gave way to others.
    """
    guest = Guest(connection)
    places.take(guest)
    try:
        yield _each(guest, requests, proven)
    finally:
        places.leave(guest)


async def _each(guest: Guest, requests: AsyncIterator[_Message], proven: ProvenConnections) -> AsyncIterator[_Message]:
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
        proven.prove(guest.connection)
        yield request
