"""Faults of two servers that share one PostgreSQL, and of PostgreSQL itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from proofs.private_postgres import PrivatePostgres, execute_statement
from proofs.server_under_test import ServerUnderTest
from proofs.torture.faults import (
    RECOVERY_S,
    Fault,
    kill_all_processes,
    kill_process,
    require_role,
    sleep_fault_duration,
    stop_gracefully,
    stop_qdrant,
)
from proofs.torture.harness import Harness

DURABLE = ("shared_buffers=32MB",)
"""PostgreSQL options; durability settings stay at their defaults."""
LEASE_S = "1.5"
"""Lease of the indexer lock in seconds."""
_CUTS = 5
_TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


def _kill_replica(harness: Harness) -> None:
    """Kill one replica; the other replica must continue."""
    _choose_replica(harness).kill()
    harness.check_writes_recover(RECOVERY_S)


def _stop_replica(harness: Harness) -> None:
    _choose_replica(harness).stop()
    harness.check_writes_recover(RECOVERY_S)


def _restart_postgres(mode: str) -> Callable[[Harness], None]:
    def inject(harness: Harness) -> None:
        database = _get_postgres(harness)
        database.stop(mode)
        sleep_fault_duration(harness)
        database.start(DURABLE)
        harness.check_writes_recover(RECOVERY_S)

    return inject


def _crash_with_replica(harness: Harness) -> None:
    """Kill a replica while PostgreSQL is stopped; the other replica must continue after PostgreSQL has restarted."""
    database = _get_postgres(harness)
    database.stop("immediate")
    _choose_replica(harness).kill()
    sleep_fault_duration(harness)
    database.start(DURABLE)
    harness.check_writes_recover(RECOVERY_S)


def _suspend_postgres(harness: Harness) -> None:
    with _get_postgres(harness).pause():
        sleep_fault_duration(harness)
    harness.check_writes_recover(RECOVERY_S)


def _terminate_connections(harness: Harness) -> None:
    """Terminate all database connections repeatedly."""
    for _ in range(_CUTS):
        execute_statement(_get_postgres(harness), _TERMINATE)
        sleep_fault_duration(harness, 0.1)
    harness.check_writes_recover(RECOVERY_S)


def _suspend_replica(harness: Harness) -> None:
    """Suspend a replica until its lease expires and the other replica takes over indexing, then resume it."""
    pids = [pid for group in _choose_replica(harness).find_pids_by_role().values() for pid in group]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(float(LEASE_S))
        sleep_fault_duration(harness)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    harness.check_writes_recover(RECOVERY_S)


def _require_qdrant(harness: Harness) -> str:
    return "" if harness.proxy else f"{harness.name} has no shared index"


def _choose_replica(harness: Harness) -> ServerUnderTest:
    return harness.random.choice(harness.server.servers)


def _get_postgres(harness: Harness) -> PrivatePostgres:
    if harness.database is None:
        raise RuntimeError("the harness needs PostgreSQL for this fault")
    return harness.database


REPLICA_FAULTS = (
    Fault("kill -9 of a replica", _kill_replica),
    Fault("kill -9 of both replicas", kill_all_processes),
    Fault("kill -9 of a vector worker", kill_process("vector worker"), require_role("vector worker")),
    Fault("SIGTERM of a replica", _stop_replica),
    Fault("SIGTERM of both replicas", stop_gracefully),
    Fault("PostgreSQL crashes (immediate)", _restart_postgres("immediate")),
    Fault("PostgreSQL restarts (fast)", _restart_postgres("fast")),
    Fault("PostgreSQL crashes, a replica is killed", _crash_with_replica),
    Fault("PostgreSQL suspended (SIGSTOP)", _suspend_postgres),
    Fault("all database connections terminated", _terminate_connections),
    Fault("a replica is suspended beyond its lease (SIGSTOP)", _suspend_replica, _require_qdrant),
    Fault("Qdrant unavailable", stop_qdrant, _require_qdrant),
)
