"""The messages between the server and its worker processes.

A message is pickled and framed as `multiprocessing.connection` does it: a length of four bytes, then so many bytes.
Both ends are this program, and nobody else can open the socket pair between them.
"""

from __future__ import annotations

import asyncio
import pickle
from struct import Struct
from typing import Any, Final, NamedTuple

_LENGTH: Final = Struct("!i")


class Call(NamedTuple):
    """The server calls the worker. The worker sends a `Reply` with the same id, unless the call is cancelled."""

    call_id: int
    request: Any


class Cancel(NamedTuple):
    """The server does not wait for the reply to a call any more. The worker drops the call if it has not begun it."""

    call_id: int


class Heartbeat(NamedTuple):
    """The server asks for a `Reply`, which the worker sends at once, or between two pieces of its work."""

    call_id: int


class Reply(NamedTuple):
    """The worker's result of a call, or the text of its error; "" is no error."""

    call_id: int
    value: Any = None
    error: str = ""


class Started(NamedTuple):
    """The worker's first message: it takes calls, or the text of the error for which it never will."""

    error: str = ""


class Notification(NamedTuple):
    """The worker reports something. Nothing is sent back."""

    body: Any


def encode(message: object) -> bytes:
    """Return a message with its length before it."""
    pickled = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(pickled)) + pickled


async def read_message(reader: asyncio.StreamReader) -> Any:  # noqa: ANN401 - one of the messages above
    """Wait for a message.

    Raises:
        IncompleteReadError: the other end has closed the connection.
        ConnectionError: it was killed.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - written by our own process, see above
