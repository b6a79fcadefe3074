"""Fetching one small document from a configured URL, with bounds on time and size."""

from __future__ import annotations

import ipaddress
import time
import urllib.request
from http.client import HTTPMessage
from typing import IO, Final
from urllib.parse import urlsplit

_MAX_BYTES: Final = 1_000_000
_CHUNK: Final = 65_536


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Stays at the configured URL: a redirect could lead to where nobody meant to trust."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Follow none; the caller sees the redirect as an error."""


_opener: Final = urllib.request.build_opener(_NoRedirects)


def is_trustworthy(url: str) -> bool:
    """Return whether nobody on the way can change what a URL gives: https, or this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or ""))


def fetch(url: str, timeout_s: float) -> bytes:
    """Get a document of at most 1 MB. Blocks for about `timeout_s` at most.

    Raises:
        OSError: it could not be had in time, or is too large.
        HTTPException: what answers does not speak HTTP.
    """
    give_up = time.monotonic() + timeout_s
    document = b""
    with _opener.open(url, timeout=timeout_s) as reply:
        while chunk := reply.read1(_CHUNK):
            document += chunk
            if len(document) > _MAX_BYTES or time.monotonic() > give_up:
                raise OSError("the document is too large or comes too slowly")
    return document


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
