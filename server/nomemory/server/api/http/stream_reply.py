"""Streaming HTTP responses, as server-sent events or JSON lines."""

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
"""Idle time after which an event stream sends an empty comment, because proxies close idle connections."""
_SEND_TIMEOUT_S: Final = 60.0
"""Timeout for sending one part of a stream."""
_HEADERS: Final = {**UNCACHED, "x-accel-buffering": "no"}


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """The wire format of a streaming response.

    Attributes:
        reply: formats one JSON response as a chunk of the stream.
        error: formats an error as the last chunk of the stream.
        end: the last chunk of a complete stream. An event stream that ends with neither `end` nor an error is
            truncated.
        heartbeat: a chunk that clients ignore; empty if the format has no heartbeats.
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
    """A streaming response.

    Attributes:
        is_started: whether the status and the headers have been sent.
    """

    def __init__(self, send: Send, form: StreamFormat) -> None:
        self.is_started = False
        self._send = send
        self.form = form
        self._lock = asyncio.Lock()
        self._last_sent = asyncio.get_running_loop().time()

    async def send(self, chunk: bytes, *, is_last: bool = False) -> None:
        """Send a chunk of the stream, and the status and the headers before the first chunk.

        Raises:
            TimeoutError: the client has not read the stream for a minute.
        """
        async with self._lock, asyncio.timeout(_SEND_TIMEOUT_S):
            self._last_sent = asyncio.get_running_loop().time()
            if not self.is_started:
                self.is_started = True
                await self._send_headers()
            await self._send({"type": "http.response.body", "body": chunk, "more_body": not is_last})

    @asynccontextmanager
    async def send_heartbeats(self) -> AsyncIterator[None]:
        """Send a heartbeat whenever the stream has been idle for `HEARTBEAT_S` seconds, until the context ends."""
        task = asyncio.create_task(self._repeat_heartbeat())
        try:
            yield
        finally:
            task.cancel()

    async def _send_headers(self) -> None:
        headers = {"content-type": self.form.media_type, **_HEADERS}
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": encoded})

    async def _repeat_heartbeat(self) -> None:
        loop = asyncio.get_running_loop()
        while self.form.heartbeat:
            await asyncio.sleep(self._last_sent + HEARTBEAT_S - loop.time())
            if loop.time() >= self._last_sent + HEARTBEAT_S:
                await self.send(self.form.heartbeat)
