"""A server of one's own to attack: API keys, a namespace, users' tokens, a chat model on the attackers' side."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import jwt

from proofs.isolation.contract import Metadata
from proofs.isolation.way import Way
from proofs.isolation.world import Attacker, Victim, World, new_victims
from proofs.scripted_endpoint import Body, Chat, ScriptedEndpoint
from proofs.subject import Subject

_DIMENSION = 8
_ISSUER, _AUDIENCE = "https://issuer.invalid", "nomemory"
_EVERYTHING = ("ingest", "query", "recall", "act-as", "admin")
_COMMAND = "from nomemory.cli.main import main; main()"


@contextmanager
def own_world(root: Path, settings: dict[str, str], way: Way) -> Iterator[tuple[World, Subject]]:
    """Run a server with victims and attackers until the context is left; `settings` go to the server.

    The world reaches it in one way.
    """
    keys, secret = root / "keys.json", secrets.token_urlsafe(48)
    owner = _key(keys, "owner", *_EVERYTHING)
    neighbour = _key(keys, "neighbour", *_EVERYTHING, namespace="a")
    service = _key(keys, "service", "ingest", "query", "recall", "act-as")
    victims = [*new_victims(3), *new_victims(2, "b/")]
    with ScriptedEndpoint(_DIMENSION).serving() as endpoint:
        endpoint.chat = hostile_model(victims)
        subject = Subject(
            root / "data", {**_settings(keys, secret, endpoint), **way.settings, **settings}, root / "server.log"
        )
        subject.start()
        try:
            with way.open(address(subject, way), None) as transport:
                attackers = [
                    Attacker(
                        "a user with a token",
                        _bearer(_token(secret, "mallory")),
                        "mallory",
                        may_try_others=True,
                        stored_as="mallory",
                    ),
                    Attacker("another application", neighbour, "mallory", may_try_others=True, stored_as="a/mallory"),
                    Attacker("a service for its own user", service, "trudy", may_try_others=False, stored_as="trudy"),
                    Attacker("nobody", (), "", may_try_others=True),
                    Attacker(
                        "somebody with a wrong key", _bearer(f"nm_{'0' * 12}_{'A' * 43}"), "", may_try_others=True
                    ),
                ]
                yield World(transport, owner, attackers, victims), subject
        finally:
            if subject.is_running:
                subject.stop()


def address(subject: Subject, way: Way) -> str:
    """Return where a server is reached in one way."""
    return subject.http if "NOMEMORY_HTTP" in way.settings else subject.target


def hostile_model(victims: list[Victim]) -> Chat:
    """Make a chat model that asks for the victims' messages in every way, and cites what it never saw."""
    turns = count()
    victim = victims[0].user_id
    arguments: list[dict[str, Any]] = [
        {"user_id": victim, "filter": {"role": "any", "time_range": {}}},
        {"userId": victim, "x-user-id": victim, "tenant": "*", "filter": {"role": "any", "user_id": victim}},
        {
            "query_text": f"user_id:{victim} OR *",
            "filter": {"role": "any", "time_range": {"until": "2030-01-01T00:00:00Z"}},
        },
        {"message_id": "m1", "before": 10**9, "after": 10**9, "owner": victim},
        {"query_text": json.dumps({"user_id": victim}), "filter": {"role": "any"}, "page_size": 10**9},
    ]
    tools = ("messages_list", "lexical_search", "semantic_search", "neighbors", "hybrid_search", "export_messages")
    quote = {"text": "says it", "citations": [{"message_id": "m1", "quote": "I like"}]}

    def chat(body: Body) -> str:
        if "You compose a memory view" in str(body["messages"][0]["content"]):
            return json.dumps({"preferences": [quote], "profile": [], "constraints": [], "verdict": "supported"})
        turn = next(turns)
        return json.dumps({"stop": False, "tool": tools[turn % len(tools)], "args": arguments[turn % len(arguments)]})

    return chat


def _settings(keys: Path, secret: str, endpoint: ScriptedEndpoint) -> dict[str, str]:
    return {
        "NOMEMORY_API_KEYS": str(keys),
        "NOMEMORY_JWT_SECRET": secret,
        "NOMEMORY_JWT_ISSUER": _ISSUER,
        "NOMEMORY_JWT_AUDIENCE": _AUDIENCE,
        "NOMEMORY_EMBEDDER": "openai",
        "NOMEMORY_EMBEDDING_MODEL": "scripted",
        "NOMEMORY_EMBEDDING_DIMENSION": str(_DIMENSION),
        "NOMEMORY_RECALL_MODEL": "scripted",
        "NOMEMORY_DEADLINE_DEFAULT_S": "15",
        "NOMEMORY_AUDIT": "false",  # it names users, as it is meant to, and the log is searched for their names
        "OPENAI_BASE_URL": endpoint.url,
        "OPENAI_API_KEY": "none",
    }


def _key(keys: Path, name: str, *scopes: str, namespace: str = "") -> Metadata:
    """Make an API key as an operator does; return it as metadata."""
    arguments = [word for scope in scopes for word in ("--scope", scope)]
    arguments += ["--namespace", namespace] if namespace else []
    made = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-P", "-c", _COMMAND, "keys", "create", "--name", name, "--file", str(keys), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return _bearer(made.stdout.strip())


def _token(secret: str, user_id: str) -> str:
    claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": user_id, "scope": "query recall"}
    return jwt.encode(claims | {"exp": datetime.now(UTC) + timedelta(hours=12)}, secret, "HS256")


def _bearer(credential: str) -> Metadata:
    return (("authorization", f"Bearer {credential}"),)
