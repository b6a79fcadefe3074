"""What is served over HTTP: the contract by its annotations, the same by the Connect protocol, and a few pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from nomemory.server.faults import Fault, Reason
from nomemory.server.metrics.meters import CallMeter
from nomemory.server.rpc.call_path import CallPath
from nomemory.server.rpc.unexpected_error import fault_of
from nomemory.server.settings import Settings
from nomemory.server.structured_logs import get_logger
from nomemory.server.web.bindings import bindings_of, methods_of
from nomemory.server.web.calls import Calls, respond_error
from nomemory.server.web.connect import ConnectDialect
from nomemory.server.web.dialect import Dialect
from nomemory.server.web.errors import RefusedError, error_of_fault
from nomemory.server.web.exchange import Exchange, Scope
from nomemory.server.web.metrics_page import MetricsPage
from nomemory.server.web.origins import Origins
from nomemory.server.web.rest import PLAIN, RestDialect
from nomemory.server.web.routes import Routes
from nomemory.server.web.site import Site

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
        self._meter = path.meter
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
        await answered(Exchange(scope, receive, send), self._answer, self._meter)

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


async def answered(
    exchange: Exchange, answer: Callable[[Exchange], Coroutine[Any, Any, None]], meter: CallMeter
) -> None:
    """Answer a request; what is raised becomes a refusal."""
    with exchange.connection.working():
        try:
            await answer(exchange)
        except RefusedError as refused:
            await _refuse(exchange, refused, meter)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - what no call has turned into a status; nobody else does
            await _refuse(exchange, RefusedError(fault_of(error, _log)), meter)


async def _refuse(exchange: Exchange, refused: RefusedError, meter: CallMeter) -> None:
    if exchange.is_answered:  # half an answer cannot become another one
        exchange.connection.abort()
        return
    error = error_of_fault(refused.fault, exchange.request_id, refused.http_status)
    reason = Reason.Name(refused.fault.reason)
    meter.refused(reason)
    _log.info("refused", request_id=exchange.request_id, status=error.http_status, reason=reason)
    await respond_error(exchange, error, PLAIN, refused.headers)


def nothing_there(verbs: list[str]) -> RefusedError:
    """Return the refusal of a path that has nothing, or takes only some verbs."""
    if not verbs:
        return RefusedError(Fault(Reason.ERROR_REASON_NO_SUCH_PATH, "there is nothing at this path"))
    fault = Fault(Reason.ERROR_REASON_NO_SUCH_PATH, f"this path takes {' and '.join(verbs)}")
    return RefusedError(fault, 405, ((b"allow", ", ".join(verbs).encode()),))
