"""Tests that contradictory or insecure credential settings prevent the server start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from identity.issuer import AUDIENCE, ISSUER, SECRET
from pydantic import ValidationError

from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.api.identity.factory import make_authenticator
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.app import running_server
from nomemory.server.runtime.settings import Settings

Settle = Callable[..., Settings]

TOKENS = {"jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
KEY_SET = {"jwt_jwks": "https://issuer.example/keys", "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}

BAD: dict[str, tuple[dict[str, str], str]] = {
    "a short secret": (TOKENS | {"jwt_secret": "short"}, "at least 32 bytes"),
    "a secret and a key set": (TOKENS | KEY_SET, "not both"),
    "no issuer": (TOKENS | {"jwt_issuer": ""}, "JWT_ISSUER"),
    "no audience": (TOKENS | {"jwt_audience": ""}, "JWT_AUDIENCE"),
    "no user claim": (TOKENS | {"jwt_user_claim": ""}, "JWT_USER_CLAIM"),
    "no algorithm at all": (TOKENS | {"jwt_algorithms": "none"}, "JWT_ALGORITHMS"),
    "none besides a good one": (TOKENS | {"jwt_algorithms": "HS256 none"}, "JWT_ALGORITHMS"),
    "a public key's algorithm with a secret": (TOKENS | {"jwt_algorithms": "RS256"}, "JWT_ALGORITHMS"),
    "a secret's algorithm with a key set": (KEY_SET | {"jwt_algorithms": "RS256,HS256"}, "JWT_ALGORITHMS"),
    "only commas": (TOKENS | {"jwt_algorithms": " , "}, "JWT_ALGORITHMS"),
    "a key set in the clear": (KEY_SET | {"jwt_jwks": "http://issuer.example/keys"}, "https"),
    "a key set that is not there": (KEY_SET | {"jwt_jwks": "/nowhere/keys.json"}, "/nowhere/keys.json"),
    "a file of keys that is not there": ({"api_keys": "/nowhere/keys.json"}, "nomemory keys create"),
    "a file of certificates that is not there": ({"tls_identities": "/nowhere/names.json"}, "/nowhere/names.json"),
}


_FILE = "/somewhere/file"
HALF: dict[str, tuple[dict[str, str], str]] = {
    "an issuer and an audience": ({"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}, "NOMEMORY_JWT_SECRET"),
    "a namespace for tokens": ({"jwt_namespace": "shop"}, "NOMEMORY_JWT_NAMESPACE"),
    "scopes for tokens": ({"jwt_default_scopes": "query"}, "NOMEMORY_JWT_DEFAULT_SCOPES"),
    "a certificate without its key": ({"tls_cert": _FILE}, "both NOMEMORY_TLS_CERT and NOMEMORY_TLS_KEY"),
    "an authority that identifies nobody": (
        {"tls_client_ca": _FILE, "tls_cert": _FILE, "tls_key": _FILE},
        "NOMEMORY_TLS_IDENTITIES",
    ),
    "a key for queries of nobody": ({"recall_upstream_api_key": "nm_a_b"}, "NOMEMORY_RECALL_UPSTREAM"),
    "an authority for queries in the clear": ({"recall_upstream_tls_ca": _FILE}, "NOMEMORY_RECALL_UPSTREAM_TLS"),
    "a key of Qdrant without Qdrant": ({"qdrant_api_key": "key"}, "NOMEMORY_QDRANT_URL"),
}


@pytest.mark.parametrize("case", HALF)
async def test_incomplete_credential_settings_prevent_the_start(settle: Settle, case: str) -> None:
    changed, sentence = HALF[case]
    settings = settle(**changed)
    with pytest.raises(IdentitySettingsError, match=sentence):
        async with running_server(settings):
            pass
    assert not settings.server.data.exists()


EMPTY = ("api_keys", "jwt_secret", "jwt_jwks", "tls_cert", "tls_key", "tls_client_ca", "tls_identities")
EMPTY_BESIDE = ("recall_upstream_api_key", "recall_upstream_tls_ca", "qdrant_api_key")


@pytest.mark.parametrize("name", [*EMPTY, *EMPTY_BESIDE])
@pytest.mark.parametrize("value", ["", "  "])
def test_empty_credential_setting_is_rejected(settle: Settle, name: str, value: str) -> None:
    with pytest.raises(ValidationError, match="is set but empty") as error:
        settle(**{name: value})
    assert [fault["loc"][-1] for fault in error.value.errors()] == [f"NOMEMORY_{name.upper()}"]


def test_empty_key_file_is_rejected(settle: Settle, tmp_path: Path) -> None:
    (tmp_path / "keys.json").touch()
    with pytest.raises(IdentitySettingsError, match="nomemory keys create"):
        make_authenticator(settle(api_keys=str(tmp_path / "keys.json")))


@pytest.mark.parametrize("case", BAD)
def test_invalid_settings_are_rejected_with_advice(settle: Settle, case: str) -> None:
    changed, sentence = BAD[case]
    with pytest.raises(IdentitySettingsError, match=sentence) as error:
        make_authenticator(settle(**changed))
    assert SECRET not in str(error.value)


async def test_local_caller_has_all_scopes(settle: Settle) -> None:
    caller = await make_authenticator(settle()).authenticate((("x-user-id", "ann"),), dict)
    assert (caller.name, caller.scopes, caller.user_id) == ("local", frozenset(Scope), None)


@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
async def test_credentials_are_rejected_if_none_are_configured(settle: Settle, name: str) -> None:
    with pytest.raises(Fault, match="no credentials configured") as error:
        await make_authenticator(settle()).authenticate(((name, ""),), dict)
    assert error.value.reason == Reason.ERROR_REASON_CREDENTIALS_INVALID


async def test_credential_of_an_unconfigured_kind_is_rejected(settle: Settle, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}')
    only_keys = make_authenticator(settle(api_keys=str(tmp_path / "keys.json")))
    only_tokens = make_authenticator(settle(**TOKENS))
    for authenticator, credential, message in (
        (only_keys, "a.b.c", "this server accepts API keys, not tokens"),
        (only_tokens, "nm_0_0", "this server accepts tokens, not API keys"),
    ):
        with pytest.raises(Fault, match=message) as error:
            await authenticator.authenticate((("authorization", f"Bearer {credential}"),), dict)
        assert error.value.reason == Reason.ERROR_REASON_CREDENTIALS_INVALID


def test_settings_repr_hides_secrets(settle: Settle) -> None:
    assert SECRET not in repr(settle(**TOKENS))
