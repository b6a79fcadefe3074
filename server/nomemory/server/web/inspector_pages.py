"""The inspector's files: a page that shows what the memory holds, and how a recall comes about. It only reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.server.listen_address import INSPECTOR
from nomemory.server.web.exchange import Headers

_FOLDER: Final = Path(__file__).with_name("inspector")
_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
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


@dataclass(frozen=True, slots=True)
class InspectorPage:
    """What is answered at a path."""

    status: int
    headers: Headers
    body: bytes


class InspectorPages:
    """The files by their paths, read once: what is served does not change while the process runs."""

    def __init__(self) -> None:
        self._pages: Mapping[bytes, InspectorPage] = {
            INSPECTOR.rstrip("/").encode(): _redirect(INSPECTOR),
            INSPECTOR.encode(): _page(_FOLDER / "index.html"),
        } | {
            f"{INSPECTOR}{file.relative_to(_FOLDER).as_posix()}".encode(): _page(file)
            for file in _FOLDER.rglob("*")
            if file.suffix in _MEDIA_TYPES
        }

    def at(self, path: bytes) -> InspectorPage | None:
        """Return what is at a path; None: nothing of the inspector's."""
        return self._pages.get(path)


def _page(file: Path) -> InspectorPage:
    media_type = (b"content-type", _MEDIA_TYPES[file.suffix].encode())
    return InspectorPage(200, (media_type, *_SAFE), file.read_bytes())


def _redirect(target: str) -> InspectorPage:
    return InspectorPage(308, ((b"location", target.encode()), *_SAFE), b"")
