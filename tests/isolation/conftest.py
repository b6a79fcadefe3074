"""Fixtures with a server that accepts every kind of credential, victims and attackers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from identity.keyring import Keyring
from isolation.fixtures import DIMENSION, Attacker, World, hostile_model, new_victims

from proofs.contract import Metadata
from proofs.scripted_endpoint import ScriptedEndpoint
from proofs.server_under_test import ServerUnderTest

ISSUER, AUDIENCE = "https://issuer.invalid", "nomemory"
EVERY_SCOPE = ("ingest", "query", "recall", "act-as", "admin")
ALLOWED_ORIGIN = "https://chat.example"


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server in a separate process, so that its complete log can be read."""
    root, secret = tmp_path_factory.mktemp("isolation"), secrets.token_urlsafe(48)
    keyring = Keyring(root / "keys.json")
    owner = bearer(keyring.key(*EVERY_SCOPE))
    application = bearer(keyring.key(*EVERY_SCOPE, namespace="a"))
    service = bearer(keyring.key("ingest", "query", "recall", "act-as"))
    mallory = bearer(user_token(secret, "mallory"))
    attackers = (
        Attacker("a user with a token", mallory, "mallory", may_name_others=True, stored_user_id="mallory"),
        Attacker("another application", application, "mallory", may_name_others=True, stored_user_id="a/mallory"),
        Attacker("a service for its own user", service, "trudy", may_name_others=False, stored_user_id="trudy"),
        Attacker("nobody", (), "", may_name_others=True),
        Attacker("a wrong key", bearer(f"nm_{'0' * 12}_{'A' * 43}"), "", may_name_others=True),
    )
    victims = [*new_victims(3), *new_victims(2, "b/")]
    with ScriptedEndpoint(DIMENSION).serve() as endpoint:
        endpoint.chat = hostile_model(victims[0].user_id)
        settings = {
            "NOMEMORY_HTTP_LISTEN": "127.0.0.1:0",
            "NOMEMORY_HTTP_CORS_ORIGINS": ALLOWED_ORIGIN,
            "NOMEMORY_API_KEYS": str(keyring.path),
            "NOMEMORY_JWT_SECRET": secret,
            "NOMEMORY_JWT_ISSUER": ISSUER,
            "NOMEMORY_JWT_AUDIENCE": AUDIENCE,
            "NOMEMORY_EMBEDDER": "openai",
            "NOMEMORY_EMBEDDING_MODEL": "scripted",
            "NOMEMORY_EMBEDDING_DIMENSION": str(DIMENSION),
            "NOMEMORY_RECALL_MODEL": "scripted",
            "NOMEMORY_DEFAULT_DEADLINE_S": "15",
            "NOMEMORY_AUDIT_LOG": "false",  # the audit log contains user ids, and the log is searched for them
            "OPENAI_BASE_URL": endpoint.url,
            "OPENAI_API_KEY": "none",
        }
        server = ServerUnderTest(root / "data", settings, root / "server.log")
        server.start()
        try:
            created = World(server, owner, attackers, victims)
            created.fill()
            yield created
        finally:
            server.stop()


def bearer(credential: str) -> Metadata:
    """Return the metadata of a credential."""
    return (("authorization", f"Bearer {credential}"),)


def user_token(secret: str, user_id: str) -> str:
    """Sign a user's token."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": user_id, "scope": "query recall"}
    return jwt.encode(claims | {"exp": datetime.now(UTC) + timedelta(hours=12)}, secret, "HS256")
