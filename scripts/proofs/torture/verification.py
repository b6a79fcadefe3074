"""Verification that stored messages and all reads match the ledgers."""

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
from proofs.torture.ledger import Ledger, MessageVersion
from proofs.torture.reads import (
    READS,
    ReadResult,
    count_by_conversations,
    count_messages,
    find_wrong_retractions,
    list_all_messages,
    list_users,
)

_THREADS = 3
_STATUS_S = 10.0
_AWAY_S = 30.0


class ChannelProvider(Protocol):
    """A server to which gRPC channels can be opened."""

    def open_channel(self) -> grpc.Channel:
        """Open a new gRPC channel to the server."""


def wait_for_indexes(server: ChannelProvider, timeout_s: float) -> list[Finding]:
    """Wait until both indexes are up to date; return findings on a timeout and on dead letters."""
    deadline = time.monotonic() + timeout_s
    with server.open_channel() as channel:
        ingest = IngestServiceStub(channel)
        while True:
            status = ingest.GetIndexStatus(GetIndexStatusRequest(), timeout=_STATUS_S, wait_for_ready=True)
            if not (status.lexical.pending or status.vector.pending):
                return _find_dead_letters(status)
            if time.monotonic() > deadline:
                return [
                    Finding("index lag", f"after {timeout_s:.0f} s: {_describe_status(status)}"),
                    *_find_dead_letters(status),
                ]
            time.sleep(0.1)


def _find_dead_letters(status: GetIndexStatusResponse) -> list[Finding]:
    dead_letters = status.lexical.dead_letters + status.vector.dead_letters
    return [Finding("dead_letters", f"{dead_letters} messages, although all can be indexed")] if dead_letters else []


def _describe_status(status: GetIndexStatusResponse) -> str:
    pending = f"pending: lexical {status.lexical.pending}, vector {status.vector.pending}"
    return f"{pending}; errors: '{status.lexical.error}' '{status.vector.error}'"


class Verification:
    """A comparison of the results of every read with the ledgers.

    Attributes:
        stored_messages: number of messages in the message log.
    """

    def __init__(self, server: ChannelProvider, dimension: int) -> None:
        self._server = server
        self._dimension = dimension
        self.stored_messages = 0
        self.findings: list[Finding] = []

    def verify_users(self, ledgers: Sequence[Ledger], chosen: Sequence[str]) -> None:
        """Verify the reads of the chosen users and the counts of all users; set the ledgers to the stored states."""
        owners = {user_id: ledger for ledger in ledgers for user_id in ledger.users}
        with self._server.open_channel() as channel, ThreadPoolExecutor(_THREADS) as threads:
            query = QueryServiceStub(channel)
            result = dict(
                zip(chosen, threads.map(lambda item: self._verify_user(query, owners[item], item), chosen), strict=True)
            )
            self._check_counts(dict(list_users(query)), owners, result)
        for ledger in ledgers:
            self.findings += find_partial_batches(ledger, result)
            for user_id in set(ledger.users) & set(result):
                ledger.set_to_stored_states(user_id, result[user_id])
            ledger.discard_unacknowledged_batches()

    def _verify_user(self, query: QueryServiceStub, ledger: Ledger, user_id: str) -> dict[str, MessageVersion]:
        """Verify a user through every read; return the stored messages."""
        in_log = list_all_messages(query, user_id)
        allowed = ledger.get_allowed_states(user_id)
        pending = {version for batch in ledger.batches_without_ids.values() for version in batch.versions}
        self.findings += compare_with_ledger(user_id, in_log, allowed, pending)
        ids = list(dict.fromkeys([*allowed, *dict(in_log)]))
        for name, read in READS.items():
            result = self._read_with_retries(
                f"{user_id} by {name}", partial(read, query, user_id, ids, self._dimension)
            )
            if result is not None:
                self.findings += compare_with_log(f"{user_id} by {name}", result, in_log)
        for message_id in find_wrong_retractions(query, user_id):
            self.findings.append(Finding("marked", f"{user_id}: {message_id}: wrong retracted_by"))
        for name, number in (
            ("count", count_messages(query, user_id)),
            ("conversations", count_by_conversations(query, user_id)),
        ):
            if number != len(in_log):
                self.findings.append(Finding("miscounted", f"{user_id} by {name}: {number}, stored {len(in_log)}"))
        return dict(in_log)

    def _read_with_retries(self, where: str, read: Callable[[], ReadResult]) -> ReadResult | None:
        """Run a read, with retries while the server is unavailable; return None if it stays unavailable."""
        deadline = time.monotonic() + _AWAY_S
        while True:
            try:
                return read()
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline:
                    self.findings.append(Finding("failed", f"{where}: {error.code().name}: {error.details()}"))
                    return None
                time.sleep(0.5)

    def _check_counts(
        self,
        counts_by_user: Mapping[str, int],
        owners: Mapping[str, Ledger],
        result: Mapping[str, Mapping[str, MessageVersion]],
    ) -> None:
        """Compare every user's message count with the messages read or, if none were read, with the ledger."""
        self.stored_messages = sum(counts_by_user.values())
        for user_id in counts_by_user.keys() - owners.keys():
            self.findings.append(
                Finding("invented", f"unknown user {user_id!r} with {counts_by_user[user_id]} messages")
            )
        for user_id, ledger in owners.items():
            if user_id in result:
                expected = len(result[user_id])
            else:
                expected = sum(state is not None for state in ledger.get_certain_states(user_id).values())
            if counts_by_user.get(user_id, 0) != expected:
                kind = "lost" if counts_by_user.get(user_id, 0) < expected else "resurrected"
                self.findings.append(
                    Finding(kind, f"{user_id}: {counts_by_user.get(user_id, 0)} of {expected} messages")
                )


