"""What is served over HTTP: the contract by its annotations, the same by the Connect protocol, and a few pages.

What there is beside calls: health, metrics, the contract as OpenAPI, a page to try it, and the inspector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from grpc_health.v1 import health_pb2

from nomemory.server.faults import Fault, Reason
from nomemory.server.metrics import catalog
from nomemory.server.metrics.meters import Meters
from nomemory.server.rpc.call_lifecycle import fault_of
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.settings import Settings
from nomemory.server.structured_logs import get_logger
from nomemory.server.web.bindings import Binding, Routes, bindings_of, methods_of
from nomemory.server.web.calls import Calls, respond_error
from nomemory.server.web.connect import ConnectDialect
from nomemory.server.web.context import HttpContext
from nomemory.server.web.dialect import Dialect
from nomemory.server.web.encoding import dump
from nomemory.server.web.errors import RefusedError, error_of_fault
from nomemory.server.web.exchange import Exchange, Headers, Scope
from nomemory.server.web.inspector_pages import InspectorPages
from nomemory.server.web.metrics_page import METRICS, MetricsPage
from nomemory.server.web.openapi import document
from nomemory.server.web.origins import Origins
from nomemory.server.web.rest import PLAIN, RestDialect

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
        self._bounds.reply(len(body), _context(exchange))
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


_log = get_logger("http")


class Application:
    """Answers requests, as ASGI has them.

    Args:
        path: what calls pass.
        settings: limits, origins.
        metrics: tells the figures; None: nothing does.
    """

    def __init__(self, path: CallPath, settings: Settings, metrics: MetricsPage | None = None) -> None:
        self._settings = settings
        self._meters = path.meters
        self._calls = Calls(path, settings)
        self._origins = Origins(settings)
        self._methods = {
            f"/{method.containing_service.full_name}/{method.name}": method for method in methods_of(path.needs)
        }
        bindings = [binding for method in self._methods.values() for binding in bindings_of(method)]
        self._routes = Routes(bindings)
        self._site = Site(path, settings, bindings, metrics)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's messages are dicts
        """Answer one request."""
        await answered(Exchange(scope, receive, send), self._answer, self._meters)

    async def _answer(self, exchange: Exchange) -> None:
        self._origins.admit(exchange)
        if self._origins.is_preflight(exchange):
            await exchange.respond(204, self._origins.preflight(), b"")
        elif not await self._site.answer(exchange):
            path, dialect = self._call(exchange)
            await self._calls.answer(exchange, path, dialect)

    def _call(self, exchange: Exchange) -> tuple[str, Dialect]:
        """Return what a request calls, and how it is spoken."""
        method = self._methods.get(exchange.raw_path.decode("latin-1"))
        if method is not None and exchange.verb == "POST":
            return exchange.raw_path.decode(), ConnectDialect.of(exchange, method, self._settings)
        match = self._routes.match(exchange.verb, exchange.raw_path)
        if match is None:
            verbs = ["POST"] if method is not None else self._routes.verbs(exchange.raw_path)
            raise nothing_there(verbs)
        return match.binding.path, RestDialect.of(exchange, match, self._settings)


async def answered(exchange: Exchange, answer: Callable[[Exchange], Coroutine[Any, Any, None]], meters: Meters) -> None:
    """Answer a request; what is raised becomes a refusal."""
    with exchange.connection.working():
        try:
            await answer(exchange)
        except RefusedError as refused:
            await _refuse(exchange, refused, meters)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - what no call has turned into a status; nobody else does
            await _refuse(exchange, RefusedError(fault_of(error, _log)), meters)


async def _refuse(exchange: Exchange, refused: RefusedError, meters: Meters) -> None:
    if exchange.is_answered:  # half an answer cannot become another one
        exchange.connection.abort()
        return
    error = error_of_fault(refused.fault, exchange.request_id, refused.http_status)
    reason = Reason.Name(refused.fault.reason)
    meters.count(catalog.HTTP_REFUSED, reason.removeprefix("ERROR_REASON_"))
    _log.info("refused", request_id=exchange.request_id, status=error.http_status, reason=reason)
    await respond_error(exchange, error, PLAIN, refused.headers)


def nothing_there(verbs: list[str]) -> RefusedError:
    """Return the refusal of a path that has nothing, or takes only some verbs."""
    if not verbs:
        return RefusedError(Fault(Reason.ERROR_REASON_NO_SUCH_PATH, "there is nothing at this path"))
    fault = Fault(Reason.ERROR_REASON_NO_SUCH_PATH, f"this path takes {' and '.join(verbs)}")
    return RefusedError(fault, 405, ((b"allow", ", ".join(verbs).encode()),))
