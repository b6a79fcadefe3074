"""A guarded server with two users' messages, and ways to reach it as an agent does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from identity.calls import bearer
from identity.conftest import small
from identity.issuer import TRUSTED, token
from identity.keyring import Keyring
from mcp.client import Client

from conftest import Server, started
from nomemory.mcp.bound_caller import Credential
from nomemory.mcp.memory import Memory
from nomemory.mcp.server import MemoryServer
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from talk import said

NOMEMORY = str(Path(sys.executable).with_name("nomemory"))


@dataclass(frozen=True)
class Guarded:
    """The server, and the credentials that it takes."""

    server: Server
    service: str
    reader: str

    def token(self, user: str) -> str:
        """Return a token of a user."""
        return token(user)

    def environment(self, key: str) -> dict[str, str]:
        """Return what a command of this service needs."""
        return {"NOMEMORY_TARGET": self.server.target, "NOMEMORY_API_KEY": key, "LC_ALL": "C.UTF-8"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Ann's ten messages, and one of Bob's."""
    directory = tmp_path_factory.mktemp("guarded")
    ring = Keyring(directory / "keys.json")
    service = ring.key("ingest", "query", "recall", "act-as", name="service")
    reader = ring.key("query", name="reader")
    settings = small(directory, api_keys=ring.path, **TRUSTED)
    with started(settings) as server:
        messages = [
            said("ann", f"a{n}", f"I planted {n} tomatoes", ts=1000 + n, conversation_id="garden") for n in range(9)
        ]
        messages.append(said("ann", "a9", "My sister Lena is allergic to peanuts", ts=1100))
        messages.append(said("bob", "b0", "canary tomatoes", ts=1000))
        written = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages), metadata=bearer(service))
        searchable = q.LexicalSearchRequest(user_id="ann", query_text="peanuts", at_least=written.write_token)
        server.query.LexicalSearch(searchable, metadata=bearer(service))
        yield Guarded(server, service, reader)


Connect = Callable[[str, str | None], AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect(guarded: Guarded) -> Connect:
    """Open the SDK's own client on a server for one credential and one user."""

    @asynccontextmanager
    async def connected(credential: str, user: str | None) -> AsyncIterator[Client]:
        async with grpc.aio.insecure_channel(guarded.server.target) as channel:
            memory, shown = Memory(channel, 10), Credential(tuple(bearer(credential)), user)
            async with Client(MemoryServer(memory, lambda _context: memory.bind(shown)).protocol()) as client:
                yield client

    return connected


@contextmanager
def command(environment: Mapping[str, str], *arguments: str) -> Iterator[str]:
    """Run `nomemory mcp` and return the address that it prints."""
    process = subprocess.Popen([NOMEMORY, "mcp", *arguments], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(30)
