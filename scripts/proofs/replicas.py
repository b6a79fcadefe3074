"""Several servers of one database, called in turn as if they were one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from proofs.round_robin_channel import RoundRobinChannel
from proofs.server_under_test import ServerUnderTest

_KEY: Final = "server.key"
"""Whoever has the same opens the others' cursors and write tokens."""


@dataclass(slots=True)
class Replicas:
    """Start, kill and stop all servers at once; `servers` has each of them."""

    servers: Sequence[ServerUnderTest]

    def start(self) -> float:
        """Start those that do not run; return the seconds until all answer.

        Raises:
            ServerStartError: one of them ended, or is not ready in time. Its log says why.
        """
        first = self.servers[0]
        seconds = 0.0
        for server in self.servers:
            if not server.is_running:
                _share_key(first, server)
                seconds += server.start()
        return seconds

    @property
    def is_running(self) -> bool:
        """Whether all of them run."""
        return all(server.is_running for server in self.servers)

    @property
    def target(self) -> str:
        """Where they serve gRPC: another text whenever one of them has moved."""
        return " ".join(server.target for server in self.servers)

    @property
    def log(self) -> Path:
        """Where the first of them writes what it has to say."""
        return self.servers[0].log

    def processes(self) -> dict[str, list[int]]:
        """Return the processes of those that run, by role."""
        found: dict[str, list[int]] = {}
        for server in self.servers:
            for role, pids in (server.processes() if server.is_running else {}).items():
                found.setdefault(role, []).extend(pids)
        return found

    def channel(self) -> grpc.Channel:
        """Open a connection to each as one channel."""
        return RoundRobinChannel([server.channel() for server in self.servers])

    def kill(self) -> None:
        """Kill all processes of those that run."""
        for server in self.servers:
            if server.is_running:
                server.kill()

    def stop(self) -> float:
        """Ask those that run to end; return the seconds that it takes."""
        return sum(server.stop() for server in self.servers if server.is_running)


def _share_key(first: ServerUnderTest, one: ServerUnderTest) -> None:
    key = first.data / _KEY
    if key.exists() and not (one.data / _KEY).exists():
        one.data.mkdir(parents=True, exist_ok=True)
        shutil.copy(key, one.data)
