"""Verification keys from a JSON Web Key Set at a URL."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPMessage
from typing import IO, Final

from nomemory.server.api.identity.credentials import build_invalid_credentials_fault
from nomemory.server.api.identity.key_sets import KeysById, VerificationKey, find_key, parse_key_set
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("identity")


_REFRESH_S: Final = 300.0
"""Age at which the key set is fetched again in the background."""
_MAX_AGE_S: Final = 3600.0
"""Maximum age of a key set. Older keys verify no tokens."""
_MIN_FETCH_INTERVAL_S: Final = 10.0
"""Minimum time between two fetches. It limits the load that tokens with unknown key ids cause on the issuer."""
_FETCH_TIMEOUT_S: Final = 5.0


class RemoteKeySet:
    """A JSON Web Key Set at a URL, which is fetched again for an unknown key id.

    Args:
        fetch: fetches the document; blocks, and raises OSError or HTTPException if the fetch fails.
        algorithms: the allowed algorithms; keys for other algorithms are ignored.
        clock: returns a monotonic time in seconds.
    """

    def __init__(
        self, fetch: Callable[[], bytes], algorithms: frozenset[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._algorithms = algorithms
        self._clock = clock
        self._keys: KeysById = {}
        self._fetched_at = float("-inf")
        self._attempted_at = float("-inf")
        self._fetch_task: asyncio.Task[None] | None = None

    async def find_key(self, key_id: str | None) -> VerificationKey:
        """Return the verification key with the given id.

        Raises:
            Fault: CREDENTIALS_INVALID, the key set does not contain the key, or is too old and cannot be fetched.
        """
        if key_id not in self._keys or self._compute_age_s() > _REFRESH_S:
            self._start_fetch()
        if self._fetch_task is not None and (key_id not in self._keys or self._compute_age_s() > _MAX_AGE_S):
            await asyncio.shield(self._fetch_task)  # other calls wait for the same fetch
        if self._compute_age_s() > _MAX_AGE_S:
            raise build_invalid_credentials_fault(
                "tokens cannot be checked, because the server cannot fetch the JSON Web Key Set: retry later"
            )
        return find_key(self._keys, key_id)

    def _compute_age_s(self) -> float:
        return self._clock() - self._fetched_at

    def _start_fetch(self) -> None:
        if self._fetch_task is None and self._clock() - self._attempted_at >= _MIN_FETCH_INTERVAL_S:
            self._attempted_at = self._clock()
            self._fetch_task = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            self._keys = parse_key_set(await asyncio.to_thread(self._fetch), self._algorithms)
            self._fetched_at = self._clock()
        except (OSError, HTTPException, ValueError) as error:
            _log.warning("cannot fetch the JSON Web Key Set: check NOMEMORY_JWT_JWKS", kind=type(error).__name__)
        finally:
            self._fetch_task = None


_MAX_BYTES: Final = 1_000_000


_CHUNK_BYTES: Final = 65_536


class _NoRedirectHandler(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, which could lead to a host that the operator does not trust."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Return None, so that urllib raises HTTPError."""


_opener: Final = urllib.request.build_opener(_NoRedirectHandler)


def fetch_document(url: str, timeout_s: float = _FETCH_TIMEOUT_S) -> bytes:
    """Fetch a document of at most 1 MB, with a timeout of about `timeout_s` seconds.

    Raises:
        OSError: the fetch failed or timed out, or the document is too large.
        HTTPException: the response is not valid HTTP.
    """
    deadline = time.monotonic() + timeout_s
    document = b""
    with _opener.open(url, timeout=timeout_s) as response:
        while chunk := response.read1(_CHUNK_BYTES):
            document += chunk
            if len(document) > _MAX_BYTES:
                raise OSError(f"the JSON Web Key Set is larger than {_MAX_BYTES} bytes")
            if time.monotonic() > deadline:
                raise OSError(f"the JSON Web Key Set was not received within {timeout_s} seconds")
    return document
