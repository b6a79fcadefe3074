"""Makes the authenticator of the settings."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from nomemory.server.identity.api_keys import ApiKeys
from nomemory.server.identity.authenticator import Authenticator
from nomemory.server.identity.caller import known_scopes
from nomemory.server.identity.certificates import Certificates
from nomemory.server.identity.credential_authenticator import CredentialAuthenticator, LocalAuthenticator
from nomemory.server.identity.half_configuration import IdentitySettingsError, refuse_half_configuration
from nomemory.server.identity.key_set_url import KeySetTimes, KeySetUrl, fetch, is_trustworthy
from nomemory.server.identity.namespace import Namespace, namespace_of
from nomemory.server.identity.tokens import KeySetFile, SharedSecret, TokenKeys, TokenRules, Tokens
from nomemory.server.settings import Settings

_OF_SECRETS: Final = frozenset({"HS256", "HS384", "HS512"})
_OF_KEY_SETS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
_SECRET_MIN_BYTES: Final = 32


def checks_credentials(settings: Settings) -> bool:
    """Return whether callers need credentials."""
    return any(
        (
            settings.identity.api_keys,
            settings.identity.jwt_secret,
            settings.identity.jwt_jwks,
            settings.identity.tls_identities,
        )
    )


def choose_authenticator(settings: Settings) -> Authenticator:
    """Make the authenticator. Nothing is fetched yet.

    Raises:
        IdentitySettingsError: a setting is missing, empty or contradicts another, or a file cannot be used.
    """
    refuse_half_configuration(settings)
    if not checks_credentials(settings):
        return LocalAuthenticator()
    return CredentialAuthenticator(
        ApiKeys(settings.identity.api_keys) if settings.identity.api_keys else None,
        _tokens(settings),
        Certificates(settings.identity.tls_identities) if settings.identity.tls_identities else None,
    )


def _tokens(settings: Settings) -> Tokens | None:
    if settings.identity.jwt_secret and settings.identity.jwt_jwks:
        raise IdentitySettingsError("set NOMEMORY_JWT_SECRET or NOMEMORY_JWT_JWKS, not both")
    if settings.identity.jwt_secret:
        algorithms = _algorithms(settings, _OF_SECRETS, "HS256")
        return Tokens(_shared_secret(settings.identity.jwt_secret), _rules(settings, algorithms))
    if settings.identity.jwt_jwks:
        algorithms = _algorithms(settings, _OF_KEY_SETS, "RS256 ES256")
        return Tokens(_key_set(settings.identity.jwt_jwks, settings, algorithms), _rules(settings, algorithms))
    return None


def _algorithms(settings: Settings, possible: frozenset[str], default: str) -> frozenset[str]:
    chosen = frozenset((settings.identity.jwt_algorithms or default).replace(",", " ").split())
    if not chosen or not chosen <= possible:
        allowed = ", ".join(sorted(possible))
        raise IdentitySettingsError(f"NOMEMORY_JWT_ALGORITHMS: where the keys come from there, only {allowed} are safe")
    return chosen


def _rules(settings: Settings, algorithms: frozenset[str]) -> TokenRules:
    if not settings.identity.jwt_issuer or not settings.identity.jwt_audience or not settings.identity.jwt_user_claim:
        raise IdentitySettingsError(
            "tokens need NOMEMORY_JWT_ISSUER and NOMEMORY_JWT_AUDIENCE, and NOMEMORY_JWT_USER_CLAIM must not be empty"
        )
    return TokenRules(
        algorithms,
        settings.identity.jwt_issuer,
        settings.identity.jwt_audience,
        settings.identity.jwt_user_claim,
        known_scopes(settings.identity.jwt_default_scopes.split()),
        settings.identity.jwt_leeway_s,
        settings.limits.id_max_chars,
        _token_namespace(settings),
    )


def _token_namespace(settings: Settings) -> Namespace | None:
    try:
        return namespace_of(settings.identity.jwt_namespace)
    except ValueError as error:
        raise IdentitySettingsError(f"NOMEMORY_JWT_NAMESPACE: {error}") from None


def _shared_secret(secret: SecretStr) -> SharedSecret:
    raw = secret.get_secret_value().encode()
    if len(raw) < _SECRET_MIN_BYTES:
        raise IdentitySettingsError(f"NOMEMORY_JWT_SECRET must have at least {_SECRET_MIN_BYTES} bytes")
    return SharedSecret(raw)


def _key_set(where: str, settings: Settings, algorithms: frozenset[str]) -> TokenKeys:
    if "://" not in where:
        return KeySetFile(Path(where), algorithms)
    if not is_trustworthy(where):
        raise IdentitySettingsError("NOMEMORY_JWT_JWKS must be a file or an https URL")
    times = KeySetTimes(
        settings.identity.jwks_refresh_s, settings.identity.jwks_stale_s, settings.identity.jwks_pause_s
    )
    return KeySetUrl(functools.partial(fetch, where, settings.identity.jwks_timeout_s), algorithms, times)
