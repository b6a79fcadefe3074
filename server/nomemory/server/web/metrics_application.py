"""What is served at the port of metrics: the figures, and nothing else."""

from __future__ import annotations

from typing import Any

from nomemory.server.rpc.call_path import CallPath
from nomemory.server.settings import Settings
from nomemory.server.web.application import answered, nothing_there
from nomemory.server.web.exchange import Exchange, Scope
from nomemory.server.web.metrics_page import METRICS, MetricsPage
from nomemory.server.web.origins import Origins


class MetricsApplication:
    """Answers scrapes, as ASGI has them.

    Args:
        page: has the answer.
        path: counts what is refused.
        settings: origins.
    """

    def __init__(self, page: MetricsPage, path: CallPath, settings: Settings) -> None:
        self._page = page
        self._meters = path.meters
        self._origins = Origins(settings)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's messages are dicts
        """Answer one request."""
        await answered(Exchange(scope, receive, send), self._answer, self._meters)

    async def _answer(self, exchange: Exchange) -> None:
        self._origins.admit(exchange)
        if exchange.raw_path != METRICS:
            raise nothing_there([])
        if exchange.verb not in {"GET", "HEAD"}:
            raise nothing_there(["GET"])
        await self._page.answer(exchange)
