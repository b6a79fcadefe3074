"""Compares what a server holds with the ledgers: acknowledged = stored = found by every read, once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

import grpc

from nomemory.v1.ingest_service_pb2 import GetIndexStatusRequest, GetIndexStatusResponse
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from proofs.finding import Finding
from proofs.torture.ledger import Ledger, Version
from proofs.torture.reads import READS, Found, counted, in_conversations, listed, users, wrongly_marked

_THREADS = 3
_STATUS_S = 10.0
_AWAY_S = 30.0


class Reachable(Protocol):
    """A server, wherever it is now."""

    def channel(self) -> grpc.Channel:
        """Open a connection of its own."""


def wait_for_indexes(server: Reachable, longest_s: float) -> list[Finding]:
    """Wait until both indexes have everything; report if they do not get there."""
    give_up = time.monotonic() + longest_s
    with server.channel() as channel:
        ingest = IngestServiceStub(channel)
        while True:
            status = ingest.GetIndexStatus(GetIndexStatusRequest(), timeout=_STATUS_S, wait_for_ready=True)
            if not (status.lexical.pending or status.vector.pending):
                return _of_status(status)
            if time.monotonic() > give_up:
                return [Finding("behind", f"after {longest_s:.0f} s: {_in_words(status)}"), *_of_status(status)]
            time.sleep(0.1)


def _of_status(status: GetIndexStatusResponse) -> list[Finding]:
    dead_letters = status.lexical.dead_letters + status.vector.dead_letters
    return [Finding("dead_letters", f"{dead_letters} messages that could be embedded")] if dead_letters else []


def _in_words(status: GetIndexStatusResponse) -> str:
    pending = f"words {status.lexical.pending}, meaning {status.vector.pending} pending"
    return f"{pending}; faults '{status.lexical.error}' '{status.vector.error}'"


class Verification:
    """Looks at users through every read.

    Attributes:
        stored: how many messages were found in the log.
        findings: what does not hold.
    """

    def __init__(self, server: Reachable, dimension: int) -> None:
        self._server = server
        self._dimension = dimension
        self.stored = 0
        self.findings: list[Finding] = []

    def run(self, ledgers: Sequence[Ledger], chosen: Sequence[str]) -> None:
        """Compare the chosen users through every read, and the numbers of all of them; settle what was in doubt."""
        owners = {user_id: ledger for ledger in ledgers for user_id in ledger.users}
        with self._server.channel() as channel, ThreadPoolExecutor(_THREADS) as threads:
            query = QueryServiceStub(channel)
            found = dict(
                zip(chosen, threads.map(lambda item: self._look(query, owners[item], item), chosen), strict=True)
            )
            self._check_numbers(dict(users(query)), owners, found)
        for ledger in ledgers:
            self.findings += half_done(ledger, found)
            for user_id in set(ledger.users) & set(found):
                ledger.settle(user_id, found[user_id])
            ledger.close_open()

    def _look(self, query: QueryServiceStub, ledger: Ledger, user_id: str) -> dict[str, Version]:
        """Read a user in every way; return what the log has."""
        in_log = listed(query, user_id)
        allowed = ledger.allowed(user_id)
        pending = {version for batch in ledger.nameless.values() for version in batch.versions}
        self.findings += against_ledger(user_id, in_log, allowed, pending)
        ids = list(dict.fromkeys([*allowed, *dict(in_log)]))
        for name, read in READS.items():
            found = self._patiently(f"{user_id} by {name}", partial(read, query, user_id, ids, self._dimension))
            if found is not None:
                self.findings += against_log(f"{user_id} by {name}", found, in_log)
        for message_id in wrongly_marked(query, user_id):
            self.findings.append(Finding("marked", f"{user_id}: {message_id} does not say what took it back"))
        for name, number in (("count", counted(query, user_id)), ("conversations", in_conversations(query, user_id))):
            if number != len(in_log):
                self.findings.append(Finding("miscounted", f"{user_id} by {name}: {number}, stored {len(in_log)}"))
        return dict(in_log)

    def _patiently(self, where: str, read: Callable[[], Found]) -> Found | None:
        """Read; try again while an engine is away, as the error tells callers to. None: it does not come back."""
        give_up = time.monotonic() + _AWAY_S
        while True:
            try:
                return read()
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > give_up:
                    self.findings.append(Finding("failed", f"{where}: {error.code().name}: {error.details()}"))
                    return None
                time.sleep(0.5)

    def _check_numbers(
        self, numbers: Mapping[str, int], owners: Mapping[str, Ledger], found: Mapping[str, Mapping[str, Version]]
    ) -> None:
        """Compare the number of messages of every user, those that were not read included."""
        self.stored = sum(numbers.values())
        for user_id in numbers.keys() - owners.keys():
            self.findings.append(Finding("invented", f"a user {user_id!r} with {numbers[user_id]} messages"))
        for user_id, ledger in owners.items():
            if user_id in found:
                wanted = len(found[user_id])
            else:
                wanted = sum(state is not None for state in ledger.certain(user_id).values())
            if numbers.get(user_id, 0) != wanted:
                kind = "lost" if numbers.get(user_id, 0) < wanted else "resurrected"
                self.findings.append(Finding(kind, f"{user_id}: {numbers.get(user_id, 0)} of {wanted} messages"))


def against_ledger(
    user_id: str, in_log: Found, allowed: Mapping[str, frozenset[Version | None]], pending: set[Version]
) -> Iterator[Finding]:
    """Compare what the log has with what was acknowledged; `pending` may be there under an id that nobody knows."""
    found = dict(in_log)
    yield from doubled(user_id, in_log)
    for item, states in allowed.items():
        if found.get(item) in states:
            continue
        where = f"{user_id} {item}"
        if item not in found:
            yield Finding("lost", f"{where}: acknowledged, not stored")
        elif states == {None}:
            yield Finding("resurrected", f"{where}: deleted, yet stored")
        else:
            yield Finding("altered", f"{where}: stored with something else in it")
    for key in found.keys() - allowed.keys():
        if found[key] not in pending:
            yield Finding("invented", f"{user_id} {key}: never written")
    contents = Counter(version.content for version in found.values())
    yield from (
        Finding("doubled", f"{user_id}: stored {n} times under different ids") for n in contents.values() if n > 1
    )


def against_log(where: str, found: Found, in_log: Found) -> Iterator[Finding]:
    """Compare what a read finds with what the log has: the same, once."""
    yield from doubled(where, found)
    seen, stored = dict(found), dict(in_log)
    yield from (Finding("not found", f"{where}: {key}") for key in stored.keys() - seen.keys())
    yield from (Finding("resurrected", f"{where}: {key} is not in the log") for key in seen.keys() - stored.keys())
    yield from (
        Finding("altered", f"{where}: {key} differs from the log")
        for key in seen.keys() & stored.keys()
        if seen[key] != stored[key]
    )


def doubled(where: str, found: Found) -> Iterator[Finding]:
    """Report ids that a read brought more than once."""
    counts = Counter(item for item, _ in found)
    return (Finding("doubled", f"{where}: {item} {count} times") for item, count in counts.items() if count > 1)


def half_done(ledger: Ledger, found: Mapping[str, Mapping[str, Version]]) -> Iterator[Finding]:
    """Report batches that were not acknowledged and happened in part."""
    for changes in ledger.open:
        told = [found[user_id].get(item) == state for (user_id, item), state in changes.items() if user_id in found]
        yield from _in_part(told, f"changes of {sorted({user_id for user_id, _ in changes})}")
    for batch in ledger.nameless.values():
        if batch.user_id in found:
            contents = {version.content for version in found[batch.user_id].values()}
            told = [version.content in contents for version in batch.versions]
            yield from _in_part(told, f"messages without ids of {batch.user_id}")


def _in_part(told: Sequence[bool], what: str) -> Iterator[Finding]:
    if any(told) and not all(told):
        yield Finding("half", f"{sum(told)} of a batch of {len(told)} {what}")
