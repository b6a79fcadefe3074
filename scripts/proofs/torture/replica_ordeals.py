"""What two servers of one PostgreSQL have to go through, and what PostgreSQL does to them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from proofs.private_postgres import PrivatePostgres, execute
from proofs.subject import Subject
from proofs.torture.arena import Arena
from proofs.torture.ordeals import AGAIN_S, Ordeal, kill, kill_everything, needs, qdrant_away, stop, wait

DURABLE = ("shared_buffers=32MB",)
"""How PostgreSQL runs: what it has acknowledged is on the disk."""
LEASE_S = "1.5"
"""How long a server's claims on buckets of a shared index last, in seconds."""
_CUTS = 5
_TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


def _kill_replica(arena: Arena) -> None:
    """Kill one; the other one goes on."""
    _one(arena).kill()
    arena.writes_again(AGAIN_S)


def _stop_replica(arena: Arena) -> None:
    _one(arena).stop()
    arena.writes_again(AGAIN_S)


def _restart(mode: str) -> Callable[[Arena], None]:
    def happen(arena: Arena) -> None:
        database = _database(arena)
        database.stop(mode)
        wait(arena)
        database.start(DURABLE)
        arena.writes_again(AGAIN_S)

    return happen


def _crash_with_replica(arena: Arena) -> None:
    """Kill a server while PostgreSQL is away; the other one goes on when it is back."""
    database = _database(arena)
    database.stop("immediate")
    _one(arena).kill()
    wait(arena)
    database.start(DURABLE)
    arena.writes_again(AGAIN_S)


def _halt(arena: Arena) -> None:
    with _database(arena).paused():
        wait(arena)
    arena.writes_again(AGAIN_S)


def _cut(arena: Arena) -> None:
    """End all connections, again and again."""
    for _ in range(_CUTS):
        execute(_database(arena), _TERMINATE)
        wait(arena, 0.1)
    arena.writes_again(AGAIN_S)


def _halt_replica(arena: Arena) -> None:
    """Stop a server for so long that the other takes over what it was indexing; then let it go on."""
    pids = [pid for some in _one(arena).processes().values() for pid in some]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(float(LEASE_S))
        wait(arena)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    arena.writes_again(AGAIN_S)


def _needs_qdrant(arena: Arena) -> str:
    return "" if arena.gate else f"{arena.name} has no index that is shared"


def _one(arena: Arena) -> Subject:
    return arena.random.choice(arena.subject.subjects)


def _database(arena: Arena) -> PrivatePostgres:
    if arena.database is None:
        raise RuntimeError("there is no PostgreSQL")
    return arena.database


REPLICA_ORDEALS = (
    Ordeal("kill -9 of a replica", _kill_replica),
    Ordeal("kill -9 of both replicas", kill_everything),
    Ordeal("kill -9 of a vector worker", kill("vector worker"), needs("vector worker")),
    Ordeal("SIGTERM of a replica", _stop_replica),
    Ordeal("SIGTERM of both replicas", stop),
    Ordeal("PostgreSQL crashes (immediate)", _restart("immediate")),
    Ordeal("PostgreSQL restarts (fast)", _restart("fast")),
    Ordeal("PostgreSQL crashes, a replica is killed", _crash_with_replica),
    Ordeal("PostgreSQL halts (SIGSTOP)", _halt),
    Ordeal("all connections cut", _cut),
    Ordeal("a replica halts beyond its time (SIGSTOP)", _halt_replica, _needs_qdrant),
    Ordeal("Qdrant away", qdrant_away, _needs_qdrant),
)
