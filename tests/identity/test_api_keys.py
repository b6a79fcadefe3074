"""Tests for API keys: hashes, expiry and revocation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from identity.calls import Metadata, bearer, listing, refused
from identity.issuer import token
from identity.keyring import Keyring

from nomemory.server.api.identity.api_keys import ApiKeyAuthenticator
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.faults import Fault

if TYPE_CHECKING:
    from identity.authenticated_server import Guarded


def test_key_is_accepted_in_both_metadata_fields(guarded: Guarded, user: str) -> None:
    key = guarded.keyring.key("query")
    listing(guarded.channel, user, bearer(key))
    listing(guarded.channel, user, (("authorization", f"bearer {key}"),))
    listing(guarded.channel, user, (("x-api-key", key),))


def test_revoked_key_is_rejected(guarded: Guarded, user: str) -> None:
    key = guarded.keyring.key("query")
    listing(guarded.channel, user, bearer(key))
    guarded.keyring.revoke(key)
    refusal = refused(listing, guarded.channel, user, bearer(key))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_INVALID")


def test_expiry_is_reported_only_for_the_right_secret(guarded: Guarded, user: str) -> None:
    key = guarded.keyring.key("query", expires=datetime.now(UTC) - timedelta(seconds=1))
    assert "expired" in refused(listing, guarded.channel, user, bearer(key)).text
    guess = key[:-1] + ("A" if key[-1] != "A" else "B")
    assert "expired" not in refused(listing, guarded.channel, user, bearer(guess)).text


def bad_credentials(key: str, user: str) -> dict[str, Metadata]:
    swapped = key[:-1] + ("A" if key[-1] != "A" else "B")
    return {
        "another secret": bearer(swapped),
        "cut short": bearer(key[:-1]),
        "longer": bearer(key + "A"),
        "another id": bearer("nm_000000000000_" + key.split("_", 2)[2]),
        "no secret": bearer("nm_000000000000_"),
        "only the prefix": bearer("nm_"),
        "empty authorization": (("authorization", ""),),
        "a scheme alone": (("authorization", "Bearer"),),
        "an empty bearer": (("authorization", "Bearer "),),
        "another scheme": (("authorization", f"Basic {key}"),),
        "no scheme": (("authorization", key),),
        "two blanks": (("authorization", f"Bearer  {key}"),),
        "an empty key": (("x-api-key", ""),),
        "a token as a key": (("x-api-key", token(user)),),
        "the same key twice": (*bearer(key), *bearer(key)),
        "a key in both places": (*bearer(key), ("x-api-key", key)),
        "a key and a token": (("x-api-key", key), *bearer(token(user))),
        "a key and an empty one": (*bearer(key), ("x-api-key", "")),
        "two keys in one value": bearer(f"{key}, Bearer {key}"),
    }


@pytest.mark.parametrize("case", bad_credentials("nm_0_k", "u"))
def test_missing_invalid_or_multiple_credentials_are_rejected(guarded: Guarded, user: str, case: str) -> None:
    key = guarded.keyring.key("query")
    refusal = refused(listing, guarded.channel, user, bad_credentials(key, user)[case])
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_INVALID")


def test_key_file_has_no_secrets_and_owner_only_permissions(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    key = keyring.key("query")
    assert key.split("_", 2)[2] not in keyring.path.read_text()
    assert keyring.path.stat().st_mode & 0o777 == 0o600
    keyring.path.chmod(0o640)
    keyring.key("query")
    assert keyring.path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"version": 2, "keys": []}', '{"keys": [{"id": "x"}]}', '{"keys": [], "more": 1}']
)
def test_no_key_is_accepted_while_the_file_is_malformed(tmp_path: Path, broken: str) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    key = keyring.key("query")
    keys = ApiKeyAuthenticator(keyring.path)
    assert keys.authenticate(key).name == "service"
    keyring.path.write_text(broken)
    with pytest.raises(Fault, match="cannot be checked"):
        keys.authenticate(key)
    with pytest.raises(IdentitySettingsError):
        ApiKeyAuthenticator(keyring.path)


def test_no_key_is_accepted_while_the_file_is_missing(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    key = keyring.key("query")
    keys = ApiKeyAuthenticator(keyring.path)
    keyring.path.unlink()
    with pytest.raises(Fault, match="cannot be checked"):
        keys.authenticate(key)
    with pytest.raises(IdentitySettingsError, match="nomemory keys create"):
        ApiKeyAuthenticator(keyring.path)
