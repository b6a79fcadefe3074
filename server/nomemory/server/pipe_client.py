"""The asking end of a pipe: any number of calls at a time, on the event loop."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from nomemory.server.worker_pipe import GREETING, HEADER, Answer, Withdrawn, pack, unpack

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class PipeClosedError(Exception):
    """The other end is gone; whether it still did what it was asked to is unknown."""


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """Read one frame: the id of the call, and its body.

    Raises:
        asyncio.IncompleteReadError: the other end is gone.
        ConnectionError: the same.
    """
    length, call_id = HEADER.unpack(await reader.readexactly(HEADER.size))
    return call_id, unpack(await reader.readexactly(length))


class PipeClient:
    """Asks the process at the other end.

    Args:
        streams: this end of the pipe.
        withdraws: whether to say so when nobody waits for an answer any more.

    Attributes:
        heard_at: when it last answered, in the event loop's time.
    """

    def __init__(self, streams: Streams, *, withdraws: bool = False) -> None:
        self._reader, self._writer = streams
        self._withdraws = withdraws
        self._ids = count(GREETING + 1)
        self._waiting: dict[int, asyncio.Future[Answer | None]] = {}
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self._reading = asyncio.create_task(self._read())
        self.heard_at = self._loop.time()

    @property
    def is_open(self) -> bool:
        """Tell whether the other end may still answer."""
        return self._is_open

    async def greeted(self) -> Answer:
        """Wait for what the other end says of itself, unasked.

        Raises:
            PipeClosedError: it is gone.
        """
        return await self._exchange(GREETING, b"")

    async def ask(self, request: object) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            PipeClosedError: the other end is gone.
        """
        call_id = next(self._ids)
        try:
            return await self._exchange(call_id, pack(call_id, request))
        except asyncio.CancelledError:
            if self._withdraws and self._is_open:
                self._writer.write(pack(call_id, Withdrawn()))
            raise

    def tell(self, request: object) -> None:
        """Send what needs no answer."""
        if self._is_open:
            self._writer.write(pack(next(self._ids), request))

    def give_up(self) -> None:
        """Ask nothing more; the calls under way are answered if the other end still does."""
        self._is_open = False

    def close(self) -> None:
        """Close this end."""
        self._is_open = False
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until the other end is gone."""
        await self._reading

    async def _exchange(self, call_id: int, frame: bytes) -> Answer:
        if not self._is_open:
            raise PipeClosedError
        arriving = self._waiting[call_id] = self._loop.create_future()
        try:
            self._writer.write(frame)
            await self._writer.drain()
            answer: Answer | None = await arriving
        except ConnectionError:
            answer = None
        finally:
            del self._waiting[call_id]
        if answer is None:
            raise PipeClosedError
        return answer

    async def _read(self) -> None:
        try:
            while True:
                call_id, answer = await read_frame(self._reader)
                self.heard_at = self._loop.time()
                self._settle(call_id, answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            for call_id in self._waiting:
                self._settle(call_id, None)

    def _settle(self, call_id: int, answer: Answer | None) -> None:
        arriving = self._waiting.get(call_id)
        if arriving is not None and not arriving.done():
            arriving.set_result(answer)
