"""Verification keys of tokens, from a shared secret or from a JSON Web Key Set in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import jwt
import orjson

from nomemory.server.api.identity.credential_file import CredentialFile
from nomemory.server.api.identity.credentials import build_invalid_credentials_fault

VerificationKey = bytes | jwt.PyJWK
KeysById = Mapping[str, jwt.PyJWK]


class KeySource(Protocol):
    """A source of keys that verify the signatures of tokens."""

    async def find_key(self, key_id: str | None) -> VerificationKey:
        """Return the verification key that the `kid` in a token's header names.

        Raises:
            Fault: CREDENTIALS_INVALID, no key has the id.
        """


class SharedSecret:
    """A shared secret that verifies the signatures of all tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    async def find_key(self, key_id: str | None) -> VerificationKey:  # noqa: ARG002 - the protocol's signature
        """Return the secret."""
        return self._secret


class KeySetFile:
    """A JSON Web Key Set in a file, which is reloaded when it changes.

    Args:
        algorithms: the allowed algorithms; keys for other algorithms are ignored.

    Raises:
        IdentitySettingsError: the file cannot be read or is malformed.
    """

    def __init__(self, path: Path, algorithms: frozenset[str]) -> None:
        self._file = CredentialFile(path, lambda raw: parse_key_set(raw, algorithms), "tokens")

    async def find_key(self, key_id: str | None) -> VerificationKey:
        """Return the verification key with the given id."""
        return find_key(self._file.load(), key_id)


def find_key(keys: KeysById, key_id: str | None) -> jwt.PyJWK:
    """Return the verification key with the given id.

    Raises:
        Fault: CREDENTIALS_INVALID, no key has the id.
    """
    if key_id is None or key_id not in keys:
        raise build_invalid_credentials_fault("the token is signed with an unknown key")
    return keys[key_id]


def parse_key_set(raw: bytes, algorithms: frozenset[str]) -> KeysById:
    """Parse a JSON Web Key Set into its keys by id.

    The function ignores keys without `kid`, and keys for other uses or algorithms.

    Raises:
        ValueError: the document is not a key set, has no usable key, or has two keys with the same `kid`.
    """
    document = orjson.loads(raw)
    members = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(members, list):
        raise ValueError("expected a JSON Web Key Set, an object with an array `keys`")  # noqa: TRY004 - callers expect ValueError for malformed documents
    keys = [(member["kid"], key) for member in members if (key := _parse_usable_key(member, algorithms))]
    if not keys:
        raise ValueError(f"the JSON Web Key Set has no key with a `kid` for {', '.join(sorted(algorithms))}")
    if len(dict(keys)) != len(keys):
        raise ValueError("duplicate `kid`")
    return dict(keys)


def _parse_usable_key(member: object, algorithms: frozenset[str]) -> jwt.PyJWK | None:
    if not isinstance(member, dict) or not isinstance(member.get("kid"), str) or member.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(member)
    except (jwt.PyJWTError, TypeError):  # TypeError: `alg` is not a string
        return None
    return key if key.algorithm_name in algorithms else None
