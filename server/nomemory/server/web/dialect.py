"""How a call is spoken over HTTP: how its requests are read, its replies and its errors written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from nomemory.server.web.errors import ErrorStatus
from nomemory.server.web.exchange import Exchange


class StreamForm(Protocol):
    """How a stream of replies is written."""

    @property
    def media_type(self) -> str:
        """The stream's media type."""

    def reply(self, raw: bytes) -> bytes:
        """Return a reply, which comes in the binary format, as a part of the stream."""

    def end(self) -> bytes:
        """Return what ends a stream that is whole."""

    def error(self, error: ErrorStatus) -> bytes:
        """Return what ends a stream that is not."""

    def beat(self) -> bytes:
        """Return what shows that a silent stream lives; empty: there is nothing that a client would pass over."""


class ErrorForm(Protocol):
    """How an error is written."""

    def error(self, error: ErrorStatus) -> tuple[int, str, bytes]:
        """Return the status, the media type and the body of an answer that is an error."""


class Dialect(ErrorForm, Protocol):
    """How one call is spoken."""

    @property
    def media_type(self) -> str:
        """The media type of a single reply."""

    def requests(self, exchange: Exchange) -> AsyncIterator[bytes]:
        """Return the requests in the binary format, each read when it is asked for. The stream raises faults."""

    def reply(self, raw: bytes) -> bytes:
        """Return a single reply, which comes in the binary format."""

    def stream(self) -> StreamForm:
        """Return how a stream of replies is written."""
