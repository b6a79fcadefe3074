"""What is served beside calls: health, figures, the contract as OpenAPI and a page to try it, and the inspector.

The inspector is a page that shows what the memory holds, and how a recall comes about. It only reads.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grpc_health.v1 import health, health_pb2

from nomemory.server.faults import Fault, Reason
from nomemory.server.identity.access import Access, Need
from nomemory.server.identity.caller import Metadata, Scope
from nomemory.server.identity.credentials import SentToken, sent_credential
from nomemory.server.identity.factory import checks_credentials
from nomemory.server.listen_address import INSPECTOR
from nomemory.server.metrics.exporter import MetricsExporter
from nomemory.server.metrics.text import CONTENT_TYPE
from nomemory.server.overload.bounds import Bounds
from nomemory.server.settings import Settings
from nomemory.server.web.calls import HttpContext
from nomemory.server.web.errors import Headers
from nomemory.server.web.exchange import Exchange
from nomemory.server.web.transcoding import dump

Page = Callable[[Exchange], Awaitable[None]]
"""Answers a GET."""

_HERE: Final = Path(__file__).parent
_MEDIA_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_JSON: Final = (b"content-type", b"application/json")
_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_SAFE: Final[Headers] = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_FIGURES: Final[Headers] = (
    (b"content-type", CONTENT_TYPE.encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
METRICS: Final = b"/metrics"
_SCRAPES: Final = Need(frozenset({Scope.ADMIN}))
"""What a caller needs for them who has no token of scrapes."""


def probe(states: health.aio.HealthServicer) -> Page:
    """Return what says whether the server serves."""

    async def answer(exchange: Exchange) -> None:
        context = HttpContext(exchange, (), exchange.parts())
        state = await states.Check(health_pb2.HealthCheckRequest(), context)
        name = health_pb2.HealthCheckResponse.ServingStatus.Name(state.status)
        status = 200 if state.status == health_pb2.HealthCheckResponse.SERVING else 503
        await exchange.respond(status, ((b"cache-control", b"no-store"), _JSON), dump({"status": name}))

    return answer


def description(document: Mapping[str, Any], bounds: Bounds) -> dict[bytes, Page]:
    """Return the contract, and a page to try it."""
    described = _fixed(200, (_JSON,), dump(document), bounds)
    return {b"/openapi.json": described, **_folder("page", "/", bounds)}


def inspector(bounds: Bounds) -> dict[bytes, Page]:
    """Return the inspector's files."""
    to_it = _fixed(308, ((b"location", INSPECTOR.encode()),), b"", bounds)
    return {INSPECTOR.rstrip("/").encode(): to_it, **_folder("inspector", INSPECTOR, bounds)}


def _folder(name: str, at: str, bounds: Bounds) -> dict[bytes, Page]:
    """Return the files of a folder, and of the look, by their paths. They do not change while the process runs."""
    found: dict[bytes, Page] = {}
    for folder, file in ((one, file) for one in (_HERE / "look", _HERE / name) for file in one.rglob("*")):
        if media_type := _MEDIA_TYPES.get(file.suffix):
            page = _fixed(200, ((b"content-type", media_type),), file.read_bytes(), bounds)
            found[f"{at}{file.relative_to(folder).as_posix()}".encode()] = page
    return {at.encode(): found[f"{at}index.html".encode()], **found}


def _fixed(status: int, headers: Headers, body: bytes, bounds: Bounds) -> Page:
    return lambda exchange: _respond(exchange, status, (*headers, *_SAFE), body, bounds)


async def _respond(exchange: Exchange, status: int, headers: Headers, body: bytes, bounds: Bounds) -> None:
    """Answer with what counts among the replies that clients have not taken yet."""
    bounds.reply(len(body), HttpContext(exchange, (), exchange.parts()))
    await exchange.respond(status, headers, body)


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """Answers scrapes.

    Where the server checks credentials, or has a token for scrapes, a scrape brings that token, or a credential that
    may see the state of the whole server. Else whoever reaches the server may scrape: that is this machine.

    Attributes:
        exposition: has the figures.
        bounds: what clients may hold of the server.
        access: knows the other credentials.
        settings: the token, and how long the server waits for its readers.
    """

    exposition: MetricsExporter
    bounds: Bounds
    access: Access
    settings: Settings

    async def answer(self, exchange: Exchange) -> None:
        """Answer a scrape.

        Raises:
            Fault: CREDENTIALS_MISSING, CREDENTIALS_INVALID or SCOPE_MISSING.
        """
        await self._admit(exchange)
        async with asyncio.timeout(self.settings.timing.deadline_default_s):
            body = await self.exposition.text()
        await _respond(exchange, 200, _FIGURES, body, self.bounds)

    async def _admit(self, exchange: Exchange) -> None:
        if self.settings.metrics.token is None and not checks_credentials(self.settings):
            return
        metadata = exchange.metadata()
        if not self._has_token(metadata):
            await self._admit_caller(metadata, exchange)

    def _has_token(self, metadata: Metadata) -> bool:
        sent = sent_credential(metadata)
        token = self.settings.metrics.token
        if token is None or not isinstance(sent, SentToken):
            return False
        return hmac.compare_digest(sent.text.encode(), token.get_secret_value().encode())

    async def _admit_caller(self, metadata: Metadata, exchange: Exchange) -> None:
        if not checks_credentials(self.settings):
            raise Fault(Reason.ERROR_REASON_CREDENTIALS_INVALID, "scrapes need the token of NOMEMORY_METRICS_TOKEN")
        caller = await self.access.caller(metadata, exchange.auth)
        self.access.admit(caller, _SCRAPES, metadata)
        if caller.namespace is not None:
            raise Fault(Reason.ERROR_REASON_SCOPE_MISSING, "a namespace does not see the state of the whole server")
