"""`/metrics`: the figures of the whole server, for whoever may scrape them."""

from __future__ import annotations

import asyncio
import hmac
from typing import Final

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import Access, Need
from nomemory.server.identity.caller import Metadata, Scope
from nomemory.server.identity.credentials import SentToken, sent_credential
from nomemory.server.identity.factory import checks_credentials
from nomemory.server.metrics.text import CONTENT_TYPE, Exposition
from nomemory.server.overload.bounds import Bounds
from nomemory.server.settings import Settings
from nomemory.server.web.context import HttpContext
from nomemory.server.web.errors import Headers
from nomemory.server.web.exchange import Exchange

METRICS: Final = b"/metrics"
_HEADERS: Final[Headers] = (
    (b"content-type", CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_NEED: Final = Need(frozenset({Scope.ADMIN}))


class MetricsPage:
    """Answers scrapes.

    Where the server checks credentials, or has a token for scrapes, a scrape brings that token, or a credential that
    may see the state of the whole server. Else whoever reaches the server may scrape: that is this machine.

    Args:
        exposition: has the figures.
        bounds: what clients may hold of the server.
        access: knows the other credentials.
        settings: the token, and how long the server waits for its readers.
    """

    def __init__(self, exposition: Exposition, bounds: Bounds, access: Access, settings: Settings) -> None:
        self._exposition = exposition
        self._bounds = bounds
        self._access = access
        token = settings.metrics.token
        self._token = None if token is None else token.get_secret_value().encode()
        self._checks_credentials = checks_credentials(settings)
        self._deadline_s = settings.timing.deadline_default_s

    async def answer(self, exchange: Exchange) -> None:
        """Answer a scrape.

        Raises:
            Fault: CREDENTIALS_MISSING, CREDENTIALS_INVALID or SCOPE_MISSING.
        """
        await self._admit(exchange)
        deadline = asyncio.get_running_loop().time() + self._deadline_s
        async with asyncio.timeout_at(deadline):
            body = await self._exposition.text()
        context = HttpContext(exchange, (), exchange.parts())
        self._bounds.reply(len(body), deadline, context)
        await exchange.respond(200, _HEADERS, body)

    async def _admit(self, exchange: Exchange) -> None:
        if self._token is None and not self._checks_credentials:
            return
        metadata = exchange.metadata()
        if not self._has_token(metadata):
            await self._admit_caller(metadata, exchange)

    def _has_token(self, metadata: Metadata) -> bool:
        sent = sent_credential(metadata)
        if self._token is not None and isinstance(sent, SentToken):
            return hmac.compare_digest(sent.text.encode(), self._token)
        return False

    async def _admit_caller(self, metadata: Metadata, exchange: Exchange) -> None:
        if not self._checks_credentials:
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, "scrapes need the token of NOMEMORY_METRICS_TOKEN")
        caller = await self._access.caller(metadata, exchange.auth)
        self._access.admit(caller, _NEED, metadata)
        if caller.namespace is not None:
            raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, "a namespace does not see the state of the whole server")
