"""Test harness: a server configuration with its callers and their ledgers, which persist over restarts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from evaluation.temporary_server import ServerStartError
from proofs.finding import Finding
from proofs.private_postgres import PrivatePostgres
from proofs.replicas import Replicas
from proofs.scripted_endpoint import Behavior, ScriptedEndpoint
from proofs.server_under_test import ServerUnderTest
from proofs.torture.disk import SmallDisk
from proofs.torture.ledger import Ledger
from proofs.torture.qdrant_proxy import QdrantProxy
from proofs.torture.reader import ReadChecker
from proofs.torture.verification import Verification, wait_for_indexes
from proofs.torture.writer import RandomWriter

_READERS = 2
_STARTS = 3
_WORKERS_S = 20.0
_SAMPLE = 12
"""Number of unmodified users that each round verifies, in addition to the modified users."""


@dataclass(slots=True)
class Harness:
    """A server configuration with its callers.

    Attributes:
        vector_share: share of the messages that are sent with an embedding.
        indexing_timeout_s: maximum time that indexing may take, in seconds.
        ledgers: one ledger per writer.
        endpoint: embedding endpoint; None: local embedder.
        proxy: proxy of the Qdrant server; None: embedded vector index.
        disk: small disk of the data directory; None: ordinary disk.
        database: PostgreSQL of the message log; None: SQLite.
        start_s: duration of each start in seconds.
    """

    name: str
    server: ServerUnderTest | Replicas
    dimension: int
    vector_share: float
    indexing_timeout_s: float
    random: random.Random
    ledgers: Sequence[Ledger]
    endpoint: ScriptedEndpoint | None = None
    proxy: QdrantProxy | None = None
    disk: SmallDisk | None = None
    database: PrivatePostgres | None = None
    findings: list[Finding] = field(default_factory=list)
    stored_messages: int = 0
    refusals: int = 0
    start_s: list[float] = field(default_factory=list)

    def ensure_running(self) -> None:
        """Start the server if it is not running.

        Raises:
            ServerStartError: the server did not start.
        """
        for attempt in range(_STARTS):
            if self.server.is_running:
                return
            try:
                self.start_s.append(self.server.start())
                self._wait_for_workers()
            except ServerStartError:
                self.findings.append(Finding("start", f"{self.name}: the server did not start; see {self.server.log}"))
                if attempt == _STARTS - 1:
                    raise

    def _wait_for_workers(self) -> None:
        """Wait until the worker that starts with the server runs."""
        if self.database and self.proxy:
            return
        worker = "vector worker" if self.database else "lexical indexer"
        deadline = time.monotonic() + _WORKERS_S
        while worker not in self.server.find_pids_by_role() and time.monotonic() < deadline:
            time.sleep(0.05)

    @contextmanager
    def apply_load(self) -> Iterator[None]:
        """Write and read concurrently until the context exits."""
        stop = threading.Event()
        writers = [self._create_writer(ledger) for ledger in self.ledgers]
        readers = [ReadChecker(self.ledgers, self.server, self.random.getrandbits(32)) for _ in range(_READERS)]
        callers: list[RandomWriter | ReadChecker] = [*writers, *readers]
        threads = [threading.Thread(target=caller.run_until, args=(stop,), daemon=True) for caller in callers]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            for caller in callers:
                self.findings += caller.findings
                caller.close()
            self.refusals += sum(writer.failed_calls for writer in writers)

    def retry_unacknowledged_batches(self) -> None:
        """Retry some unacknowledged batches whose messages have no ids."""
        for ledger in self.ledgers:
            writer = self._create_writer(ledger)
            writer.retry_unacknowledged_batches()
            self.findings += writer.findings
            writer.close()

    def verify_users(self, users: Sequence[str]) -> None:
        """Wait for the indexes, then compare the stored data with the ledgers."""
        for server in self.server.servers:
            self.findings += wait_for_indexes(server, self.indexing_timeout_s)
        verification = Verification(self.server, self.dimension)
        verification.verify_users(self.ledgers, users)
        self.findings += verification.findings
        self.stored_messages = verification.stored_messages

    def select_users(self, before: dict[str, int]) -> list[str]:
        """Return the users that changed since `before` (a result of `hash_states`), and a sample of other users."""
        changed = [
            user_id for ledger in self.ledgers for user_id in ledger.users if self._has_changed(ledger, user_id, before)
        ]
        others = sorted(set(self.list_users()) - set(changed))
        return changed + self.random.sample(others, min(_SAMPLE, len(others)))

    def list_users(self) -> list[str]:
        """Return all users."""
        return [user_id for ledger in self.ledgers for user_id in ledger.users]

    def hash_states(self) -> dict[str, int]:
        """Return a hash of the expected state of each user."""
        return {
            user_id: hash(frozenset(ledger.get_allowed_states(user_id).items()))
            for ledger in self.ledgers
            for user_id in ledger.users
        }

    @property
    def acknowledged_changes(self) -> int:
        """Number of changes that the server has acknowledged."""
        return sum(ledger.acknowledged_changes for ledger in self.ledgers)

    def set_endpoint_behavior(self, behavior: Behavior) -> None:
        """Set the behavior of the embedding endpoint, if there is one."""
        if self.endpoint:
            self.endpoint.set_behavior(behavior)

    def check_writes_recover(self, timeout_s: float) -> None:
        """Report a finding if no write is acknowledged within the timeout after a fault."""
        before, deadline = self.acknowledged_changes, time.monotonic() + timeout_s
        while self.acknowledged_changes == before:
            if time.monotonic() > deadline:
                self.findings.append(
                    Finding("no recovery", f"no write was acknowledged within {timeout_s:.0f} s after the fault")
                )
                return
            time.sleep(0.05)

    def _has_changed(self, ledger: Ledger, user_id: str, before: dict[str, int]) -> bool:
        return before.get(user_id) != hash(frozenset(ledger.get_allowed_states(user_id).items()))

    def _create_writer(self, ledger: Ledger) -> RandomWriter:
        return RandomWriter(ledger, self.server, self.random.getrandbits(32), self.dimension, self.vector_share)
