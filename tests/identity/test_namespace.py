"""Tests for the namespace prefix of user ids: adding, stripping and collisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from identity.contract import METHODS, fields_below, messages_of_contract
from identity.keyring import Keyring
from pydantic import ValidationError

from nomemory.server.api.identity.api_keys import ApiKeyAuthenticator, parse_keys
from nomemory.server.api.identity.certificates import CertificateAuthenticator
from nomemory.server.api.identity.credentials import IdentitySettingsError
from nomemory.server.api.identity.factory import make_authenticator
from nomemory.server.api.identity.namespace import ForeignUserError, Namespace, is_namespace, remove_namespace_prefix
from nomemory.server.api.write_tokens import WriteTokens
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.token_cipher import TokenCipher
from nomemory.server.store.sqlite_users import build_users_condition

names = st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)
users = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))

ODD_NAMES = ["", " ", "a/b", "/", "a b", "a\n", "ä", "名", "a" * 65, "..\\b", "a\0"]


@given(name=names, user_id=users)
def test_namespace_round_trip_keeps_the_user_id(name: str, user_id: str) -> None:
    namespace = Namespace(name)
    assert namespace.to_external_id(namespace.to_stored_id(user_id)) == user_id
    assert remove_namespace_prefix(namespace.to_stored_id(user_id)) == user_id


@given(first=names, other=names, user_id=users, spelled=users)
def test_user_ids_of_different_namespaces_are_disjoint(first: str, other: str, user_id: str, spelled: str) -> None:
    if first == other:
        return
    stored = Namespace(first).to_stored_id(user_id)
    assert stored != Namespace(other).to_stored_id(spelled)
    with pytest.raises(ForeignUserError):
        Namespace(other).to_external_id(stored)


@given(name=names, others=st.lists(names, max_size=5), user_id=users)
def test_counts_cover_only_the_namespace(name: str, others: list[str], user_id: str) -> None:
    _, (first, end) = build_users_condition(None, Namespace(name).prefix)
    for each in {name, *others}:
        stored = Namespace(each).to_stored_id(user_id).encode(errors="surrogatepass")
        assert (first.encode() <= stored < end.encode()) == (each == name)


def test_blank_user_id_gets_no_prefix() -> None:
    assert [Namespace("a").to_stored_id(blank) for blank in ("", " ", "\n", "\u3000")] == ["", " ", "\n", "\u3000"]
    assert Namespace("a").to_external_id("") == ""
    with pytest.raises(ForeignUserError):
        Namespace("a").to_external_id(" ")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_invalid_namespace_name_is_rejected(name: str) -> None:
    assert not is_namespace(name)
    with pytest.raises(ValueError, match="namespace"):
        Namespace(name)


def test_user_id_is_the_only_user_field() -> None:
    """Namespaces apply to fields that are named `user_id` and are strings."""
    for message_type in messages_of_contract():
        for field in fields_below(message_type):
            if "user" in field.name and field.type == field.TYPE_STRING:
                assert (field.name, field.is_repeated) == ("user_id", False), field.full_name
    assert "ListMessages" in METHODS


@pytest.mark.parametrize("name", ["acme", None])
def test_key_record_has_its_namespace(tmp_path: Path, name: str | None) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    key = keyring.key("query", namespace=name)
    assert ("namespace" in keyring.path.read_text()) == (name is not None)
    assert ApiKeyAuthenticator(keyring.path).authenticate(key).namespace == (Namespace(name) if name else None)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_key_file_with_an_invalid_namespace_is_rejected(tmp_path: Path, name: str) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    keyring.key("query", namespace="acme")
    spoiled = keyring.path.read_text().replace('"acme"', json.dumps(name)).encode()
    with pytest.raises(ValueError, match="namespace"):
        parse_keys(spoiled)
    with pytest.raises(ValidationError):
        keyring.key("query", namespace=name)


def test_certificate_entry_has_its_namespace(tmp_path: Path) -> None:
    entry = {"name": "chat", "certificate": "cn:chat", "scopes": ["query"]}
    file = tmp_path / "callers.json"
    for namespace, expected in ({}, None), ({"namespace": "acme"}, Namespace("acme")):
        file.write_text(json.dumps({"callers": [entry | namespace]}))
        assert CertificateAuthenticator(file).authenticate(frozenset({"cn:chat"})).namespace == expected
    file.write_text(json.dumps({"callers": [entry | {"namespace": "a/b"}]}))
    with pytest.raises(IdentitySettingsError, match="namespace"):
        CertificateAuthenticator(file)


def test_invalid_namespace_setting_prevents_the_start(settle: Callable[..., Settings]) -> None:
    tokens = {"jwt_secret": "s" * 32, "jwt_issuer": "i", "jwt_audience": "a"}
    make_authenticator(settle(**tokens, jwt_namespace="acme"))
    for odd in ODD_NAMES[1:]:
        with pytest.raises(IdentitySettingsError, match="NOMEMORY_JWT_NAMESPACE"):
            make_authenticator(settle(**tokens, jwt_namespace=odd))


def test_write_tokens_have_a_constant_length() -> None:
    tokens = WriteTokens(TokenCipher(bytes(32), "log"))
    issued = {sequence: tokens.issue(sequence) for sequence in (0, 9, 10, 2**62)}
    assert len({len(token) for token in issued.values()}) == 1
    assert [tokens.read(token) for token in issued.values()] == list(issued)
