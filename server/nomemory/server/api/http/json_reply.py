"""A reply in JSON. No cache may keep it."""

from __future__ import annotations

from typing import Final

import orjson
from starlette.responses import Response

UNCACHED: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Headers of every reply that holds data."""


class JsonReply(Response):
    """A reply in JSON.

    Args:
        content: what orjson can write; bytes are JSON already.
        status_code: the HTTP status.
        headers: further headers.
    """

    media_type = "application/json"

    def __init__(self, content: object, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(content, status_code, {**UNCACHED, **(headers or {})})

    def render(self, content: object) -> bytes:
        """Return the body."""
        return content if isinstance(content, bytes) else orjson.dumps(content)
