"""What there is beside calls: health, metrics, the contract as OpenAPI, a page to try it, and the inspector."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from grpc_health.v1 import health_pb2

from nomemory.server.rpc.call_path import CallPath
from nomemory.server.settings import Settings
from nomemory.server.web.bindings import Binding
from nomemory.server.web.context import HttpContext
from nomemory.server.web.encoding import dump
from nomemory.server.web.exchange import Exchange, Headers
from nomemory.server.web.inspector_pages import InspectorPages
from nomemory.server.web.metrics_page import METRICS, MetricsPage
from nomemory.server.web.openapi import document

_PAGES: Final = Path(__file__).with_name("page")
_FILES: Final = {
    b"/": ("index.html", "text/html; charset=utf-8"),
    b"/page.css": ("page.css", "text/css; charset=utf-8"),
    b"/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final[Headers] = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
_PROBED: Final[Headers] = ((b"cache-control", b"no-store"),)
_SERVING: Final = health_pb2.HealthCheckResponse.SERVING


class Site:
    """Answers what is no call.

    Args:
        path: knows the state of the server, and what clients may hold of it.
        settings: whether the server describes itself and has the inspector, and how long it waits for its readers.
        bindings: what it describes.
        metrics: tells the figures; None: nothing does.
    """

    def __init__(
        self, path: CallPath, settings: Settings, bindings: Sequence[Binding], metrics: MetricsPage | None
    ) -> None:
        self._metrics = metrics
        self._inspector = InspectorPages() if settings.http.inspect else None
        self._health = path.health
        self._bounds = path.bounds
        self._deadline_s = settings.timing.deadline_default_s
        self._is_described = settings.server.reflection
        self._bindings = bindings
        self._needs = path.needs

    async def answer(self, exchange: Exchange) -> bool:
        """Answer; return False where a request is for something else."""
        if exchange.verb not in {"GET", "HEAD"}:
            return False
        if exchange.raw_path == b"/healthz":
            await self._answer_probe(exchange)
        elif self._metrics is not None and exchange.raw_path == METRICS:
            await self._metrics.answer(exchange)
        elif self._is_described and exchange.raw_path == b"/openapi.json":
            await self._answer_file(exchange, "application/json", self._document)
        elif self._is_described and exchange.raw_path in _FILES:
            name, media_type = _FILES[exchange.raw_path]
            await self._answer_file(exchange, media_type, (_PAGES / name).read_bytes())
        elif self._inspector is not None and (page := self._inspector.at(exchange.raw_path)) is not None:
            await self._answer_page(exchange, page.status, page.headers, page.body)
        else:
            return False
        return True

    async def _answer_file(self, exchange: Exchange, media_type: str, body: bytes) -> None:
        await self._answer_page(exchange, 200, ((b"content-type", media_type.encode()), *_SAFE), body)

    async def _answer_page(self, exchange: Exchange, status: int, headers: Headers, body: bytes) -> None:
        deadline = asyncio.get_running_loop().time() + self._deadline_s
        self._bounds.reply(len(body), deadline, _context(exchange))
        await exchange.respond(status, headers, body)

    async def _answer_probe(self, exchange: Exchange) -> None:
        state = await self._health.Check(health_pb2.HealthCheckRequest(), _context(exchange))
        name = health_pb2.HealthCheckResponse.ServingStatus.Name(state.status)
        status = 200 if state.status == _SERVING else 503
        await exchange.respond(status, (*_PROBED, (b"content-type", b"application/json")), dump({"status": name}))

    @cached_property
    def _document(self) -> bytes:
        return dump(document(self._bindings, self._needs))


def _context(exchange: Exchange) -> HttpContext:
    return HttpContext((), exchange.connection.peer, exchange.auth, None, exchange.parts())
