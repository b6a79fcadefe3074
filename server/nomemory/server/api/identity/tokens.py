"""Callers with tokens (JWT): users, each of whom reads their own messages only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from nomemory.server.api.identity.caller import READS, Caller, Scope, parse_scopes
from nomemory.server.api.identity.credentials import invalid_credentials
from nomemory.server.api.identity.key_sets import KeySource
from nomemory.server.api.identity.namespace import Namespace
from nomemory.server.api.identity.user_binding import is_valid_user_id
from nomemory.server.faults import Fault

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
    namespace: Namespace | None = None


class TokenAuthenticator:
    """Verifies tokens.

    Args:
        keys: where the keys come from.
        rules: what a token must be like.
    """

    def __init__(self, keys: KeySource, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._jwt = jwt.PyJWT({"enforce_minimum_key_length": True})

    async def authenticate(self, token: str) -> Caller:
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
        return is_valid_user_id(namespace.stored_id(user_id) if namespace else user_id)

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
        except jwt.PyJWTError as error:
            raise _refusal(error) from None

    def _scopes(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        granted = claims.get("scope", claims.get("scp"))
        if granted is None:
            return self._rules.default_scopes & READS
        names = granted.split() if isinstance(granted, str) else granted
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise invalid_credentials("the token's scopes cannot be read")
        return parse_scopes(names) & READS


def _refusal(error: Exception) -> Fault:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return invalid_credentials(f"the token lacks `{error.claim}`")
    return invalid_credentials(_SENTENCES.get(type(error), _NOT_GOOD))
