"""Where HTTP is served, and where the inspector is."""

from __future__ import annotations

from typing import Final

from nomemory.server.settings import Settings
from nomemory.server.settings.http import INSPECTOR_ADDRESS

INSPECTOR: Final = "/inspect/"
"""The path of the inspector's page. It calls the contract at the root of the same origin."""


def http_address(settings: Settings) -> str:
    """Return it as HOST:PORT; empty: HTTP is not served."""
    return settings.http.listen or (INSPECTOR_ADDRESS if settings.http.inspect else "")
