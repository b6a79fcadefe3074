"""The keys that tokens are verified with: one secret, or a JSON Web Key Set in a file or behind a URL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import jwt
import orjson

from nomemory.server.api.identity.credential_file import CredentialFile
from nomemory.server.api.identity.credentials import invalid_credentials

VerificationKey = bytes | jwt.PyJWK
KeysById = Mapping[str, jwt.PyJWK]


class KeySource(Protocol):
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
        return find_key(self._file.content(), key_id)


def find_key(keys: KeysById, key_id: str | None) -> jwt.PyJWK:
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
