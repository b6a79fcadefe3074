"""Fixtures with a guarded server and the messages of two users, and MCP clients for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import grpc
import pytest
from identity.calls import bearer
from identity.issuer import TRUSTED
from identity.keyring import Keyring
from mcp.client import Client
from model_context.guarded import Connect, Guarded

from chat_messages import new_message
from nomemory.mcp.backend import Backend
from nomemory.mcp.credentials import Credential
from nomemory.mcp.server import MemoryServer
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from running_server import settings_without_embedder, started


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with ten messages of Ann and one of Bob, for which tests do not write."""
    directory = tmp_path_factory.mktemp("guarded")
    ring = Keyring(directory / "keys.json")
    service = ring.key("ingest", "query", "recall", "act-as", name="service")
    reader = ring.key("query", name="reader")
    recaller = ring.key("recall", name="recaller")
    settings = settings_without_embedder(directory / "data", api_keys=ring.path, **TRUSTED)
    with started(settings) as server:
        messages = [
            new_message("ann", f"a{n}", f"I planted {n} tomatoes", ts=1000 + n, conversation_id="garden")
            for n in range(9)
        ]
        messages.append(new_message("ann", "a9", "My sister Lena is allergic to peanuts", ts=1100))
        messages.append(new_message("bob", "b0", "canary tomatoes", ts=1000))
        written = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages), metadata=bearer(service))
        searchable = q.LexicalSearchRequest(user_id="ann", query_text="peanuts", at_least=written.write_token)
        server.query.LexicalSearch(searchable, metadata=bearer(service))
        yield Guarded(server, service, reader, recaller)


@pytest.fixture
def connect(guarded: Guarded) -> Connect:
    """Connect an SDK client with a credential and a user."""

    @asynccontextmanager
    async def connected(credential: str, user: str | None) -> AsyncIterator[Client]:
        async with grpc.aio.insecure_channel(guarded.server.target) as channel:
            backend, shown = Backend(channel, 10), Credential(tuple(bearer(credential)), user)
            server = MemoryServer(backend, lambda _context: backend.bind_caller(shown))
            async with Client(server.build_protocol_server()) as client:
                yield client

    return connected
