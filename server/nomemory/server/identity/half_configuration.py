"""Refuses half a configuration of credentials.

A variable that a deployment meant to fill and did not would otherwise leave the server unguarded, or guarded by less
than its operator believes.

Settings of identity that cannot work.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from nomemory.server.cannot_start import CannotStartError
from nomemory.server.settings import Settings
from nomemory.server.settings.group import SettingsGroup


class IdentitySettingsError(CannotStartError):
    """The settings, or a file that they name, cannot be used; the text says what to do. It quotes no secret."""


_TOKEN_RULES: Final = ("jwt_issuer", "jwt_audience", "jwt_algorithms", "jwt_default_scopes", "jwt_namespace")
_CREDENTIALS: Final = (
    ("identity", ("api_keys", "jwt_secret", "jwt_jwks", "tls_cert", "tls_key", "tls_client_ca", "tls_identities")),
    ("recall", ("query_key", "query_tls_ca")),
    ("vector", ("qdrant_api_key",)),
)


def refuse_half_configuration(settings: Settings) -> None:
    """Check that whatever is configured of a kind of credential is the whole of it.

    Raises:
        IdentitySettingsError: it is not; names the variables.
    """
    checks = (_empty(settings), _of_tokens(settings), _of_certificates(settings), _of_calls_out(settings))
    for sentence in itertools.chain.from_iterable(checks):
        raise IdentitySettingsError(f"{sentence}. docs/authentication.md tells more")


def _empty(settings: Settings) -> Iterator[str]:
    for group_name, fields in _CREDENTIALS:
        group: SettingsGroup = getattr(settings, group_name)
        variables = group.variables()
        for field in fields:
            if _is_blank(getattr(group, field)):
                yield f"{variables[field]} is set but empty: fill it, or unset it"


def _is_blank(value: SecretStr | Path | str | None) -> bool:
    if value is None:
        return False
    text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
    return not text.strip() or value == Path()  # which an empty text becomes


def _of_tokens(settings: Settings) -> Iterator[str]:
    identity = settings.identity
    if identity.jwt_secret or identity.jwt_jwks:
        return
    variables = identity.variables()
    given = [variables[field] for field in _TOKEN_RULES if getattr(identity, field)]
    if given:
        yield f"{' and '.join(given)} say which tokens to take, and NOMEMORY_JWT_SECRET or NOMEMORY_JWT_JWKS is missing"


def _of_certificates(settings: Settings) -> Iterator[str]:
    identity = settings.identity
    others = identity.api_keys or identity.jwt_secret or identity.jwt_jwks
    if identity.tls_client_ca and not identity.tls_identities and not others:
        yield (
            "NOMEMORY_TLS_CLIENT_CA says who may connect, and nothing says who they are: "
            "NOMEMORY_TLS_IDENTITIES, NOMEMORY_API_KEYS or a key for tokens is missing"
        )


def _of_calls_out(settings: Settings) -> Iterator[str]:
    if settings.vector.qdrant_api_key and not settings.vector.qdrant_url:
        yield "NOMEMORY_QDRANT_API_KEY needs NOMEMORY_QDRANT_URL"
    recall = settings.recall
    if recall.query_key and not recall.query_target:
        yield "NOMEMORY_RECALL_QUERY_KEY needs NOMEMORY_RECALL_QUERY_TARGET"
    if recall.query_tls_ca and not recall.query_tls:
        yield "NOMEMORY_RECALL_QUERY_TLS_CA needs NOMEMORY_RECALL_QUERY_TLS"
