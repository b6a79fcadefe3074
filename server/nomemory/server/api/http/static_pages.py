"""The static pages of the API explorer and the inspector. The server reads the files of the pages once, at startup."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from nomemory.server.runtime.listen_address import INSPECTOR

_STATIC: Final = Path(__file__).with_name("static")
_THEME: Final = "theme"
"""The folder of shared style sheets. They are served in the folder of each page."""
_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: Final = {
    "content-security-policy": _CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def make_constant_route(path: str, content: bytes, media_type: str) -> Route:
    """Return a route that responds with the same content to every request, with the security headers."""

    async def serve(_request: Request) -> Response:
        return Response(content, headers={**SECURITY_HEADERS, "content-type": media_type})

    return Route(path, serve)


def build_explorer_routes() -> list[Route]:
    """Return the routes of the API explorer, at `/`."""
    return _build_folder_routes("try_it", "/")


def build_inspector_routes() -> list[Route]:
    """Return the routes of the inspector, at `/inspect/`."""
    return [make_inspector_redirect(INSPECTOR.rstrip("/")), *_build_folder_routes("inspector", INSPECTOR)]


def make_inspector_redirect(path: str) -> Route:
    """Return a route that redirects to the inspector."""

    async def redirect(_request: Request) -> Response:
        return RedirectResponse(INSPECTOR, 308, SECURITY_HEADERS)

    return Route(path, redirect)


def _build_folder_routes(folder: str, path: str) -> list[Route]:
    routes = []
    for root in (_STATIC / _THEME, _STATIC / folder):
        for file in sorted(root.rglob("*")):
            if media_type := _MEDIA_TYPES.get(file.suffix):
                content, name = file.read_bytes(), file.relative_to(root).as_posix()
                routes.append(make_constant_route(f"{path}{name}", content, media_type))
                if name == "index.html":
                    routes.append(make_constant_route(path, content, media_type))
    return routes
