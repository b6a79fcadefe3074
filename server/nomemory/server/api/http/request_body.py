"""The body of a request: read in parts, within a limit."""

from __future__ import annotations

import asyncio
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
    """A body is of a media type, or has an encoding, that the method does not take."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.ERROR_REASON_MALFORMED_REQUEST, message)


class RequestBody:
    """The body of one request.

    Args:
        headers: those of the request.
        receive: ASGI's way to read it.
        max_bytes: the maximum size of the body, or of one line in a body of lines.

    Attributes:
        is_present: whether there is one.
        media_type: without its parameters, in lower case.
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

    def require(self, *media_types: str) -> None:
        """Check the media type. Browsers send a form or plain text from any page without a preflight request.

        Raises:
            UnsupportedMediaTypeError: it is another one, or the body is compressed.
            Fault: MALFORMED_REQUEST, its length is given in two ways. A proxy in front may have taken the other one.
        """
        if self._has_two_lengths:
            raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "send a content-length or a transfer-encoding, not both")
        if self.media_type not in media_types:
            raise UnsupportedMediaTypeError(f"send the body as {' or '.join(media_types)}")
        if self._encoding != "identity":
            raise UnsupportedMediaTypeError("bodies must not be compressed")

    async def read(self, reserve: Reserve) -> bytes:
        """Return the whole body.

        Args:
            reserve: counts its bytes as they arrive.

        Raises:
            Fault: REQUEST_TOO_LARGE; OVERLOADED, the process holds too many bytes of requests.
        """
        self._refuse_large(self._declared_bytes)
        body = bytearray()
        async for part in self._parts():
            reserve(len(part))
            body += part
            self._refuse_large(len(body))
        return bytes(body)

    async def lines(self) -> AsyncIterator[bytes]:
        """Return the lines that are not blank, each as soon as it is complete.

        Raises:
            Fault: REQUEST_TOO_LARGE, a line is too long.
        """
        pending = bytearray()
        async for part in self._parts():
            await asyncio.sleep(0)  # many parts may have arrived already
            *complete, rest = part.split(b"\n")
            if complete:
                complete[0] = bytes(pending + complete[0])
                pending.clear()
            for line in filter(None, map(bytes.strip, complete)):
                self._refuse_large(len(line))
                yield line
            pending += rest
            self._refuse_large(len(pending))
        if last := pending.strip():
            yield bytes(last)

    @asynccontextmanager
    async def cancels_on_disconnect(self) -> AsyncIterator[None]:
        """Cancel the current task if the client disconnects before the context is left."""
        task = asyncio.current_task()

        async def watch() -> None:
            if self.is_present:
                await self._is_read.wait()  # until then `read` notices
            while (await self._receive())["type"] != "http.disconnect":
                pass
            if task is not None:
                task.cancel()

        watcher = asyncio.create_task(watch())
        try:
            yield
        finally:
            watcher.cancel()

    async def _parts(self) -> AsyncIterator[bytes]:
        while self.is_present and not self._is_read.is_set():
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise asyncio.CancelledError
            if not message.get("more_body", False):
                self._is_read.set()
            yield message.get("body", b"")

    def _refuse_large(self, size: int) -> None:
        if size > self._max_bytes:
            raise Fault(Reason.ERROR_REASON_REQUEST_TOO_LARGE, f"the request is larger than {self._max_bytes} bytes")
