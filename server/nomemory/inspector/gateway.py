"""The inspector of a server elsewhere: its page, and the reading calls of the contract by the Connect protocol."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Final

from google.protobuf.descriptor import MethodDescriptor

from nomemory.inspector.forwarding import ForwardedError, Forwarding
from nomemory.inspector.guard import Guard
from nomemory.inspector.reading import READING
from nomemory.server.http_address import INSPECTOR
from nomemory.server.metrics.meters import CallMeter
from nomemory.server.settings import Settings
from nomemory.server.web.application import answered, nothing_there
from nomemory.server.web.calls import respond_error
from nomemory.server.web.connect import ConnectDialect
from nomemory.server.web.exchange import Exchange, Headers, Scope
from nomemory.server.web.inspector_pages import InspectorPages

_SAFE: Final[Headers] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Gateway:
    """Answers requests, as ASGI has them.

    Args:
        guard: lets them in.
        forwarding: where calls go.
        settings: limits of requests.
    """

    def __init__(self, guard: Guard, forwarding: Forwarding, settings: Settings) -> None:
        self._guard = guard
        self._forwarding = forwarding
        self._settings = settings
        self._pages = InspectorPages()
        self._meter = CallMeter()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's messages are dicts
        """Answer one request."""
        await answered(Exchange(scope, receive, send), self._answer, self._meter)

    async def _answer(self, exchange: Exchange) -> None:
        self._guard.admit(exchange)
        path = exchange.raw_path.decode("latin-1")
        page = self._pages.at(INSPECTOR.rstrip("/").encode() if path == "/" else exchange.raw_path)
        if page is not None and exchange.verb in {"GET", "HEAD"}:
            await exchange.respond(page.status, page.headers, page.body)
        elif path in READING and exchange.verb == "POST":
            self._guard.authorize(exchange)
            await self._call(exchange, path, READING[path])
        else:
            raise nothing_there(["GET"] if page is not None else ["POST"] if path in READING else [])

    async def _call(self, exchange: Exchange, path: str, method: MethodDescriptor) -> None:
        dialect = ConnectDialect.of(exchange, method, self._settings)
        async with asyncio.timeout(self._settings.timing.deadline_default_s):
            request = await anext(dialect.requests(exchange), b"")
        try:
            if method.server_streaming:
                await self._stream(exchange, path, dialect, request)
            else:
                reply = await self._forwarding.unary(path, request, exchange.metadata())
                media_type = (b"content-type", dialect.media_type.encode())
                await exchange.respond(200, (media_type, *_SAFE), dialect.reply(reply))
        except ForwardedError as forwarded:
            await self._refuse(exchange, dialect, forwarded)

    async def _stream(self, exchange: Exchange, path: str, dialect: ConnectDialect, request: bytes) -> None:
        form = dialect.stream()
        async with aclosing(self._forwarding.stream(path, request, exchange.metadata())) as replies:
            async for raw in replies:
                if not exchange.is_answered:
                    await exchange.start(200, ((b"content-type", form.media_type.encode()), *_SAFE))
                await exchange.send(form.reply(raw))
        if not exchange.is_answered:
            await exchange.start(200, ((b"content-type", form.media_type.encode()), *_SAFE))
        await exchange.end(form.end())

    async def _refuse(self, exchange: Exchange, dialect: ConnectDialect, forwarded: ForwardedError) -> None:
        if exchange.is_answered:
            await exchange.end(dialect.stream().error(forwarded.error))
        else:
            await respond_error(exchange, forwarded.error, dialect)
