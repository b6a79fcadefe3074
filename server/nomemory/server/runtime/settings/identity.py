"""Settings for authentication and TLS."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import NonEmpty, SettingsGroup


class IdentitySettings(SettingsGroup):
    """Settings of authentication and TLS (docs/authentication.md)."""

    heading: ClassVar[str] = "Authentication and TLS"

    api_keys: NonEmpty[Path] | None = Field(
        None, description="File of API keys, written by `nomemory keys`. If unset, API keys are disabled."
    )
    jwt_secret: NonEmpty[SecretStr] | None = Field(
        None, description="Shared secret that signs JWTs (HS256), at least 32 bytes. If unset, HS256 is disabled."
    )
    jwt_jwks: NonEmpty[str] | None = Field(
        None,
        description="File path or https URL of the JSON Web Key Set that verifies JWTs. Use a key set "
        "instead of a shared secret.",
    )
    jwt_algorithms: str = Field(
        "",
        description="Accepted JWT signature algorithms, separated by spaces. If empty, the server accepts HS256 "
        "with a shared secret, and RS256 and ES256 with a key set.",
    )
    jwt_issuer: str = Field("", description="Required `iss` claim of JWTs. Must be set if JWTs are enabled.")
    jwt_audience: str = Field("", description="Required `aud` claim of JWTs. Must be set if JWTs are enabled.")
    jwt_user_claim: str = Field("sub", description="JWT claim that contains the user id.")
    jwt_default_scopes: str = Field(
        "",
        description="Scopes of JWTs that contain neither `scope` nor `scp`, for example `query recall`. If empty, "
        "such a JWT has no scopes.",
    )
    jwt_namespace: str = Field(
        "",
        description="Namespace of the users that JWTs identify (docs/authentication.md). If empty, the users have no "
        "namespace.",
    )
    jwt_leeway_s: float = Field(30.0, ge=0, description="Clock skew tolerated in JWT timestamps, in seconds.")
    tls_cert: NonEmpty[Path] | None = Field(
        None, description="Certificate chain of the server (PEM file). If unset, TLS is disabled."
    )
    tls_key: NonEmpty[Path] | None = Field(
        None, description="Private key of the server certificate (PEM file without a passphrase)."
    )
    tls_client_ca: NonEmpty[Path] | None = Field(
        None,
        description="CA certificates (PEM file) for client certificates. If set, every client must present a "
        "certificate.",
    )
    tls_identities: NonEmpty[Path] | None = Field(
        None,
        description="File that maps client certificates to callers. If unset, client certificates do not "
        "authenticate callers.",
    )
    insecure_plaintext: bool = Field(
        default=False,
        description="Allow credentials on a public address without TLS. Enable this only if a proxy terminates TLS.",
    )
