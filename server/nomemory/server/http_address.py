"""Where HTTP is served."""

from __future__ import annotations

from nomemory.server.settings import Settings
from nomemory.server.settings.http import INSPECTOR_ADDRESS


def http_address(settings: Settings) -> str:
    """Return it as HOST:PORT; empty: HTTP is not served."""
    return settings.http.listen or (INSPECTOR_ADDRESS if settings.http.inspect else "")
