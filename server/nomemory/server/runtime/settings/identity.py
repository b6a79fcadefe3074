"""Who may call (docs/authentication.md)."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.runtime.settings.group import NonEmpty, SettingsGroup


class IdentitySettings(SettingsGroup):
    """Who may call (docs/authentication.md)."""

    heading: ClassVar[str] = "Who may call"

    api_keys: NonEmpty[Path] | None = Field(None, description="File of API keys; `nomemory keys` writes it.")
    jwt_secret: NonEmpty[SecretStr] | None = Field(None, description="Secret of users' tokens, at least 32 bytes.")
    jwt_jwks: NonEmpty[str] | None = Field(None, description="Instead: a JSON Web Key Set, as a file or an https URL.")
    jwt_algorithms: str = Field(
        "",
        description="Algorithms that sign tokens. Empty: HS256 for a secret, RS256 ES256 for a key set.",
    )
    jwt_issuer: str = Field("", description="`iss` of tokens; needed where there are tokens.")
    jwt_audience: str = Field("", description="`aud` of tokens; needed where there are tokens.")
    jwt_user_claim: str = Field("sub", description="Claim of a token that names its user.")
    jwt_default_scopes: str = Field(
        "", description="Scopes (`query recall`) of tokens that have neither `scope` nor `scp`. Empty: none."
    )
    jwt_namespace: str = Field(
        "", description="Namespace of the users whom tokens name (docs/authentication.md). Empty: none."
    )
    jwt_leeway_s: float = Field(
        30.0, ge=0, description="Tolerated clock difference between issuer and server, in seconds."
    )
    tls_cert: NonEmpty[Path] | None = Field(None, description="The server's certificate chain (PEM). Unset: no TLS.")
    tls_key: NonEmpty[Path] | None = Field(None, description="Its private key (PEM, without a passphrase).")
    tls_client_ca: NonEmpty[Path] | None = Field(
        None, description="Authority (PEM) of client certificates. Set: every client must have one."
    )
    tls_identities: NonEmpty[Path] | None = Field(
        None, description="File that says which client certificate is which caller. Unset: they identify nobody."
    )
    insecure_plaintext: bool = Field(
        default=False, description="Allow credentials without TLS beyond loopback: something in front ends TLS."
    )
