"""Tests for `nomemory keys`, and for the credentials of other commands and of the client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from identity.issuer import token

from nomemory.cli.main import nomemory
from nomemory.client.aio import AsyncClient
from nomemory.client.channel import ClientCredentials
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.server.api.identity.api_keys import ApiKeyAuthenticator
from nomemory.server.api.identity.caller import Caller, Scope
from nomemory.server.api.identity.namespace import Namespace

if TYPE_CHECKING:
    from identity.authenticated_server import Guarded

Keys = Callable[..., Result]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Run `nomemory keys` with the key file of the test."""
    environment = {"NOMEMORY_API_KEYS": str(tmp_path / "keys.json"), "COLUMNS": "100", "NO_COLOR": "1"}
    return lambda *arguments: CliRunner().invoke(nomemory, ["keys", *arguments], env=environment)


def test_created_key_has_its_scopes(keys: Keys, tmp_path: Path) -> None:
    made = keys("create", "--name", "chat", "--scope", "query", "--scope", "act-as")
    assert made.exit_code == 0
    caller = ApiKeyAuthenticator(tmp_path / "keys.json").authenticate(made.stdout.strip())
    assert caller == Caller("chat", frozenset({Scope.QUERY, Scope.ACT_AS}))
    assert "not shown again" in made.stderr


def test_keys_are_listed_and_revoked_by_id(keys: Keys, tmp_path: Path) -> None:
    first = keys("create", "--name", "chat", "--scope", "query", "--expires", "90d").stdout.strip()
    second = keys("create", "--name", "loader", "--scope", "ingest").stdout.strip()
    listed = keys("list").stdout
    assert [line.split()[1:3] for line in listed.splitlines()[1:]] == [["chat", "query"], ["loader", "ingest"]]
    assert first.split("_", 2)[2] not in listed
    assert listed.splitlines()[2].rstrip().endswith("never")
    assert keys("revoke", first.split("_")[1]).exit_code == 0
    assert "chat" not in keys("list").stdout
    assert ApiKeyAuthenticator(tmp_path / "keys.json").authenticate(second).name == "loader"


def test_failed_keys_command_changes_nothing(keys: Keys, tmp_path: Path) -> None:
    keys("create", "--name", "chat", "--scope", "query")
    before = (tmp_path / "keys.json").read_bytes()
    assert keys("revoke", "000000000000").exit_code == 1
    assert keys("create", "--name", "chat").exit_code == 2
    assert keys("create", "--name", "chat", "--scope", "everything").exit_code == 2
    assert keys("create", "--name", "two words", "--scope", "query").exit_code == 2
    assert keys("create", "--name", "chat", "--scope", "query", "--expires", "soon").exit_code == 2
    assert (tmp_path / "keys.json").read_bytes() == before
    (tmp_path / "keys.json").write_text("{")
    for arguments in (["list"], ["create", "--name", "chat", "--scope", "query"], ["revoke", "000000000000"]):
        broken = keys(*arguments)
        assert (broken.exit_code, "invalid credential file (API keys): " in broken.stderr) == (1, True)
    assert (tmp_path / "keys.json").read_text() == "{"


def test_cli_sends_the_api_key(guarded: Guarded, user: str) -> None:
    key = guarded.keyring.key("query")

    def listed(*arguments: str, **environment: str | None) -> Result:
        command = ["list", "--user", user, "--target", guarded.target, *arguments]
        return CliRunner().invoke(nomemory, command, env={"NOMEMORY_API_KEY": None} | environment)

    assert listed("--api-key", key).exit_code == 0
    assert listed(NOMEMORY_API_KEY=key).exit_code == 0
    without = listed()
    assert without.exit_code == 1
    assert "--api-key" in without.stderr
    assert key not in listed("--api-key", key[:-1]).output


async def test_clients_send_keys_and_tokens(guarded: Guarded, user: str) -> None:
    key = guarded.keyring.key("query", "recall", "act-as")
    for identity in (ClientCredentials(api_key=key), ClientCredentials(token=token(user))):
        with Client(guarded.target, **identity) as client:
            client.list_messages(user)
            client.recall("tea?", user_id=user)
        async with AsyncClient(guarded.target, **identity) as client:
            await client.list_messages(user)
            await client.recall("tea?", user_id=user)
    with Client(guarded.target) as client, pytest.raises(NoMemoryError) as error:
        client.list_messages(user)
    assert error.value.reason == "ERROR_REASON_CREDENTIALS_MISSING"
    with pytest.raises(ValueError, match="cannot be combined"):
        Client(guarded.target, api_key=key, token=token(user))


@pytest.mark.parametrize("name", ["lin", "林", " lin ", "l i n", "ли́н"])
def test_service_recalls_for_non_ascii_user_ids(guarded: Guarded, name: str) -> None:
    with Client(guarded.target, api_key=guarded.keyring.key("recall", "act-as")) as client:
        assert client.recall("tea?", user_id=name).HasField("limits")


def test_key_can_have_a_namespace(keys: Keys, tmp_path: Path) -> None:
    made = keys("create", "--name", "shop", "--scope", "query", "--namespace", "shop.eu")
    keys("create", "--name", "operator", "--scope", "admin")
    caller = ApiKeyAuthenticator(tmp_path / "keys.json").authenticate(made.stdout.strip())
    assert caller == Caller("shop", frozenset({Scope.QUERY}), namespace=Namespace("shop.eu"))
    listed = keys("list").stdout.splitlines()[1:]
    assert [line.split()[3] == "shop.eu" for line in listed] == [True, False]
    for odd in ("", "a/b", "a b", "ä", "x" * 65):
        refused = keys("create", "--name", "shop", "--scope", "query", "--namespace", odd)
        assert (refused.exit_code, "namespace" in refused.stderr) == (2, True)
