"""Replies of streaming methods: server-sent events, or lines of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import orjson
from starlette.types import Send

from nomemory.server.api.http.json_reply import UNCACHED
from nomemory.server.api.http.request_body import JSON_LINES

HEARTBEAT_S: Final = 15.0
"""After this time without an event, a stream of events sends an empty comment. Proxies end silent connections."""
_SEND_TIMEOUT_S: Final = 60.0
"""A stream of which the client takes nothing for this time ends."""
_HEADERS: Final = {**UNCACHED, "x-accel-buffering": "no"}


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """The form of a stream.

    Attributes:
        media_type: of the reply.
        reply: makes a part of the stream from a reply in JSON.
        error: makes the last part from the body of an error.
        end: the last part of a complete stream. A stream without an end and without an error was cut off.
        heartbeat: a part that clients ignore; empty: there is none.
    """

    media_type: str
    reply: Callable[[bytes], bytes]
    error: Callable[[dict[str, Any]], bytes]
    end: bytes
    heartbeat: bytes


EVENTS: Final = StreamFormat(
    "text/event-stream; charset=utf-8",
    lambda reply: b"data: %b\n\n" % reply,  # JSON has no line breaks
    lambda error: b"event: error\ndata: %b\n\n" % orjson.dumps(error),
    b"event: end\ndata: {}\n\n",
    b":\n\n",
)
LINES: Final = StreamFormat(
    JSON_LINES,
    lambda reply: reply + b"\n",
    lambda error: orjson.dumps(error) + b"\n",
    b"",
    b"",
)


class StreamReply:
    """The reply to one request, sent part by part.

    Args:
        send: ASGI's way to answer.
        form: the form of the stream.

    Attributes:
        form: the form of the stream.
        is_started: whether the status and the headers are sent.
    """

    def __init__(self, send: Send, form: StreamFormat) -> None:
        self.is_started = False
        self._send = send
        self.form = form
        self._lock = asyncio.Lock()
        self._last_sent = asyncio.get_running_loop().time()

    async def send(self, part: bytes, *, is_last: bool = False) -> None:
        """Send a part, after the status and the headers if it is the first one.

        Raises:
            TimeoutError: the client does not take what was sent before.
        """
        async with self._lock, asyncio.timeout(_SEND_TIMEOUT_S):
            self._last_sent = asyncio.get_running_loop().time()
            if not self.is_started:
                self.is_started = True
                await self._start()
            await self._send({"type": "http.response.body", "body": part, "more_body": not is_last})

    @asynccontextmanager
    async def heartbeats(self) -> AsyncIterator[None]:
        """Send a heartbeat whenever the stream is silent, until the context is left."""
        task = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            task.cancel()

    async def _start(self) -> None:
        headers = {"content-type": self.form.media_type, **_HEADERS}
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": encoded})

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while self.form.heartbeat:
            await asyncio.sleep(self._last_sent + HEARTBEAT_S - loop.time())
            if loop.time() >= self._last_sent + HEARTBEAT_S:
                await self.send(self.form.heartbeat)
