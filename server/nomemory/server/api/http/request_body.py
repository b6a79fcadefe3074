"""Reading of request bodies with a size limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Receive

from nomemory.server.api.limits import Reserve
from nomemory.server.faults import Fault, Reason

JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"


class UnsupportedMediaTypeError(Fault):
    """The method does not support the media type or the content encoding of the request body."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.ERROR_REASON_MALFORMED_REQUEST, message)


class RequestBody:
    """The body of an HTTP request.

    Args:
        max_bytes: the maximum size of the body for `read`, and of a line for `read_line`.

    Attributes:
        is_present: whether the request has a body.
        media_type: the media type of the body without parameters, in lower case.
    """

    def __init__(self, headers: Headers, receive: Receive, max_bytes: int) -> None:
        self._declared_bytes = int(headers.get("content-length", "0"))
        self._has_two_lengths = "transfer-encoding" in headers and "content-length" in headers
        self.is_present = "transfer-encoding" in headers or self._declared_bytes > 0
        self.media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        self._encoding = headers.get("content-encoding", "identity")
        self._receive = receive
        self._max_bytes = max_bytes
        self._is_read = asyncio.Event()
        self._chunks = self._receive_chunks()
        self._lines = deque[bytes]()
        self._partial_line = bytearray()

    def require_media_type(self, *media_types: str) -> None:
        """Raise an error if the media type is not one of `media_types`.

        This check also prevents cross-site requests, because browsers send forms and plain text without a preflight
        request.

        Raises:
            UnsupportedMediaTypeError: the media type is not in `media_types`, or the body is compressed.
            Fault: MALFORMED_REQUEST, the request has both a content-length and a transfer-encoding (request smuggling).
        """
        if self._has_two_lengths:
            raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "send a content-length or a transfer-encoding, not both")
        if self.media_type not in media_types:
            raise UnsupportedMediaTypeError(f"unsupported content-type: send the body as {' or '.join(media_types)}")
        if self._encoding != "identity":
            raise UnsupportedMediaTypeError("unsupported content-encoding: send the body uncompressed")

    async def read(self, reserve: Reserve) -> bytes:
        """Read and return the whole body.

        Args:
            reserve: called with the size of each chunk, to reserve memory for it.

        Raises:
            Fault: REQUEST_TOO_LARGE, the body is longer than `max_bytes`; OVERLOADED, the request memory limit is
                reached.
        """
        self._reject_large(self._declared_bytes)
        body = bytearray()
        async for chunk in self._chunks:
            reserve(len(chunk))
            body += chunk
            self._reject_large(len(body))
        return bytes(body)

    async def read_line(self, reserve: Reserve) -> bytes | None:
        """Return the next non-blank line of the body as soon as it has arrived; None at the end.

        Args:
            reserve: called to reserve memory for the line while it arrives.

        Raises:
            Fault: REQUEST_TOO_LARGE, the line is longer than `max_bytes`; OVERLOADED, the request memory limit is
                reached.
        """
        reserved = len(self._partial_line)
        reserve(reserved)
        while not self._lines:
            chunk = await anext(self._chunks, None)
            if chunk is None:
                last_line = bytes(self._partial_line.strip())
                self._partial_line.clear()
                return last_line or None
            await asyncio.sleep(0)  # receiving parts that have already arrived does not yield to the event loop
            reserve(len(chunk))
            reserved += len(chunk)
            self._split_lines(chunk)
        line = self._lines.popleft()
        reserve(max(0, len(line) - reserved))
        return line

    def _split_lines(self, chunk: bytes) -> None:
        """Append the complete lines of a chunk to `_lines`, and keep the rest as the beginning of the next line."""
        *complete, rest = chunk.split(b"\n")
        if complete:
            complete[0] = bytes(self._partial_line + complete[0])
            self._partial_line.clear()
        self._partial_line += rest
        self._lines.extend(filter(None, map(bytes.strip, complete)))
        self._reject_large(max(len(self._partial_line), *map(len, self._lines), 0))

    @asynccontextmanager
    async def cancel_on_disconnect(self) -> AsyncIterator[None]:
        """Cancel the current task if the client disconnects before the context ends."""
        task = asyncio.current_task()

        async def cancel_after_disconnect() -> None:
            if self.is_present:
                await self._is_read.wait()  # until then, `read` detects disconnects
            while (await self._receive())["type"] != "http.disconnect":
                pass
            if task is not None:
                task.cancel()

        watcher = asyncio.create_task(cancel_after_disconnect())
        try:
            yield
        finally:
            watcher.cancel()

    async def _receive_chunks(self) -> AsyncIterator[bytes]:
        while self.is_present and not self._is_read.is_set():
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise asyncio.CancelledError
            if not message.get("more_body", False):
                self._is_read.set()
            yield message.get("body", b"")

    def _reject_large(self, size: int) -> None:
        if size > self._max_bytes:
            raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, f"the request is larger than {self._max_bytes} bytes")
