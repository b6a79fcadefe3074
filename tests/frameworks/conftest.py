"""Fixtures with a user's memory and another user whose messages must not appear."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from frameworks.sample_messages import CANARY, PEANUTS
from google.protobuf.message import Message

from nomemory.client import Client, chat_message
from nomemory.client.calls import Metadata, Reply, UnaryMethod
from nomemory.v1.message_pb2 import ChatMessage
from running_server import Server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """A client of a real server."""
    with Client(server.target) as client:
        yield client


class TokenRecorder(Client):
    """A client that records the write tokens that it received and sent."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.tokens: list[str] = []
        self.at_least: list[str] = []

    def _call_unary(self, call: UnaryMethod[..., Reply], request: Message, metadata: Metadata) -> Reply:
        reply = super()._call_unary(call, request, metadata)
        self.tokens += filter(None, [getattr(reply, "write_token", "")])
        self.at_least.append(getattr(request, "at_least", ""))
        return reply


@pytest.fixture
def noting(server: Server) -> Iterator[TokenRecorder]:
    """A client that records write tokens."""
    with TokenRecorder(server.target) as client:
        yield client


def _sample_message(user: str, message_id: str, minute: int, content: str, conversation_id: str = "") -> ChatMessage:
    return chat_message(
        user_id=user,
        message_id=message_id,
        ts=f"2026-01-05T09:{minute:02}:00Z",
        role="user" if message_id != "c1" else "assistant",
        name="" if message_id != "c1" else "Kim",
        content=content,
        conversation_id=conversation_id,
    )


@pytest.fixture
def ann(client: Client, user: str) -> str:
    """A user with five searchable messages, two of them in a conversation; another user has a similar message."""
    messages = [
        _sample_message(user, "a0", 0, "My studio is above the bakery."),
        _sample_message(user, "a1", 1, PEANUTS),
        _sample_message(user, "a2", 2, "The tram was full again."),
        _sample_message(user, "c0", 3, "Shall we go to Kochi?", "trip"),
        _sample_message(user, "c1", 4, "Kochi it is.", "trip"),
        _sample_message(f"{user}-other", "b0", 1, CANARY),
    ]
    token = client.write(messages).write_token
    client.hybrid_search(user, "peanuts", at_least=token)
    client.hybrid_search(f"{user}-other", "canaries", at_least=token)
    return user
