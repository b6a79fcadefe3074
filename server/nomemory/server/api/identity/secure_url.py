"""URLs that are safe to fetch keys from or to send credentials to."""

from __future__ import annotations

from urllib.parse import urlsplit

from nomemory.server.runtime.listen_address import is_loopback


def is_secure_url(url: str) -> bool:
    """Return whether a URL uses https, or http on a loopback address."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
