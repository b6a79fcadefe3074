"""The messages between the server and its worker processes.

A message is pickled and preceded by its length in four bytes, as in `multiprocessing.connection`. Unpickling is safe
because only the server and its worker have access to the socket pair.
"""

from __future__ import annotations

import pickle
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import asyncio  # the workers do not use it, and its import takes a third of their startup

_LENGTH: Final = Struct("!i")


class Call(NamedTuple):
    """A call by the server, to which the worker sends a `Reply` unless the call is cancelled."""

    call_id: int
    request: Any


class Cancel(NamedTuple):
    """A cancellation. The worker drops a cancelled call that it has not started."""

    call_id: int


class Heartbeat(NamedTuple):
    """A liveness check. The worker sends a `Reply` to a heartbeat, immediately or after the current call."""

    call_id: int


class Reply(NamedTuple):
    """The worker's reply to a call or a heartbeat.

    Attributes:
        call_id: the id of the call or heartbeat.
        value: the result of the call; None if the call failed.
        error: the text of the error; empty if the call succeeded.
    """

    call_id: int
    value: Any = None
    error: str = ""


class StartupReport(NamedTuple):
    """The worker's first message, after its startup.

    `error` is empty if the worker accepts calls, and otherwise describes why its startup failed.
    """

    error: str = ""


class Notification(NamedTuple):
    """A message from the worker that is not a reply."""

    body: Any


def encode(message: object) -> bytes:
    """Encode a message in the wire format."""
    pickled = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(pickled)) + pickled


async def read_message(reader: asyncio.StreamReader) -> Any:  # noqa: ANN401 - one of the messages above
    """Read a message.

    Raises:
        IncompleteReadError: the other process has closed the connection.
        ConnectionError: the other process was killed.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - trusted peer, see the module docstring