def compare_with_ledger(
    user_id: str,
    in_log: ReadResult,
    allowed: Mapping[str, frozenset[MessageVersion | None]],
    pending: set[MessageVersion],
) -> Iterator[Finding]:
    """Yield differences between the message log and the ledger; `pending` versions may be stored with unknown ids."""
    result = dict(in_log)
    yield from find_duplicates(user_id, in_log)
    for item, states in allowed.items():
        if result.get(item) in states:
            continue
        where = f"{user_id} {item}"
        if item not in result:
            yield Finding("lost", f"{where}: acknowledged but not stored")
        elif states == {None}:
            yield Finding("resurrected", f"{where}: deleted but stored")
        else:
            yield Finding("altered", f"{where}: the stored version differs")
    for key in result.keys() - allowed.keys():
        if result[key] not in pending:
            yield Finding("invented", f"{user_id} {key}: never written")
    contents = Counter(version.content for version in result.values())
    yield from (
        Finding("duplicated", f"{user_id}: stored {n} times under different ids") for n in contents.values() if n > 1
    )


def compare_with_log(where: str, result: ReadResult, in_log: ReadResult) -> Iterator[Finding]:
    """Yield differences between the result of a read and the message log."""
    yield from find_duplicates(where, result)
    seen, stored = dict(result), dict(in_log)
    yield from (Finding("not found", f"{where}: {key}") for key in stored.keys() - seen.keys())
    yield from (Finding("resurrected", f"{where}: {key} is not in the log") for key in seen.keys() - stored.keys())
    yield from (
        Finding("altered", f"{where}: {key} differs from the log")
        for key in seen.keys() & stored.keys()
        if seen[key] != stored[key]
    )


def find_duplicates(where: str, result: ReadResult) -> Iterator[Finding]:
    """Yield a finding for each message id that a read returned more than once."""
    counts = Counter(item for item, _ in result)
    return (Finding("duplicated", f"{where}: {item} {n} times") for item, n in counts.items() if n > 1)


def find_partial_batches(ledger: Ledger, result: Mapping[str, Mapping[str, MessageVersion]]) -> Iterator[Finding]:
    """Yield a finding for each unacknowledged batch that was applied partially."""
    for changes in ledger.open_batches:
        applied = [
            result[user_id].get(item) == state for (user_id, item), state in changes.items() if user_id in result
        ]
        yield from _find_partial_batch(applied, f"changes of {sorted({user_id for user_id, _ in changes})}")
    for batch in ledger.batches_without_ids.values():
        if batch.user_id in result:
            contents = {version.content for version in result[batch.user_id].values()}
            applied = [version.content in contents for version in batch.versions]
            yield from _find_partial_batch(applied, f"messages without ids of {batch.user_id}")


def _find_partial_batch(applied: Sequence[bool], batch: str) -> Iterator[Finding]:
    if any(applied) and not all(applied):
        yield Finding("partial batch", f"{sum(applied)} of {len(applied)} {batch} were applied")
