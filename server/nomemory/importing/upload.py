"""Upload parsed messages, count the outcomes, and wait for indexing."""

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
from nomemory.importing.record import Accepted, ParseResult, Rejected, Skipped, SourceLocation
from nomemory.v1 import error_reason_pb2, ingest_service_pb2, message_pb2

STREAM_MESSAGES: Final = 1_000
"""Messages per stream. A server lists at most as many rejections."""
_BATCH_INDEX: Final = re.compile(r"^messages\[\d+\]\.?")
RejectHandler = Callable[[Accepted | Rejected, tuple[str, ...]], None]
Send = Callable[[Sequence[message_pb2.ChatMessage]], ingest_service_pb2.ImportMessagesResponse]
_REASONS_MAX: Final = 20
OTHER_REASONS: Final = "other reasons"
_POLL_S: Final = 0.1
_POLL_MAX_S: Final = 2.0
Status = ingest_service_pb2.GetIndexStatusResponse


@dataclass(slots=True)
class ImportCounts:
    """Message counts by outcome. `sent` is the number of messages sent to the server, or that a dry run would send."""

    sent: int = 0
    created: int = 0
    unchanged: int = 0
    replaced: int = 0
    rejected: int = 0
    skipped: int = 0


@dataclass(slots=True)
class RejectionGroup:
    """The messages that were rejected for one reason: the location of the first, and their number."""

    first: SourceLocation
    count: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of importing one file.

    Attributes:
        source: the file name.
        format: the format name.
        title: the display name of the format.
        counts: message counts by outcome.
        dry_run: whether nothing was stored.
        ignored: for each field that was not imported, the number of messages that have it.
        rejects: the rejects file; None if nothing was rejected.
        write_token: the token for reads that must include the imported messages.
        rejection_groups: rejected messages by reason.
    """

    source: str
    format: str
    title: str
    counts: ImportCounts
    dry_run: bool = False
    ignored: Mapping[str, int] = field(default_factory=dict)
    rejects: Path | None = None
    write_token: str = ""
    rejection_groups: Mapping[str, RejectionGroup] = field(default_factory=dict)


class Upload:
    """Sends messages in streams of at most 1,000, and records rejected messages.

    If `send` raises, `counts`, `ignored` and `rejection_groups` cover the preceding streams.

    Args:
        send: stores one stream.
        on_reject: called with each rejected message and its reasons.
    """

    def __init__(self, send: Send, on_reject: RejectHandler) -> None:
        self._send = send
        self._on_reject = on_reject
        self.counts = ImportCounts()
        self.ignored: Counter[str] = Counter()
        self.rejection_groups: dict[str, RejectionGroup] = {}
        self.write_token = ""

    def send_all(self, items: Iterable[ParseResult]) -> Iterator[ImportCounts]:
        """Send all messages. Yield the counts after each stream."""
        rest = iter(items)
        while chunk := list(itertools.islice(rest, STREAM_MESSAGES)):
            for item in chunk:
                if isinstance(item, Rejected):
                    self._reject_message(item, item.reasons)
                elif isinstance(item, Skipped):
                    self.counts.skipped += 1
            self._send_stream([item for item in chunk if isinstance(item, Accepted) and self._fits_into_batch(item)])
            yield self.counts

    def _fits_into_batch(self, item: Accepted) -> bool:
        """Return whether a message is within the batch size limit; reject it if not."""
        size = item.message.ByteSize()
        if size > BATCH_BYTES:
            self._reject_message(item, (f"is {size:,} bytes; the limit is {BATCH_BYTES:,}",))
        return size <= BATCH_BYTES

    def _reject_message(self, item: Accepted | Rejected, reasons: tuple[str, ...]) -> None:
        self._record_rejection(item, reasons)
        self.counts.rejected += 1

    def _record_rejection(self, item: Accepted | Rejected, reasons: tuple[str, ...]) -> None:
        """Record a rejected message under its reasons; after 20 reasons, under `other reasons`."""
        self._on_reject(item, reasons)
        groups = self.rejection_groups
        # JSON errors are grouped regardless of their position.
        for reason in (text.partition(": line ")[0] for text in reasons):
            group = reason if reason in groups or len(groups) < _REASONS_MAX else OTHER_REASONS
            groups.setdefault(group, RejectionGroup(item.location)).count += 1

    def _send_stream(self, accepted: Sequence[Accepted]) -> None:
        if not accepted:
            return
        reply = self._send([item.message for item in accepted])
        for rejection in reply.rejections:
            self._record_rejection(accepted[rejection.index], _format_reasons(rejection))
        self.counts.sent += len(accepted)
        self.counts.created += reply.created
        self.counts.unchanged += reply.unchanged
        self.counts.replaced += reply.replaced
        self.counts.rejected += reply.rejected
        self.ignored.update(itertools.chain.from_iterable(item.ignored for item in accepted))
        self.write_token = reply.write_token or self.write_token


def _format_reasons(rejection: ingest_service_pb2.Rejection) -> tuple[str, ...]:
    """Return the violations without the index of the message in its batch."""
    return tuple(_BATCH_INDEX.sub("", violation) for violation in rejection.violations) or (
        error_reason_pb2.ErrorReason.Name(rejection.reason),
    )


def wait_until_indexed(get_status: Callable[[], Status], timeout_s: float, on_pending: Callable[[int], None]) -> bool:
    """Wait until all messages currently in the message log are indexed.

    Args:
        get_status: returns the index status.
        timeout_s: maximum time to wait, in seconds.
        on_pending: called with the number of pending messages after each poll.

    Returns:
        Whether indexing finished before the timeout.
    """
    deadline = time.monotonic() + timeout_s
    status = get_status()
    sequence, pause_s = status.log.sequence, _POLL_S
    while _is_behind(status, sequence):
        on_pending(_count_pending(status))
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _POLL_MAX_S)  # the server logs each call
        status = get_status()
    on_pending(0)
    return True


def _is_behind(status: Status, sequence: int) -> bool:
    """Return whether an index has not reached a sequence.

    A caller in a namespace gets no sequences, so the number of pending messages is used instead.
    """
    return any(index.checkpoint < sequence if sequence else index.pending for index in _indexes_in_use(status))


def _count_pending(status: Status) -> int:
    return max(index.pending for index in _indexes_in_use(status))


def _indexes_in_use(status: Status) -> list[ingest_service_pb2.IndexStatus]:
    """Return the status of the indexes in use. Without an embedder, only the lexical index is used."""
    return (
        [status.lexical]
        if status.embedder.kind == ingest_service_pb2.EMBEDDER_KIND_NONE
        else [status.lexical, status.vector]
    )
