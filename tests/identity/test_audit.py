"""Tests for the audit log of writes, deletions, erasures and recalls: caller, user, action and count, no content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from identity.calls import EVERY, WRITES, bearer, listing, recall, refused, write
from identity.issuer import AUDIENCE, ISSUER, SECRET, token
from identity.keyring import Keyring
from identity.logged_server import logging_to

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub


def audited(log: str) -> list[dict[str, Any]]:
    """Return the audit entries."""
    return [line for line in map(json.loads, log.splitlines()) if line["event"] == "audit"]


def test_writes_deletions_and_recalls_on_behalf_of_users_are_audited(tmp_path: Path, user: str) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    loader, chat = keyring.key("ingest", name="loader"), keyring.key("recall", "query", "act-as", name="chat")
    settings = {"api_keys": str(keyring.path), "jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    in_the_name = (*bearer(chat), ("x-user-id", user))
    with logging_to(tmp_path / "log", log_level="error", **settings, embedding_dimension="4") as channel:
        for name in WRITES:
            EVERY[name].send(channel, user, (*bearer(loader), ("x-request-id", name)))
        for name in ("Recall", "StreamRecall"):
            EVERY[name].send(channel, user, in_the_name)
        listing(channel, user, bearer(chat))
        recall(channel, user, bearer(token(user)))
        refused(write, channel, user, bearer(chat))
        ingest, loads = IngestServiceStub(channel), bearer(loader)
        batch = [new_message("ann", "1", "tea"), new_message("ann", "2", "tea"), new_message("bob", "1", "tea")]
        ingest.WriteMessages(i.WriteMessagesRequest(messages=batch), metadata=loads)
        differing = i.WriteMessagesRequest(messages=[new_message("ann", "1", "coffee")])
        with pytest.raises(grpc.RpcError):
            ingest.WriteMessages(differing, metadata=loads, timeout=10)
        request = i.DeleteMessagesRequest(user_id="ann")
        request.filter.conversation_id = "other"
        ingest.DeleteMessages(request, metadata=loads)
    log = (tmp_path / "log").read_text()
    *lines, several, deletion = audited(log)
    said_of_writes = [(line["action"], line["caller"], line["users"], line["messages"]) for line in lines[:4]]
    assert said_of_writes == [
        ("write", "loader", {user: 1}, 1),
        ("import", "loader", {user: 0}, 0),
        ("delete", "loader", {user: 0}, 0),
        ("erase", "loader", {user: 1}, 1),
    ]
    assert [line["request_id"] for line in lines[:4]] == list(WRITES)
    recalls = [(line["action"], line["caller"], line["identity"], list(line["users"])) for line in lines[4:]]
    assert recalls == [("recall", "chat", "act-as", [user])] * 2
    assert "tea" not in log
    assert (several["users"], several["messages"]) == ({"ann": 2, "bob": 1}, 3)
    assert (deletion["action"], deletion["users"]) == ("delete-matching", {"ann": 0})
