"""JSON responses that clients and proxies must not cache."""

from __future__ import annotations

from typing import Final

import orjson
from starlette.responses import Response

UNCACHED: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Headers of all responses with data."""


class JsonReply(Response):
    """A JSON response.

    Args:
        content: JSON as bytes, or a value that orjson can serialize.
        headers: additional headers.
    """

    media_type = "application/json"

    def __init__(self, content: object, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(content, status_code, {**UNCACHED, **(headers or {})})

    def render(self, content: object) -> bytes:
        """Return the content, encoded as JSON."""
        return content if isinstance(content, bytes) else orjson.dumps(content)
