"""The keys that tokens are verified with: one secret, or a JSON Web Key Set in a file or behind a URL."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Final, Protocol
from urllib.parse import urlsplit

import jwt
import orjson

from nomemory.server.api.identity.credentials import CredentialFile, invalid_credentials
from nomemory.server.runtime.listen_address import is_loopback
from nomemory.server.runtime.structured_logs import get_logger

_log = get_logger("identity")

VerificationKey = bytes | jwt.PyJWK
KeysById = Mapping[str, jwt.PyJWK]


class TokenKeys(Protocol):
    """Where the keys come from."""

    async def key(self, key_id: str | None) -> VerificationKey:
        """Return the key that a token's header names.

        Raises:
            Fault: CREDENTIALS_INVALID, there is none.
        """


class SharedSecret:
    """One secret for all tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    async def key(self, key_id: str | None) -> VerificationKey:  # noqa: ARG002 - the protocol's signature
        """Return the secret."""
        return self._secret


class KeySetFile:
    """A file with a JSON Web Key Set.

    Args:
        path: the file.
        algorithms: the algorithms that keys may be for.

    Raises:
        IdentitySettingsError: it cannot be used.
    """

    def __init__(self, path: Path, algorithms: frozenset[str]) -> None:
        self._file = CredentialFile(path, lambda raw: parse_key_set(raw, algorithms), "tokens")

    async def key(self, key_id: str | None) -> VerificationKey:
        """Return the key of an id."""
        return known_key(self._file.content(), key_id)


def known_key(keys: KeysById, key_id: str | None) -> jwt.PyJWK:
    """Find a key by its id.

    Raises:
        Fault: CREDENTIALS_INVALID, there is no such key.
    """
    if key_id is None or key_id not in keys:
        raise invalid_credentials("the token was signed with a key that is not known here")
    return keys[key_id]


def parse_key_set(raw: bytes, algorithms: frozenset[str]) -> KeysById:
    """Read a JSON Web Key Set. Keys without `kid`, for other uses or for other algorithms are left out.

    Raises:
        ValueError: it is not a key set, two keys have the same `kid`, or no key of it can be used.
    """
    document = orjson.loads(raw)
    members = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(members, list):
        raise ValueError("is not a JSON Web Key Set")  # noqa: TRY004 - a ValueError to callers, whatever is wrong in it
    usable = [(member["kid"], key) for member in members if (key := _usable(member, algorithms))]
    if not usable or len(dict(usable)) != len(usable):
        raise ValueError(f"needs keys with a `kid` of their own, for {', '.join(sorted(algorithms))}")
    return dict(usable)


def _usable(member: object, algorithms: frozenset[str]) -> jwt.PyJWK | None:
    if not isinstance(member, dict) or not isinstance(member.get("kid"), str) or member.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(member)
    except (jwt.PyJWTError, TypeError):  # the latter: `alg` is no string
        return None
    return key if key.algorithm_name in algorithms else None


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
        return known_key(self._keys, key_id)

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


def is_trustworthy(url: str) -> bool:
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
