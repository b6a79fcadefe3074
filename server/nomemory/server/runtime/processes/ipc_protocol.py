"""The messages between the server and its worker processes.

A message is pickled and preceded by its length in four bytes, as in `multiprocessing.connection`. Unpickling is safe
because only the server and its worker have access to the socket pair.
"""

from __future__ import annotations

import asyncio
import pickle
from struct import Struct
from typing import Any, Final, NamedTuple

_LENGTH: Final = Struct("!i")


class Call(NamedTuple):
    """A request to the worker. The worker sends a `Reply` with the same id, unless the call is cancelled."""

    call_id: int
    request: Any


class Cancel(NamedTuple):
    """A cancellation. The worker drops the call unless it has already started it."""

    call_id: int


class Heartbeat(NamedTuple):
    """A liveness check. The worker sends a `Reply` immediately, or between two calls."""

    call_id: int


class Reply(NamedTuple):
    """The result of a call.

    Attributes:
        call_id: the id of the call.
        value: the return value.
        error: the error text; empty if the call succeeded.
    """

    call_id: int
    value: Any = None
    error: str = ""


class Started(NamedTuple):
    """The worker's first message: it accepts calls, or its startup failed with `error`."""

    error: str = ""


class Notification(NamedTuple):
    """A one-way message from the worker."""

    body: Any


def encode(message: object) -> bytes:
    """Return a message in its wire format."""
    pickled = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(pickled)) + pickled


async def read_message(reader: asyncio.StreamReader) -> Any:  # noqa: ANN401 - one of the messages above
    """Read a message.

    Raises:
        IncompleteReadError: the peer closed the connection.
        ConnectionError: the peer was killed.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - trusted peer, see the module docstring
