"""Faults of two servers that share one PostgreSQL, and of that PostgreSQL."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from proofs.private_postgres import PrivatePostgres, execute
from proofs.server_under_test import ServerUnderTest
from proofs.torture.faults import AGAIN_S, Fault, kill, kill_everything, needs, qdrant_away, stop, wait
from proofs.torture.harness import Harness

DURABLE = ("shared_buffers=32MB",)
"""How PostgreSQL runs: what it has acknowledged is on the disk."""
LEASE_S = "1.5"
"""How long a server's claims on buckets of a shared index last, in seconds."""
_CUTS = 5
_TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


def _kill_replica(harness: Harness) -> None:
    """Kill one; the other one goes on."""
    _one(harness).kill()
    harness.writes_again(AGAIN_S)


def _stop_replica(harness: Harness) -> None:
    _one(harness).stop()
    harness.writes_again(AGAIN_S)


def _restart(mode: str) -> Callable[[Harness], None]:
    def inject(harness: Harness) -> None:
        database = _database(harness)
        database.stop(mode)
        wait(harness)
        database.start(DURABLE)
        harness.writes_again(AGAIN_S)

    return inject


def _crash_with_replica(harness: Harness) -> None:
    """Kill a server while PostgreSQL is away; the other one goes on when it is back."""
    database = _database(harness)
    database.stop("immediate")
    _one(harness).kill()
    wait(harness)
    database.start(DURABLE)
    harness.writes_again(AGAIN_S)


def _halt(harness: Harness) -> None:
    with _database(harness).paused():
        wait(harness)
    harness.writes_again(AGAIN_S)


def _cut(harness: Harness) -> None:
    """End all connections, again and again."""
    for _ in range(_CUTS):
        execute(_database(harness), _TERMINATE)
        wait(harness, 0.1)
    harness.writes_again(AGAIN_S)


def _halt_replica(harness: Harness) -> None:
    """Stop a server for so long that the other takes over what it was indexing; then let it go on."""
    pids = [pid for some in _one(harness).processes().values() for pid in some]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(float(LEASE_S))
        wait(harness)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    harness.writes_again(AGAIN_S)


def _needs_qdrant(harness: Harness) -> str:
    return "" if harness.proxy else f"{harness.name} has no index that is shared"


def _one(harness: Harness) -> ServerUnderTest:
    return harness.random.choice(harness.server.servers)


def _database(harness: Harness) -> PrivatePostgres:
    if harness.database is None:
        raise RuntimeError("there is no PostgreSQL")
    return harness.database


REPLICA_FAULTS = (
    Fault("kill -9 of a replica", _kill_replica),
    Fault("kill -9 of both replicas", kill_everything),
    Fault("kill -9 of a vector worker", kill("vector worker"), needs("vector worker")),
    Fault("SIGTERM of a replica", _stop_replica),
    Fault("SIGTERM of both replicas", stop),
    Fault("PostgreSQL crashes (immediate)", _restart("immediate")),
    Fault("PostgreSQL restarts (fast)", _restart("fast")),
    Fault("PostgreSQL crashes, a replica is killed", _crash_with_replica),
    Fault("PostgreSQL halts (SIGSTOP)", _halt),
    Fault("all connections cut", _cut),
    Fault("a replica halts beyond its time (SIGSTOP)", _halt_replica, _needs_qdrant),
    Fault("Qdrant away", qdrant_away, _needs_qdrant),
)
