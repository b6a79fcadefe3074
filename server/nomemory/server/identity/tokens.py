"""Callers with tokens (JWT): users, each of whom reads their own messages only.

The keys that tokens are verified with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import jwt
import orjson

from nomemory.server.faults import Fault
from nomemory.server.identity.binding import is_usable_id
from nomemory.server.identity.caller import READS, Caller, Scope, known_scopes
from nomemory.server.identity.credentials import invalid_credentials
from nomemory.server.identity.half_configuration import IdentitySettingsError
from nomemory.server.identity.namespace import Namespace
from nomemory.server.identity.watched_file import FileUnusableError, WatchedFile

VerificationKey = bytes | jwt.PyJWK
KeysById = Mapping[str, jwt.PyJWK]


class TokenKeyError(Exception):
    """No key for this token: its words are for the caller."""


class TokenKeys(Protocol):
    """Where the keys come from."""

    async def key(self, key_id: str | None) -> VerificationKey:
        """Return the key that a token's header names.

        Raises:
            TokenKeyError: there is none.
        """


class SharedSecret:
    """One secret for all tokens."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    async def key(self, key_id: str | None) -> VerificationKey:  # noqa: ARG002 - the protocol's signature
        """Return the secret."""
        return self._secret


class KeySetFile:
    """A file with a JSON Web Key Set, which is read again whenever it changes.

    Args:
        path: the file.
        algorithms: the algorithms that keys may be for.

    Raises:
        IdentitySettingsError: it cannot be used.
    """

    def __init__(self, path: Path, algorithms: frozenset[str]) -> None:
        self._file = WatchedFile(path, lambda raw: parse_key_set(raw, algorithms))
        try:
            self._file.content()
        except FileUnusableError as error:
            raise IdentitySettingsError(str(error)) from None

    async def key(self, key_id: str | None) -> VerificationKey:
        """Return the key of an id."""
        try:
            return known_key(self._file.content(), key_id)
        except FileUnusableError:
            raise TokenKeyError("tokens cannot be checked at the moment") from None


def known_key(keys: KeysById, key_id: str | None) -> jwt.PyJWK:
    """Find a key by its id.

    Raises:
        TokenKeyError: there is no such key.
    """
    if key_id is None or key_id not in keys:
        raise TokenKeyError("the token was signed with a key that is not known here")
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


NAME: Final = "user-token"
"""The caller's name in logs, which never say whose token it was."""


_NOT_GOOD: Final = "the token is not valid"
_SENTENCES: Final[Mapping[type[Exception], str]] = {
    jwt.ExpiredSignatureError: "the token has expired",
    jwt.ImmatureSignatureError: "the token is not valid yet",
    jwt.InvalidAudienceError: "the token is for another audience",
    jwt.InvalidIssuerError: "the token is from another issuer",
}
"""What a caller is told. All of these are found only after the signature was."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must be like. `algorithms` is never empty and never holds `none`."""

    algorithms: frozenset[str]
    issuer: str
    audience: str
    user_claim: str
    default_scopes: frozenset[Scope]
    leeway_s: float
    id_max_chars: int
    namespace: Namespace | None = None


class Tokens:
    """Verifies tokens.

    Args:
        keys: where the keys come from.
        rules: what a token must be like.
    """

    def __init__(self, keys: TokenKeys, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._jwt = jwt.PyJWT({"enforce_minimum_key_length": True})

    async def caller(self, token: str) -> Caller:
        """Return the user whose token it is.

        Raises:
            Fault: CREDENTIALS_INVALID.
        """
        claims = await self._claims(token)
        user_id = claims.get(self._rules.user_claim)
        if not isinstance(user_id, str) or not self._is_usable(user_id):
            raise invalid_credentials(f"the token's `{self._rules.user_claim}` does not name a user")
        return Caller(NAME, self._scopes(claims), user_id, self._rules.namespace)

    def _is_usable(self, user_id: str) -> bool:
        namespace = self._rules.namespace
        return is_usable_id(namespace.stored(user_id) if namespace else user_id, self._rules.id_max_chars)

    async def _claims(self, token: str) -> dict[str, Any]:  # Any: a claim may be any JSON value
        try:
            key = await self._keys.key(jwt.get_unverified_header(token).get("kid"))
            return self._jwt.decode(
                token,
                key,
                algorithms=sorted(self._rules.algorithms),
                issuer=self._rules.issuer,
                audience=self._rules.audience,
                leeway=self._rules.leeway_s,
                options={"require": ["exp", "iss", "aud", self._rules.user_claim]},
            )
        except TokenKeyError as error:
            raise invalid_credentials(str(error)) from None
        except jwt.PyJWTError as error:
            raise _refusal(error) from None

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        granted = claims.get("scope", claims.get("scp"))
        if granted is None:
            return self._rules.default_scopes & READS
        names = granted.split() if isinstance(granted, str) else granted
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise invalid_credentials("the token's scopes cannot be read")
        return known_scopes(names) & READS


def _refusal(error: Exception) -> Fault:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return invalid_credentials(f"the token lacks `{error.claim}`")
    return invalid_credentials(_SENTENCES.get(type(error), _NOT_GOOD))
