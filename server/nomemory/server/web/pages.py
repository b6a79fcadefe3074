"""What is served beside calls: health, the contract as OpenAPI and a page to try it, and the inspector.

The inspector is a page that shows what the memory holds, and how a recall comes about. It only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from grpc_health.v1 import health, health_pb2

from nomemory.server.listen_address import INSPECTOR
from nomemory.server.overload.bounds import Bounds
from nomemory.server.settings import Settings
from nomemory.server.web.context import HttpContext
from nomemory.server.web.encoding import dump
from nomemory.server.web.errors import Headers
from nomemory.server.web.exchange import Exchange

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
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
_SAFE: Final[Headers] = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)
_INSPECTOR_SAFE: Final[Headers] = (
    (
        b"content-security-policy",
        _POLICY + b"; img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


def probe(states: health.aio.HealthServicer) -> Page:
    """Return what says whether the server serves."""

    async def answer(exchange: Exchange) -> None:
        context = HttpContext(exchange, (), exchange.parts())
        state = await states.Check(health_pb2.HealthCheckRequest(), context)
        name = health_pb2.HealthCheckResponse.ServingStatus.Name(state.status)
        status = 200 if state.status == health_pb2.HealthCheckResponse.SERVING else 503
        await exchange.respond(status, ((b"cache-control", b"no-store"), _JSON), dump({"status": name}))

    return answer


def description(document: Mapping[str, Any], bounds: Bounds, settings: Settings) -> dict[bytes, Page]:
    """Return the contract, and a page to try it."""
    described = _fixed(200, (_JSON, *_SAFE), dump(document), bounds, settings)
    return {b"/openapi.json": described, **_folder("page", "/", _SAFE, bounds, settings)}


def inspector(bounds: Bounds, settings: Settings) -> dict[bytes, Page]:
    """Return the inspector's files."""
    to_it = _fixed(308, ((b"location", INSPECTOR.encode()), *_INSPECTOR_SAFE), b"", bounds, settings)
    files = _folder("inspector", INSPECTOR, _INSPECTOR_SAFE, bounds, settings)
    return {INSPECTOR.rstrip("/").encode(): to_it, **files}


def _folder(name: str, at: str, headers: Headers, bounds: Bounds, settings: Settings) -> dict[bytes, Page]:
    """Return the files of a folder by their paths, read once: they do not change while the process runs."""
    found: dict[bytes, Page] = {}
    for file in (_HERE / name).rglob("*"):
        if media_type := _MEDIA_TYPES.get(file.suffix):
            page = _fixed(200, ((b"content-type", media_type), *headers), file.read_bytes(), bounds, settings)
            found[f"{at}{file.relative_to(_HERE / name).as_posix()}".encode()] = page
    return {at.encode(): found[f"{at}index.html".encode()], **found}


def _fixed(status: int, headers: Headers, body: bytes, bounds: Bounds, settings: Settings) -> Page:
    async def answer(exchange: Exchange) -> None:
        deadline = asyncio.get_running_loop().time() + settings.timing.deadline_default_s
        bounds.reply(len(body), deadline, HttpContext(exchange, (), exchange.parts()))
        await exchange.respond(status, headers, body)

    return answer
