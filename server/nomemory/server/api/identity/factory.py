"""Makes the authenticator of the settings, and refuses half a configuration of credentials.

A variable that a deployment meant to fill and did not would otherwise leave the server unguarded, or guarded by less
than its operator believes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nomemory.server.api.identity.api_keys import ApiKeys
from nomemory.server.api.identity.authenticator import Authenticator, CredentialAuthenticator, LocalAuthenticator
from nomemory.server.api.identity.caller import known_scopes
from nomemory.server.api.identity.certificates import Certificates
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.api.identity.key_set_url import KeySetUrl, fetch, is_trustworthy
from nomemory.server.api.identity.key_sets import KeySetFile, SharedSecret, TokenKeys
from nomemory.server.api.identity.namespace import namespace_of
from nomemory.server.api.identity.tokens import TokenRules, Tokens
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.identity import IdentitySettings

_OF_SECRETS: Final = frozenset({"HS256", "HS384", "HS512"})
_OF_KEY_SETS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
_SECRET_MIN_BYTES: Final = 32


def checks_credentials(settings: Settings) -> bool:
    """Return whether callers need credentials."""
    identity = settings.identity
    return any((identity.api_keys, identity.jwt_secret, identity.jwt_jwks, identity.tls_identities))


def choose_authenticator(settings: Settings) -> Authenticator:
    """Make the authenticator. Nothing is fetched yet.

    Raises:
        IdentitySettingsError: a setting is missing, empty or contradicts another, or a file cannot be used.
    """
    refuse_half_configuration(settings)
    identity = settings.identity
    if not checks_credentials(settings):
        return LocalAuthenticator()
    return CredentialAuthenticator(
        ApiKeys(identity.api_keys) if identity.api_keys else None,
        _tokens(identity),
        Certificates(identity.tls_identities) if identity.tls_identities else None,
    )


def _tokens(identity: IdentitySettings) -> Tokens | None:
    if identity.jwt_secret and identity.jwt_jwks:
        raise IdentitySettingsError("set NOMEMORY_JWT_SECRET or NOMEMORY_JWT_JWKS, not both")
    if identity.jwt_secret:
        rules = _rules(identity, _algorithms(identity, _OF_SECRETS, "HS256"))
        secret = identity.jwt_secret.get_secret_value().encode()
        if len(secret) < _SECRET_MIN_BYTES:
            raise IdentitySettingsError(f"NOMEMORY_JWT_SECRET must have at least {_SECRET_MIN_BYTES} bytes")
        return Tokens(SharedSecret(secret), rules)
    if identity.jwt_jwks:
        rules = _rules(identity, _algorithms(identity, _OF_KEY_SETS, "RS256 ES256"))
        return Tokens(_key_set(identity.jwt_jwks, rules.algorithms), rules)
    return None


def _algorithms(identity: IdentitySettings, possible: frozenset[str], default: str) -> frozenset[str]:
    chosen = frozenset((identity.jwt_algorithms or default).replace(",", " ").split())
    if not chosen or not chosen <= possible:
        allowed = ", ".join(sorted(possible))
        raise IdentitySettingsError(f"NOMEMORY_JWT_ALGORITHMS: where the keys come from there, only {allowed} are safe")
    return chosen


def _rules(identity: IdentitySettings, algorithms: frozenset[str]) -> TokenRules:
    if not (identity.jwt_issuer and identity.jwt_audience and identity.jwt_user_claim):
        raise IdentitySettingsError(
            "tokens need NOMEMORY_JWT_ISSUER and NOMEMORY_JWT_AUDIENCE, and NOMEMORY_JWT_USER_CLAIM must not be empty"
        )
    try:
        namespace = namespace_of(identity.jwt_namespace)
    except ValueError as error:
        raise IdentitySettingsError(f"NOMEMORY_JWT_NAMESPACE: {error}") from None
    return TokenRules(
        algorithms,
        identity.jwt_issuer,
        identity.jwt_audience,
        identity.jwt_user_claim,
        known_scopes(identity.jwt_default_scopes.split()),
        identity.jwt_leeway_s,
        namespace,
    )


def _key_set(where: str, algorithms: frozenset[str]) -> TokenKeys:
    if "://" not in where:
        return KeySetFile(Path(where), algorithms)
    if not is_trustworthy(where):
        raise IdentitySettingsError("NOMEMORY_JWT_JWKS must be a file or an https URL")
    return KeySetUrl(functools.partial(fetch, where), algorithms)


_TOKEN_RULES: Final = ("jwt_issuer", "jwt_audience", "jwt_algorithms", "jwt_default_scopes", "jwt_namespace")


def refuse_half_configuration(settings: Settings) -> None:
    """Check that whatever is configured of a kind of credential is the whole of it.

    Raises:
        IdentitySettingsError: it is not; names the variables.
    """
    for sentence in _missing(settings):
        raise IdentitySettingsError(f"{sentence}. docs/authentication.md tells more")


def _missing(settings: Settings) -> Iterator[str]:
    identity, recall, vector = settings.identity, settings.recall, settings.vector
    has_tokens = identity.jwt_secret or identity.jwt_jwks
    rules = [identity.variables()[field] for field in _TOKEN_RULES if getattr(identity, field)]
    if rules and not has_tokens:
        yield f"{' and '.join(rules)} say which tokens to take, and NOMEMORY_JWT_SECRET or NOMEMORY_JWT_JWKS is missing"
    if identity.tls_client_ca and not (identity.tls_identities or identity.api_keys or has_tokens):
        yield (
            "NOMEMORY_TLS_CLIENT_CA says who may connect, and nothing says who they are: "
            "NOMEMORY_TLS_IDENTITIES, NOMEMORY_API_KEYS or a key for tokens is missing"
        )
    if vector.qdrant_api_key and not vector.qdrant_url:
        yield "NOMEMORY_QDRANT_API_KEY needs NOMEMORY_QDRANT_URL"
    if recall.upstream_api_key and not recall.upstream:
        yield "NOMEMORY_RECALL_UPSTREAM_API_KEY needs NOMEMORY_RECALL_UPSTREAM"
    if recall.upstream_tls_ca and not recall.upstream_tls:
        yield "NOMEMORY_RECALL_UPSTREAM_TLS_CA needs NOMEMORY_RECALL_UPSTREAM_TLS"
