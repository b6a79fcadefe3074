"""Sends what was parsed, accounts for every message of it, and waits until it is indexed."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nomemory.client.requests import BATCH_BYTES
from nomemory.importing.record import Accepted, ParseResult, SourceLocation, Rejected, Skipped
from nomemory.v1 import ingest_service_pb2, message_pb2

STREAM_MESSAGES: Final = 1_000
"""Messages in one stream: as many rejections as a server lists, so that none goes unexplained."""
_IN_BATCH: Final = re.compile(r"^messages\[\d+\]\.?")
Refuse = Callable[[Accepted | Rejected, tuple[str, ...]], None]
Send = Callable[[Sequence[message_pb2.ChatMessage]], ingest_service_pb2.ImportMessagesResponse]
_REASONS: Final = 20
OTHER_REASONS: Final = "other reasons"
_POLL_S: Final = 0.1
_POLL_MAX_S: Final = 2.0
Status = ingest_service_pb2.GetIndexStatusResponse


@dataclass(slots=True)
class ImportCounts:
    """How many messages went which way so far. `sent` covers the first four, and what a dry run would send."""

    sent: int = 0
    created: int = 0
    unchanged: int = 0
    replaced: int = 0
    rejected: int = 0
    skipped: int = 0


@dataclass(slots=True)
class RejectionGroup:
    """Where the first of what was refused for a reason stands, and how much was."""

    first: SourceLocation
    count: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of importing one file.

    `ignored` counts, per field, the messages that had it without a place for it. `rejects` is the file of rejects,
    None if there were none, and `wrong` tells of each reason for them. `write_token` is for reads that must see the
    import.
    """

    source: str
    format: str
    title: str
    tally: ImportCounts
    dry_run: bool = False
    ignored: Mapping[str, int] = field(default_factory=dict)
    rejects: Path | None = None
    write_token: str = ""
    wrong: Mapping[str, RejectionGroup] = field(default_factory=dict)


class Upload:
    """Sends messages in streams of at most 1,000 and writes down what is refused, here or by the server.

    After a run `tally`, `ignored` and `wrong` are complete; if `send` raised, they cover what was stored before.

    Args:
        send: stores one stream.
        refuse: writes down what is refused, with the reasons.
    """

    def __init__(self, send: Send, refuse: Refuse) -> None:
        self._send = send
        self._refuse = refuse
        self.tally = ImportCounts()
        self.ignored: Counter[str] = Counter()
        self.wrong: dict[str, RejectionGroup] = {}
        self.write_token = ""

    def run(self, items: Iterable[ParseResult]) -> Iterator[ImportCounts]:
        """Work through everything, and give the tally after each stream."""
        rest = iter(items)
        while chunk := list(itertools.islice(rest, STREAM_MESSAGES)):
            for item in chunk:
                if isinstance(item, Rejected):
                    self._reject(item, item.reasons)
                elif isinstance(item, Skipped):
                    self.tally.skipped += 1
            self._store([item for item in chunk if isinstance(item, Accepted) and self._fits(item)])
            yield self.tally

    def _fits(self, item: Accepted) -> bool:
        """Return whether a batch can hold a message, else reject it: too large a request ends the stream."""
        size = item.message.ByteSize()
        if size > BATCH_BYTES:
            self._reject(item, (f"is {size:,} bytes long, more than an import takes",))
        return size <= BATCH_BYTES

    def _reject(self, item: Accepted | Rejected, reasons: tuple[str, ...]) -> None:
        self._write_down(item, reasons)
        self.tally.rejected += 1

    def _write_down(self, item: Accepted | Rejected, reasons: tuple[str, ...]) -> None:
        """Write a reject down, and count it under its reasons; after the first 20 of them under `other reasons`."""
        self._refuse(item, reasons)
        for reason in (one.partition(": line ")[0] for one in reasons):  # without the place within broken JSON
            counted = reason if reason in self.wrong or len(self.wrong) < _REASONS else OTHER_REASONS
            self.wrong.setdefault(counted, RejectionGroup(item.location)).count += 1

    def _store(self, accepted: Sequence[Accepted]) -> None:
        if not accepted:
            return
        reply = self._send([item.message for item in accepted])
        for rejection in reply.rejections:
            self._write_down(accepted[rejection.index], _reasons(rejection))
        self.tally.sent += len(accepted)
        self.tally.created += reply.created
        self.tally.unchanged += reply.unchanged
        self.tally.replaced += reply.replaced
        self.tally.rejected += reply.rejected
        self.ignored.update(itertools.chain.from_iterable(item.ignored for item in accepted))
        self.write_token = reply.write_token or self.write_token


def _reasons(rejection: ingest_service_pb2.Rejection) -> tuple[str, ...]:
    """Return the violations without the message's place in its batch, which means nothing to the reader of a file."""
    return tuple(_IN_BATCH.sub("", violation) for violation in rejection.violations) or (rejection.reason,)


def wait_until_indexed(ask: Callable[[], Status], timeout_s: float, tell: Callable[[int], None]) -> bool:
    """Wait until everything that the log holds now is indexed.

    Args:
        ask: gets the status.
        timeout_s: seconds after which to give up.
        tell: is told after each look how many messages are known to be pending.

    Returns:
        Whether the indexes got there before the time was up.
    """
    give_up = time.monotonic() + timeout_s
    status = ask()
    sequence, pause_s = status.log.sequence, _POLL_S
    while _is_behind(status, sequence):
        tell(_pending(status))
        if time.monotonic() >= give_up:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _POLL_MAX_S)  # the server logs each look
        status = ask()
    tell(0)
    return True


def _is_behind(status: Status, sequence: int) -> bool:
    """Return whether an index still lacks a change up to a sequence, even one that it has not counted yet.

    A caller in a namespace is told no sequences: then nothing may be pending.
    """
    return any(index.checkpoint < sequence if sequence else index.pending for index in _indexes(status))


def _pending(status: Status) -> int:
    return max(index.pending for index in _indexes(status))


def _indexes(status: Status) -> list[ingest_service_pb2.IndexStatus]:
    """Return the indexes to wait_until_indexed for. Without an embedder only words are indexed."""
    return [status.lexical] if status.embedder.kind == "none" else [status.lexical, status.vector]
