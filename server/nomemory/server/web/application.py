"""What is served over HTTP: the contract by its annotations, the same by the Connect protocol, and a few pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nomemory.server.faults import Reason
from nomemory.server.metrics import catalog
from nomemory.server.metrics.meters import Meters
from nomemory.server.overload.bounds import Bounds
from nomemory.server.rpc.call_lifecycle import fault_of
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.settings import Settings
from nomemory.server.structured_logs import get_logger
from nomemory.server.web.bindings import binding_of, methods_of
from nomemory.server.web.calls import Calls, nothing_there, respond_error
from nomemory.server.web.dialects import plain_error
from nomemory.server.web.errors import error_of_fault
from nomemory.server.web.exchange import Exchange, Scope
from nomemory.server.web.openapi import document
from nomemory.server.web.origins import Origins
from nomemory.server.web.pages import METRICS, MetricsPage, Page, description, inspector, probe

_log = get_logger("http")


@dataclass(frozen=True, slots=True)
class Application:
    """Answers requests, as ASGI has them.

    Attributes:
        admit: raises a fault where a request may not come in; it may answer one.
        pages: what is at fixed paths.
        calls: answers whatever else comes; None: nothing does.
        bounds: what clients may hold of the server.
        meters: count what is refused.
    """

    admit: Callable[[Exchange], Awaitable[None]]
    pages: Mapping[bytes, Page]
    calls: Calls | None
    bounds: Bounds
    meters: Meters

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's messages are dicts
        """Answer one request; what is raised becomes a refusal."""
        exchange = Exchange(scope, receive, send, self.bounds.holding)
        try:
            await self._answer(exchange)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - what no call has turned into a status; nobody else does
            await self._refuse(exchange, error)

    async def _answer(self, exchange: Exchange) -> None:
        await self.admit(exchange)
        page = self.pages.get(exchange.raw_path)
        if exchange.is_answered:
            return
        if page is not None and exchange.verb in {"GET", "HEAD"}:
            await page(exchange)
        elif self.calls is not None:
            await self.calls.answer(exchange)
        else:
            raise nothing_there(["GET"] if page is not None else [])

    async def _refuse(self, exchange: Exchange, cause: BaseException) -> None:
        fault = fault_of(cause, _log)
        if exchange.is_answered:  # half an answer cannot become another one
            exchange.connection.abort()
            return
        error, reason = error_of_fault(fault, exchange.request_id), Reason.Name(fault.reason)
        self.meters.count(catalog.HTTP_REFUSED, reason.removeprefix("ERROR_REASON_"))
        _log.info("refused", request_id=exchange.request_id, status=error.http_status, reason=reason)
        await respond_error(exchange, error, plain_error)


def application_of_calls(path: CallPath, settings: Settings, metrics: MetricsPage | None) -> Application:
    """Make the application that serves calls.

    Args:
        path: what calls pass.
        settings: limits, origins; whether the server describes itself and has the inspector.
        metrics: tells the figures; None: nothing does.
    """
    bindings = [binding_of(method) for method in methods_of(path.needs)]
    pages: dict[bytes, Page] = {b"/healthz": probe(path.health)}
    if metrics is not None:
        pages[METRICS] = metrics.answer
    if settings.server.reflection:
        pages |= description(document(bindings, path.needs), path.bounds)
    if settings.http.inspect:
        pages |= inspector(path.bounds)
    calls = Calls(path.needs, bindings, path.handler, path.bounds, settings)
    return Application(Origins(settings).admit, pages, calls, path.bounds, path.meters)


def application_of_metrics(page: MetricsPage, path: CallPath, settings: Settings) -> Application:
    """Make the application that serves metrics, and nothing else."""
    return Application(Origins(settings).admit, {METRICS: page.answer}, None, path.bounds, path.meters)
