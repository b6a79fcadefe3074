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
        for one in self.servers:
            if not one.is_running:
                _share_key(first, one)
                seconds += one.start()
        return seconds

    @property
    def is_running(self) -> bool:
        """Whether all of them run."""
        return all(one.is_running for one in self.servers)

    @property
    def target(self) -> str:
        """Where they serve gRPC: another text whenever one of them has moved."""
        return " ".join(one.target for one in self.servers)

    @property
    def log(self) -> Path:
        """Where the first of them writes what it has to say."""
        return self.servers[0].log

    def processes(self) -> dict[str, list[int]]:
        """Return the processes of those that run, by role."""
        found: dict[str, list[int]] = {}
        for one in self.servers:
            for role, pids in (one.processes() if one.is_running else {}).items():
                found.setdefault(role, []).extend(pids)
        return found

    def channel(self) -> grpc.Channel:
        """Open a connection to each as one channel."""
        return RoundRobinChannel([one.channel() for one in self.servers])

    def kill(self) -> None:
        """Kill all processes of those that run."""
        for one in self.servers:
            if one.is_running:
                one.kill()

    def stop(self) -> float:
        """Ask those that run to end; return the seconds that it takes."""
        return sum(one.stop() for one in self.servers if one.is_running)


def _share_key(first: ServerUnderTest, one: ServerUnderTest) -> None:
    key = first.data / _KEY
    if key.exists() and not (one.data / _KEY).exists():
        one.data.mkdir(parents=True, exist_ok=True)
        shutil.copy(key, one.data)
