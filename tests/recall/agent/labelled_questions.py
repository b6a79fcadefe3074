"""The labeled questions of the sample, and a stub of the server that contains it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import grpc

from nomemory.recall.model.question import Question
from nomemory.recall.tools.query_stub import QueryStub
from nomemory.v1 import query_service_pb2_grpc

SAMPLE = Path(__file__).parents[3] / "sample"


@dataclass(frozen=True)
class Labelled:
    """A question of the sample and the messages with its answer."""

    question_id: str
    user_id: str
    question: Question
    evidence: frozenset[str]


def labelled() -> list[Labelled]:
    """Read the questions of the sample."""
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


@asynccontextmanager
async def query_stub(target: str) -> AsyncIterator[QueryStub]:
    """Connect to a server."""
    async with grpc.aio.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        yield query_service_pb2_grpc.QueryServiceStub(channel)
