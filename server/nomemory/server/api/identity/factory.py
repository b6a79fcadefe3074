"""Construction of the authenticator from the settings.

The server does not start with incomplete credential settings, because a forgotten variable could otherwise disable
authentication.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nomemory.server.api.identity.api_keys import ApiKeyAuthenticator
from nomemory.server.api.identity.authenticator import Authenticator, CredentialAuthenticator, LocalAuthenticator
from nomemory.server.api.identity.caller import parse_scopes
from nomemory.server.api.identity.certificates import CertificateAuthenticator
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.api.identity.key_set_url import RemoteKeySet, fetch_document
from nomemory.server.api.identity.key_sets import KeySetFile, KeySource, SharedSecret
from nomemory.server.api.identity.namespace import create_namespace
from nomemory.server.api.identity.secure_url import is_secure_url
from nomemory.server.api.identity.tokens import TokenAuthenticator, TokenRules
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.identity import IdentitySettings

_SECRET_ALGORITHMS: Final = frozenset({"HS256", "HS384", "HS512"})
_KEY_SET_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
_SECRET_MIN_BYTES: Final = 32


def requires_credentials(settings: Settings) -> bool:
    """Return whether the settings require callers to send credentials."""
    identity = settings.identity
    return any((identity.api_keys, identity.jwt_secret, identity.jwt_jwks, identity.tls_identities))


def make_authenticator(settings: Settings) -> Authenticator:
    """Create the authenticator. A key set at a URL is fetched when the authenticator verifies the first token.

    Raises:
        IdentitySettingsError: a setting is missing, is empty or contradicts another setting, or a file cannot be used.
    """
    check_credential_settings(settings)
    identity = settings.identity
    if not requires_credentials(settings):
        return LocalAuthenticator()
    return CredentialAuthenticator(
        ApiKeyAuthenticator(identity.api_keys) if identity.api_keys else None,
        _make_token_authenticator(identity),
        CertificateAuthenticator(identity.tls_identities) if identity.tls_identities else None,
    )


def _make_token_authenticator(identity: IdentitySettings) -> TokenAuthenticator | None:
    if identity.jwt_secret and identity.jwt_jwks:
        raise IdentitySettingsError("set NOMEMORY_JWT_SECRET or NOMEMORY_JWT_JWKS, not both")
    if identity.jwt_secret:
        rules = _make_token_rules(identity, _select_algorithms(identity, _SECRET_ALGORITHMS, "HS256"))
        secret = identity.jwt_secret.get_secret_value().encode()
        if len(secret) < _SECRET_MIN_BYTES:
            raise IdentitySettingsError(f"NOMEMORY_JWT_SECRET must have at least {_SECRET_MIN_BYTES} bytes")
        return TokenAuthenticator(SharedSecret(secret), rules)
    if identity.jwt_jwks:
        rules = _make_token_rules(identity, _select_algorithms(identity, _KEY_SET_ALGORITHMS, "RS256 ES256"))
        return TokenAuthenticator(_make_key_source(identity.jwt_jwks, rules.algorithms), rules)
    return None


def _select_algorithms(identity: IdentitySettings, possible: frozenset[str], default: str) -> frozenset[str]:
    chosen = frozenset((identity.jwt_algorithms or default).replace(",", " ").split())
    if not chosen or not chosen <= possible:
        allowed = ", ".join(sorted(possible))
        raise IdentitySettingsError(f"NOMEMORY_JWT_ALGORITHMS: the configured keys allow only {allowed}")
    return chosen


def _make_token_rules(identity: IdentitySettings, algorithms: frozenset[str]) -> TokenRules:
    if not (identity.jwt_issuer and identity.jwt_audience and identity.jwt_user_claim):
        raise IdentitySettingsError(
            "tokens require NOMEMORY_JWT_ISSUER, NOMEMORY_JWT_AUDIENCE and NOMEMORY_JWT_USER_CLAIM"
        )
    try:
        namespace = create_namespace(identity.jwt_namespace)
    except ValueError as error:
        raise IdentitySettingsError(f"NOMEMORY_JWT_NAMESPACE: {error}") from None
    return TokenRules(
        algorithms,
        identity.jwt_issuer,
        identity.jwt_audience,
        identity.jwt_user_claim,
        parse_scopes(identity.jwt_default_scopes.split()),
        identity.jwt_leeway_s,
        namespace,
    )


def _make_key_source(path_or_url: str, algorithms: frozenset[str]) -> KeySource:
    if "://" not in path_or_url:
        return KeySetFile(Path(path_or_url), algorithms)
    if not is_secure_url(path_or_url):
        raise IdentitySettingsError("NOMEMORY_JWT_JWKS must be an existing file or an https URL")
    return RemoteKeySet(functools.partial(fetch_document, path_or_url), algorithms)


_TOKEN_RULES: Final = ("jwt_issuer", "jwt_audience", "jwt_algorithms", "jwt_default_scopes", "jwt_namespace")


def check_credential_settings(settings: Settings) -> None:
    """Raise an error if the settings of one kind of credential are incomplete.

    Raises:
        IdentitySettingsError: a required variable is missing.
    """
    for problem in _find_missing_variables(settings):
        raise IdentitySettingsError(f"{problem}. See docs/authentication.md")


def _find_missing_variables(settings: Settings) -> Iterator[str]:
    identity, recall, vector = settings.identity, settings.recall, settings.vector
    has_tokens = identity.jwt_secret or identity.jwt_jwks
    rules = [identity.map_variables_by_field()[field] for field in _TOKEN_RULES if getattr(identity, field)]
    if rules and not has_tokens:
        yield f"{' and '.join(rules)} require NOMEMORY_JWT_SECRET or NOMEMORY_JWT_JWKS"
    if identity.tls_client_ca and not (identity.tls_identities or identity.api_keys or has_tokens):
        yield (
            "NOMEMORY_TLS_CLIENT_CA requires NOMEMORY_TLS_IDENTITIES, NOMEMORY_API_KEYS, NOMEMORY_JWT_SECRET or "
            "NOMEMORY_JWT_JWKS"
        )
    if vector.qdrant_api_key and not vector.qdrant_url:
        yield "NOMEMORY_QDRANT_API_KEY requires NOMEMORY_QDRANT_URL"
    if recall.upstream_api_key and not recall.upstream:
        yield "NOMEMORY_RECALL_UPSTREAM_API_KEY requires NOMEMORY_RECALL_UPSTREAM"
    if recall.upstream_tls_ca and not recall.upstream_tls:
        yield "NOMEMORY_RECALL_UPSTREAM_TLS_CA requires NOMEMORY_RECALL_UPSTREAM_TLS"
