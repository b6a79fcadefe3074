"""Tests for key rotation on a running server: two keys are valid at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ec
from identity.calls import bearer, listing, refused, write
from identity.issuer import AUDIENCE, ISSUER, claims
from identity.keyring import Keyring
from jwt import PyJWT
from jwt.algorithms import ECAlgorithm

from chat_messages import ids, new_message
from nomemory.cli.main import nomemory
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import Server

Settle = Callable[..., Settings]
Start = Callable[[Settings], AbstractContextManager[Server]]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(nomemory, arguments)


def page(server: Server, user: str, cursor: str = "", at_least: str = "") -> q.ListMessagesResponse:
    return server.query.ListMessages(
        q.ListMessagesRequest(user_id=user, page_size=1, cursor=cursor, at_least=at_least), timeout=10
    )


def reason_of(call: Callable[[], object]) -> str:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return refusal(error.value).reason


def test_cursors_and_write_tokens_survive_key_rotation(settle: Settle, start: Start, user: str) -> None:
    settings = settle()
    data = ("--data", str(settings.server.data))
    batch = i.WriteMessagesRequest(messages=[new_message(user, f"m{number}", "tea") for number in range(3)])
    with start(settings) as server:
        token = server.ingest.WriteMessages(batch).write_token
        before = page(server, user)
        assert run("cursor-key", "rotate", *data).exit_code == 0
        assert ids(page(server, user, before.next_cursor, token).items) == ["m1"]
        after = page(server, user)
        assert "still contains an old key" in run("cursor-key", "rotate", *data).output
        assert run("cursor-key", "retire", *data).exit_code == 0
        assert ids(page(server, user, after.next_cursor).items) == ["m1"]
        assert reason_of(lambda: page(server, user, before.next_cursor)) == "CURSOR_FORGED"
        assert reason_of(lambda: page(server, user, at_least=token)) == "WRITE_TOKEN_INVALID"
        assert "does not contain an old key" in run("cursor-key", "retire", *data).output
        (settings.server.data / "server.key").write_bytes(b"damaged")
        assert ids(page(server, user, after.next_cursor).items) == ["m1"]


def test_api_key_rotation_allows_an_overlap(settle: Settle, start: Start, tmp_path: Path, user: str) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    old = keyring.key("query", name="chat", namespace="shop")
    file = ("--file", str(keyring.path))
    with start(settle(api_keys=keyring.path)) as server, grpc.insecure_channel(server.target) as channel:
        made = run("keys", "rotate", old.split("_")[1], "--overlap", "1h", *file)
        new = made.stdout.strip()
        assert [listing(channel, user, bearer(key)).items for key in (old, new)] == [[], []]
        assert refused(write, channel, user, bearer(new)).reason == "SCOPE_MISSING"
        assert run("keys", "revoke", old.split("_")[1], *file).exit_code == 0
        assert refused(listing, channel, user, bearer(old)).reason == "CREDENTIALS_INVALID"
        listing(channel, user, bearer(new))
    (record,) = json.loads(keyring.path.read_text())["keys"]
    assert (record["name"], record["scopes"], record["namespace"]) == ("chat", ["query"], "shop")


def test_rotated_key_expires(settle: Settle, start: Start, tmp_path: Path, user: str) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    old = keyring.key("query")
    with start(settle(api_keys=keyring.path)) as server, grpc.insecure_channel(server.target) as channel:
        assert run("keys", "rotate", old.split("_")[1], "--overlap", "0s", "--file", str(keyring.path)).exit_code == 0
        assert refused(listing, channel, user, bearer(old)).text == "this API key has expired"
        again = run("keys", "rotate", old.split("_")[1], "--file", str(keyring.path))
        assert "has expired" in again.output


def test_key_set_accepts_both_keys_during_rotation(settle: Settle, start: Start, tmp_path: Path, user: str) -> None:
    old, new = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    file = tmp_path / "jwks.json"

    def publish(**keys: ec.EllipticCurvePrivateKey) -> None:
        members = [
            json.loads(ECAlgorithm.to_jwk(key.public_key())) | {"kid": name, "alg": "ES256"}
            for name, key in keys.items()
        ]
        file.write_text(json.dumps({"keys": members}))

    def signed(name: str, key: ec.EllipticCurvePrivateKey) -> tuple[tuple[str, str | bytes], ...]:
        return bearer(PyJWT().encode(claims(user), key, "ES256", {"kid": name}))

    publish(old=old)
    settings = settle(jwt_jwks=str(file), jwt_issuer=ISSUER, jwt_audience=AUDIENCE, jwt_default_scopes="query")
    with start(settings) as server, grpc.insecure_channel(server.target) as channel:
        listing(channel, user, signed("old", old))
        publish(old=old, new=new)
        listing(channel, user, signed("old", old))
        listing(channel, user, signed("new", new))
        publish(new=new)
        assert refused(listing, channel, user, signed("old", old)).reason == "CREDENTIALS_INVALID"
        listing(channel, user, signed("new", new))
