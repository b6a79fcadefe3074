"""A guarded server with messages of two users, and the MCP command for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from identity.issuer import token
from mcp.client import Client

from running_server import Server

NOMEMORY = str(Path(sys.executable).with_name("nomemory"))


@dataclass(frozen=True)
class Guarded:
    """A server and its credentials."""

    server: Server
    service: str
    reader: str
    recaller: str

    def token(self, user: str) -> str:
        """Return a token of a user."""
        return token(user)

    def environment(self, key: str) -> dict[str, str]:
        """Return the environment of a command with the key of this service."""
        return {"NOMEMORY_TARGET": self.server.target, "NOMEMORY_API_KEY": key, "LC_ALL": "C.UTF-8"}


Connect = Callable[[str, str | None], AbstractAsyncContextManager[Client]]


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
