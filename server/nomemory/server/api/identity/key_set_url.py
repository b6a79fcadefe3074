"""Verification keys from a JSON Web Key Set behind a URL."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage
from typing import IO, Final
from urllib.parse import urlsplit

from nomemory.server.api.identity.credentials import invalid_credentials
from nomemory.server.api.identity.key_sets import KeysById, VerificationKey, find_key, parse_key_set
from nomemory.server.runtime.listen_address import is_loopback
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("identity")


_REFRESH_S: Final = 300.0
"""After this a key set from a URL is fetched again, in the background."""


_STALE_S: Final = 3600.0
"""After this one that cannot be fetched is good for nothing."""


_PAUSE_S: Final = 10.0
"""Least time between two fetches, so that forged tokens with made-up keys do not turn into load on the issuer."""


_FETCH_S: Final = 5.0


class KeySetUrl:
    """The keys behind a URL. A key that is not known yet is looked for at once: issuers rotate their keys.

    Args:
        fetch: gets the document; it blocks, and raises OSError or HTTPException where that fails.
        algorithms: the algorithms that keys may be for.
        clock: gives seconds.
    """

    def __init__(
        self, fetch: Callable[[], bytes], algorithms: frozenset[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._algorithms = algorithms
        self._clock = clock
        self._keys: KeysById = {}
        self._fetched = float("-inf")
        self._attempted = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def key(self, key_id: str | None) -> VerificationKey:
        """Return the key of an id.

        Raises:
            Fault: CREDENTIALS_INVALID, there is none, or the set could not be fetched for too long.
        """
        if key_id not in self._keys or self._age() > _REFRESH_S:
            self._start_fetching()
        if self._fetching is not None and (key_id not in self._keys or self._age() > _STALE_S):
            await asyncio.shield(self._fetching)  # the caller may give up; what is fetched is for the next one too
        if self._age() > _STALE_S:
            raise invalid_credentials("tokens cannot be checked at the moment")
        return find_key(self._keys, key_id)

    def _age(self) -> float:
        return self._clock() - self._fetched

    def _start_fetching(self) -> None:
        if self._fetching is None and self._clock() - self._attempted >= _PAUSE_S:
            self._attempted = self._clock()
            self._fetching = asyncio.create_task(self._fetch_and_keep())

    async def _fetch_and_keep(self) -> None:
        try:
            self._keys = parse_key_set(await asyncio.to_thread(self._fetch), self._algorithms)
            self._fetched = self._clock()
        except (OSError, HTTPException, ValueError) as error:
            _log.warning("the key set could not be fetched", kind=type(error).__name__)
        finally:
            self._fetching = None


_MAX_BYTES: Final = 1_000_000


_CHUNK: Final = 65_536


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Stays at the configured URL: a redirect could lead to where nobody meant to trust."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Follow none; the caller sees the redirect as an error."""


_opener: Final = urllib.request.build_opener(_NoRedirects)


def is_secure_url(url: str) -> bool:
    """Return whether nobody on the way can change what a URL gives: https, or this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def fetch(url: str, timeout_s: float = _FETCH_S) -> bytes:
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
