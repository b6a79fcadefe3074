"""Several servers of one database behind one round-robin channel."""

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
"""Key file of cursors and write tokens; replicas share it to accept each other's tokens."""


@dataclass(slots=True)
class Replicas:
    """A group of replicas that start and stop together."""

    servers: Sequence[ServerUnderTest]

    def start(self) -> float:
        """Start the servers that do not run; return the seconds until all are ready.

        Raises:
            ServerStartError: a server exited or was not ready in time; the server's log file states the reason.
        """
        first = self.servers[0]
        seconds = 0.0
        for server in self.servers:
            if not server.is_running:
                _copy_token_key(first, server)
                seconds += server.start()
        return seconds

    @property
    def is_running(self) -> bool:
        """Whether all servers run."""
        return all(server.is_running for server in self.servers)

    @property
    def target(self) -> str:
        """The gRPC addresses, separated by spaces; they change when a server restarts."""
        return " ".join(server.target for server in self.servers)

    @property
    def log(self) -> Path:
        """Log file of the first server."""
        return self.servers[0].log

    def find_pids_by_role(self) -> dict[str, list[int]]:
        """Return the process ids of the running servers by role."""
        pids_by_role: dict[str, list[int]] = {}
        for server in self.servers:
            for role, pids in (server.find_pids_by_role() if server.is_running else {}).items():
                pids_by_role.setdefault(role, []).extend(pids)
        return pids_by_role

    def open_channel(self) -> grpc.Channel:
        """Return a channel that rotates over the servers."""
        return RoundRobinChannel([server.open_channel() for server in self.servers])

    def kill(self) -> None:
        """Kill all processes of the running servers."""
        for server in self.servers:
            if server.is_running:
                server.kill()

    def stop(self) -> float:
        """Stop the running servers gracefully; return the elapsed seconds."""
        return sum(server.stop() for server in self.servers if server.is_running)


def _copy_token_key(first: ServerUnderTest, replica: ServerUnderTest) -> None:
    key = first.data / _KEY
    if key.exists() and not (replica.data / _KEY).exists():
        replica.data.mkdir(parents=True, exist_ok=True)
        shutil.copy(key, replica.data)
