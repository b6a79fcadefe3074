"""The writer's end of the pipe to one reader."""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from nomemory.server.processes.pipe import HEADER, Answer, Withdrawn, pack, unpack
from nomemory.server.processes.startup_barrier import Rendezvous
from nomemory.server.processes.writer_calls import Join, Refusal, Request, Serving
from nomemory.server.rpc.unexpected_error import fault_of

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_log = structlog.get_logger("workers")


class ReaderDesk:
    """Answers one reader, as many calls at a time as it makes.

    Args:
        number: which reader.
        streams: this end of the pipe.
        rendezvous: knows what readers are told, and who answers them.
    """

    def __init__(self, number: int, streams: Streams, rendezvous: Rendezvous) -> None:
        self._number = number
        self._reader, self._writer = streams
        self._rendezvous = rendezvous
        self._under_way: dict[int, asyncio.Task[object]] = {}

    async def serve(self) -> None:
        """Answer until the reader is gone. What it was still waiting for is dropped, as if a caller had hung up."""
        try:
            while True:
                self._take(*await self._next())
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._writer.close()
            for task in list(self._under_way.values()):
                task.cancel()

    async def _next(self) -> tuple[int, Request | Withdrawn]:
        length, call_id = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        return call_id, unpack(await self._reader.readexactly(length))

    def _take(self, call_id: int, request: Request | Withdrawn) -> None:
        if isinstance(request, Withdrawn):
            if call_id in self._under_way:
                self._under_way[call_id].cancel()
            return
        task = self._under_way[call_id] = asyncio.create_task(self._value(request))
        task.add_done_callback(partial(self._reply, call_id))

    def _reply(self, call_id: int, done: asyncio.Task[object]) -> None:
        del self._under_way[call_id]
        if done.cancelled() or self._writer.is_closing():
            return
        error = done.exception()
        value = done.result() if error is None else Refusal.of(fault_of(error, _log))
        self._writer.write(pack(call_id, Answer(value)))

    async def _value(self, request: Request) -> object:
        match request:
            case Join():
                return await self._rendezvous.orders()
            case Serving():
                self._rendezvous.note_serving(self._number)
                return None
            case _:
                return await (await self._rendezvous.side()).answer(request)
