"""Send parsed messages to the server, count the outcomes, and wait until the messages are indexed."""

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
from nomemory.importing.record import AcceptedMessage, ParseResult, RejectedRecord, SkippedRecord, SourceLocation
from nomemory.v1 import error_reason_pb2, ingest_service_pb2, message_pb2

STREAM_MESSAGES: Final = 1_000
"""Maximum number of messages per stream. A server lists at most this number of rejected messages."""
_BATCH_INDEX: Final = re.compile(r"^messages\[\d+\]\.?")
RejectHandler = Callable[[AcceptedMessage | RejectedRecord, tuple[str, ...]], None]
Send = Callable[[Sequence[message_pb2.ChatMessage]], ingest_service_pb2.ImportMessagesResponse]
_REASONS_MAX: Final = 20
OTHER_REASONS: Final = "other reasons"
_POLL_S: Final = 0.1
_POLL_MAX_S: Final = 2.0
Status = ingest_service_pb2.GetIndexStatusResponse


@dataclass(slots=True)
class ImportCounts:
    """The number of messages for each outcome. In a dry run, `sent` counts messages that would be sent."""

    sent: int = 0
    created: int = 0
    unchanged: int = 0
    replaced: int = 0
    rejected: int = 0
    skipped: int = 0


@dataclass(slots=True)
class RejectionGroup:
    """The number of messages that were rejected for one reason, and the location of the first of them."""

    first: SourceLocation
    count: int = 0


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Summary of the import of one file.

    Attributes:
        source: the name of the imported file.
        format: the name of the format, as in `--format`.
        dry_run: whether the file was only parsed, and nothing was stored.
        ignored: the names of fields that were not imported, and the number of messages that have the field.
        rejects: the path of the rejects file; None if nothing was rejected.
        write_token: the write token of the last message that was stored.
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


class MessageUploader:
    """Sends messages to the server in streams of at most 1,000, and records rejected messages.

    If `send` raises an exception, `counts`, `ignored` and `rejection_groups` cover only the streams sent before the
    failed one.

    Args:
        send: a function that sends the messages of one stream and returns the response.
        on_reject: a function that is called with each rejected message and the reasons.
    """

    def __init__(self, send: Send, on_reject: RejectHandler) -> None:
        self._send = send
        self._on_reject = on_reject
        self.counts = ImportCounts()
        self.ignored: Counter[str] = Counter()
        self.rejection_groups: dict[str, RejectionGroup] = {}
        self.write_token = ""

    def send_messages(self, items: Iterable[ParseResult]) -> Iterator[ImportCounts]:
        """Send all accepted messages. Yield the counts after each stream."""
        rest = iter(items)
        while chunk := list(itertools.islice(rest, STREAM_MESSAGES)):
            for item in chunk:
                if isinstance(item, RejectedRecord):
                    self._reject_message(item, item.reasons)
                elif isinstance(item, SkippedRecord):
                    self.counts.skipped += 1
            self._send_stream(
                [item for item in chunk if isinstance(item, AcceptedMessage) and self._fits_into_batch(item)]
            )
            yield self.counts

    def _fits_into_batch(self, item: AcceptedMessage) -> bool:
        """Return whether a message is small enough for a batch; reject the message if it is not."""
        size = item.message.ByteSize()
        if size > BATCH_BYTES:
            self._reject_message(item, (f"is {size:,} bytes; the limit is {BATCH_BYTES:,}",))
        return size <= BATCH_BYTES

    def _reject_message(self, item: AcceptedMessage | RejectedRecord, reasons: tuple[str, ...]) -> None:
        self._record_rejection(item, reasons)
        self.counts.rejected += 1

    def _record_rejection(self, item: AcceptedMessage | RejectedRecord, reasons: tuple[str, ...]) -> None:
        """Add a rejected message to the group of each reason, or to `other reasons` if there are 20 groups already."""
        self._on_reject(item, reasons)
        groups = self.rejection_groups
        # JSON errors are grouped regardless of their position.
        for reason in (text.partition(": line ")[0] for text in reasons):
            group = reason if reason in groups or len(groups) < _REASONS_MAX else OTHER_REASONS
            groups.setdefault(group, RejectionGroup(item.location)).count += 1

    def _send_stream(self, accepted: Sequence[AcceptedMessage]) -> None:
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
    """Return the server's reasons for a rejection, without the index of the message in its batch."""
    return tuple(_BATCH_INDEX.sub("", violation) for violation in rejection.violations) or (
        error_reason_pb2.ErrorReason.Name(rejection.reason),
    )


def wait_until_indexed(get_status: Callable[[], Status], timeout_s: float, on_pending: Callable[[int], None]) -> bool:
    """Wait until all messages that are now in the message log are indexed.

    Args:
        get_status: a function that returns the status of the indexes.
        timeout_s: maximum time to wait, in seconds.
        on_pending: a function that is called, after each poll, with the number of messages that are not indexed yet.

    Returns:
        Whether the messages were indexed before the timeout.
    """
    deadline = time.monotonic() + timeout_s
    status = get_status()
    sequence, pause_s = status.log.sequence, _POLL_S
    while _is_index_behind(status, sequence):
        on_pending(_count_pending(status))
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _POLL_MAX_S)  # fewer calls, because the server logs each call
        status = get_status()
    on_pending(0)
    return True


def _is_index_behind(status: Status, sequence: int) -> bool:
    """Return whether an index has not reached a sequence number of the message log.

    A caller in a namespace gets no sequence numbers; the number of pending messages then decides.
    """
    return any(index.checkpoint < sequence if sequence else index.pending for index in _list_used_indexes(status))


def _count_pending(status: Status) -> int:
    return max(index.pending for index in _list_used_indexes(status))


def _list_used_indexes(status: Status) -> list[ingest_service_pb2.IndexStatus]:
    """Return the status of the lexical index and, if the server has an embedder, of the vector index."""
    return (
        [status.lexical]
        if status.embedder.kind == ingest_service_pb2.EMBEDDER_KIND_NONE
        else [status.lexical, status.vector]
    )
