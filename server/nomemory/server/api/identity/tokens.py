"""User tokens (JWT). A user token grants access to the messages of its user only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from nomemory.server.api.identity.caller import READS, Caller, Scope, parse_scopes
from nomemory.server.api.identity.credentials import build_invalid_credentials_fault
from nomemory.server.api.identity.key_sets import KeySource
from nomemory.server.api.identity.namespace import Namespace
from nomemory.server.api.identity.user_binding import is_valid_user_id
from nomemory.server.faults import Fault

NAME: Final = "user-token"
"""The name of all token callers in logs. Logs contain no user ids."""
_INVALID: Final = "the token is not valid"
_MESSAGES: Final[Mapping[type[Exception], str]] = {
    jwt.ExpiredSignatureError: "the token has expired",
    jwt.ImmatureSignatureError: "the token is not valid yet",
    jwt.InvalidAudienceError: "the token is for another audience",
    jwt.InvalidIssuerError: "the token is from another issuer",
}
"""Error messages for the caller. PyJWT raises these errors only for tokens with a valid signature."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The requirements that a token must meet.

    `algorithms` is not empty and does not contain `none`.
    """

    algorithms: frozenset[str]
    issuer: str
    audience: str
    user_claim: str
    default_scopes: frozenset[Scope]
    leeway_s: float
    namespace: Namespace | None = None


class TokenAuthenticator:
    """Authenticates users by their tokens (JWT)."""

    def __init__(self, keys: KeySource, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._jwt = jwt.PyJWT({"enforce_minimum_key_length": True})

    async def authenticate(self, token: str) -> Caller:
        """Return the caller that a user token identifies.

        Raises:
            Fault: CREDENTIALS_INVALID.
        """
        claims = await self._decode_claims(token)
        user_id = claims.get(self._rules.user_claim)
        if not isinstance(user_id, str) or not self._is_valid(user_id):
            raise build_invalid_credentials_fault(f"the token's `{self._rules.user_claim}` is not a valid user id")
        return Caller(NAME, self._parse_scopes(claims), user_id, self._rules.namespace)

    def _is_valid(self, user_id: str) -> bool:
        namespace = self._rules.namespace
        return is_valid_user_id(namespace.to_stored_id(user_id) if namespace else user_id)

    async def _decode_claims(self, token: str) -> dict[str, Any]:  # Any: a claim may be any JSON value
        try:
            key = await self._keys.find_key(jwt.get_unverified_header(token).get("kid"))
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
            raise _to_fault(error) from None

    def _parse_scopes(self, claims: Mapping[str, Any]) -> frozenset[Scope]:
        granted = claims.get("scope", claims.get("scp"))
        if granted is None:
            return self._rules.default_scopes & READS
        names = granted.split() if isinstance(granted, str) else granted
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise build_invalid_credentials_fault("the token's scopes must be a string or a list of strings")
        return parse_scopes(names) & READS


def _to_fault(error: Exception) -> Fault:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return build_invalid_credentials_fault(f"the token lacks the claim `{error.claim}`")
    return build_invalid_credentials_fault(_MESSAGES.get(type(error), _INVALID))
