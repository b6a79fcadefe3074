"""A server over a directory, its callers and their ledgers. A harness outlives the server's restarts."""

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
from proofs.scripted_endpoint import Mood, ScriptedEndpoint
from proofs.server_under_test import ServerUnderTest
from proofs.torture.disk import SmallDisk
from proofs.torture.ledger import Ledger
from proofs.torture.qdrant_proxy import QdrantProxy
from proofs.torture.reader import Reader
from proofs.torture.verification import Verification, wait_for_indexes
from proofs.torture.writer import Writer

_READERS = 2
_STARTS = 3
_WORKERS_S = 20.0
_SAMPLE = 12
"""Users that are read in every way in each round, beside those that the round touched."""


@dataclass(slots=True)
class Harness:
    """A configuration of the server, with its callers.

    Attributes:
        name: the engine of its vectors.
        dimension: of vectors.
        own_vectors: the share of messages that bring their vector.
        endpoint: what embeds; None: the server itself.
        proxy: what stands before Qdrant; None: the vectors are in the server's own directory.
        disk: the small disk that it is on; None: it is on an ordinary one.
        database: the PostgreSQL that has its log; None: a file has it.
        random: what all chances of it come from.
        ledgers: the writers' books; each has a writer of its own.
    """

    name: str
    server: ServerUnderTest | Replicas
    dimension: int
    own_vectors: float
    catch_up_s: float
    random: random.Random
    ledgers: Sequence[Ledger]
    endpoint: ScriptedEndpoint | None = None
    proxy: QdrantProxy | None = None
    disk: SmallDisk | None = None
    database: PrivatePostgres | None = None
    findings: list[Finding] = field(default_factory=list)
    stored: int = 0
    refusals: int = 0
    start_s: list[float] = field(default_factory=list)

    def ensure_running(self) -> None:
        """Start the server, if it does not run.

        Raises:
            ServerStartError: it does not start.
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
        """Wait until the worker is there that starts beside the server."""
        if self.database and self.proxy:
            return
        worker = "vector worker" if self.database else "lexical indexer"
        give_up = time.monotonic() + _WORKERS_S
        while worker not in self.server.processes() and time.monotonic() < give_up:
            time.sleep(0.05)

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Write and read until the context is left."""
        stop = threading.Event()
        writers = [self._writer(ledger) for ledger in self.ledgers]
        readers = [Reader(self.ledgers, self.server, self.random.getrandbits(32)) for _ in range(_READERS)]
        callers: list[Writer | Reader] = [*writers, *readers]
        threads = [threading.Thread(target=caller.work, args=(stop,), daemon=True) for caller in callers]
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
            self.refusals += sum(writer.refusals for writer in writers)

    def settle(self) -> None:
        """Send again some of what was sent without ids and not acknowledged."""
        for ledger in self.ledgers:
            writer = self._writer(ledger)
            writer.retry_nameless()
            self.findings += writer.findings
            writer.close()

    def verify(self, users: Sequence[str]) -> None:
        """Wait for the indexes, then compare everything with the ledgers."""
        for server in self.server.servers:
            self.findings += wait_for_indexes(server, self.catch_up_s)
        verification = Verification(self.server, self.dimension)
        verification.run(self.ledgers, users)
        self.findings += verification.findings
        self.stored = verification.stored

    def users_to_read(self, before: dict[str, int]) -> list[str]:
        """Return the users that were touched since their ledgers had so many entries, and a sample of the others."""
        touched = [
            user_id for ledger in self.ledgers for user_id in ledger.users if self._is_touched(ledger, user_id, before)
        ]
        others = sorted(set(self.users()) - set(touched))
        return touched + self.random.sample(others, min(_SAMPLE, len(others)))

    def users(self) -> list[str]:
        """Return all users."""
        return [user_id for ledger in self.ledgers for user_id in ledger.users]

    def versions(self) -> dict[str, int]:
        """Return a number per user that changes when anything of that user does."""
        return {
            user_id: hash(frozenset(ledger.allowed(user_id).items()))
            for ledger in self.ledgers
            for user_id in ledger.users
        }

    @property
    def acknowledged(self) -> int:
        """Return how many changes were acknowledged."""
        return sum(ledger.acknowledged for ledger in self.ledgers)

    def mood(self, mood: Mood) -> None:
        """Let the embedding endpoint answer like this."""
        if self.endpoint:
            self.endpoint.become(mood)

    def writes_again(self, longest_s: float) -> None:
        """Check that writes are acknowledged again, now that nothing is in their way."""
        before, give_up = self.acknowledged, time.monotonic() + longest_s
        while self.acknowledged == before:
            if time.monotonic() > give_up:
                self.findings.append(Finding("stuck", f"no write is acknowledged {longest_s:.0f} s after the fault"))
                return
            time.sleep(0.05)

    def _is_touched(self, ledger: Ledger, user_id: str, before: dict[str, int]) -> bool:
        return before.get(user_id) != hash(frozenset(ledger.allowed(user_id).items()))

    def _writer(self, ledger: Ledger) -> Writer:
        return Writer(ledger, self.server, self.random.getrandbits(32), self.dimension, self.own_vectors)
