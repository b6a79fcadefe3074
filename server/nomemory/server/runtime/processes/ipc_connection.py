"""The server's end of the connection to a worker process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Self

from nomemory.server.runtime.processes.ipc_protocol import (
    Call,
    Cancel,
    Heartbeat,
    Notification,
    Reply,
    StartupReport,
    encode,
    read_message,
)

_BUFFER_BYTES: Final = 1 << 20

OnNotification = Callable[[Any], None]
"""A function that is called with the body of each notification of the worker."""


class PipeClosedError(Exception):
    """The worker exited or the connection was closed; pending calls may or may not have been executed."""


class CallFailedError(Exception):
    """The worker replied to a call with an error."""


def ignore_notification(_body: object) -> None:
    """Ignore a notification."""


class PipeConnection:
    """The server's end of a connection, for concurrent calls to a worker. The class is not thread-safe.

    Attributes:
        heard_at: the time at which the last message was received, on the event loop's clock.
        is_open: whether the connection accepts calls.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, on_notification: OnNotification
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_notification = on_notification
        self._loop = asyncio.get_running_loop()
        self._call_ids = count()
        self._replies: dict[int, asyncio.Future[Reply | None]] = {}
        self._started: asyncio.Future[StartupReport] = self._loop.create_future()
        self._receiving = asyncio.create_task(self._receive_messages())
        self.is_open = True
        self.heard_at = self._loop.time()

    @classmethod
    async def open(cls, end: socket.socket, on_notification: OnNotification = ignore_notification) -> Self:
        """Create a connection over the server's end of a socket pair."""
        return cls(*await asyncio.open_unix_connection(sock=end, limit=_BUFFER_BYTES), on_notification)

    @property
    def is_ready(self) -> bool:
        """Whether the worker has reported readiness or a startup error."""
        return self._started.done()

    async def wait_until_ready(self) -> None:
        """Wait until the worker accepts calls.

        Raises:
            CallFailedError: the worker reported a startup error.
            PipeClosedError: the worker exited.
        """
        either: list[asyncio.Future[Any]] = [self._started, self._receiving]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._started.done():
            raise PipeClosedError
        if error := self._started.result().error:
            raise CallFailedError(error)

    async def call(self, request: object) -> Any:  # noqa: ANN401 - the type depends on the request
        """Call the worker and return its result, or send `Cancel` to the worker if this call is cancelled.

        Raises:
            CallFailedError: the worker replied to the call with an error.
            PipeClosedError: the worker exited, or the connection was closed.
        """
        if not self.is_open:
            raise PipeClosedError
        call_id = next(self._call_ids)
        future = self._expect_reply(call_id)
        self._send_message(Call(call_id, request))
        try:
            reply = await future
        except asyncio.CancelledError:
            self._send_message(Cancel(call_id))
            raise
        if reply is None:
            raise PipeClosedError
        if reply.error:
            raise CallFailedError(reply.error)
        return reply.value

    def notify(self, request: object) -> None:
        """Send a call to the worker without waiting for its reply."""
        self._send_message(Call(next(self._call_ids), request))

    def send_heartbeat(self) -> asyncio.Future[Reply | None]:
        """Send a heartbeat. The result is a future that completes when the worker replies or exits."""
        call_id = next(self._call_ids)
        future = self._expect_reply(call_id)
        self._send_message(Heartbeat(call_id))
        return future

    def reject_calls(self) -> None:
        """Reject further calls. Pending calls continue."""
        self.is_open = False

    def close(self) -> None:
        """Close the connection, so that the worker exits."""
        self.is_open = False
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until the server or the worker closes the connection."""
        await asyncio.wait([self._receiving])

    def _expect_reply(self, call_id: int) -> asyncio.Future[Reply | None]:
        future = self._replies[call_id] = self._loop.create_future()
        future.add_done_callback(lambda _reply: self._replies.pop(call_id))
        return future

    async def _receive_messages(self) -> None:
        try:
            while True:
                message = await read_message(self._reader)
                self.heard_at = self._loop.time()
                self._dispatch(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.is_open = False
            self._writer.transport.abort()
            for future in list(self._replies.values()):
                _resolve_reply(future, None)

    def _dispatch(self, message: object) -> None:
        match message:
            case Reply(call_id):
                if (future := self._replies.get(call_id)) is not None:
                    _resolve_reply(future, message)
            case Notification(body):
                self._on_notification(body)
            case StartupReport():
                self._started.set_result(message)

    def _send_message(self, message: Call | Cancel | Heartbeat) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(message))


def _resolve_reply(future: asyncio.Future[Reply | None], reply: Reply | None) -> None:
    if not future.done():
        future.set_result(reply)
