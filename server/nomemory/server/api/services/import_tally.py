"""The totals of an import stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nomemory.server.api.validation.ingest_requests import (
    RejectedMessage,
    WriteBatch,
)
from nomemory.server.faults import Reason, Violation
from nomemory.server.store.commit import CONFLICT
from nomemory.server.store.results import WriteOutcome, WriteReceipt
from nomemory.v1 import ingest_service_pb2 as pb


@dataclass(slots=True)
class ImportTally:
    """Accumulates the results of the batches in an import stream.

    Attributes:
        max_rejections: the maximum number of rejections that the response lists. The response counts all rejections.
        response: the totals of the batches so far, without a write token.
        sequence: the highest sequence number of the batches in the message log.
    """

    max_rejections: int
    response: pb.ImportMessagesResponse = field(default_factory=pb.ImportMessagesResponse)
    sequence: int = 0
    _batches: int = 0
    _messages: int = 0

    def add_batch(self, batch: WriteBatch, written: WriteReceipt, *, size: int) -> None:
        """Add the results of a stored batch.

        `size` is the number of messages in the request, including rejected messages.
        """
        counts = {outcome: written.outcomes.count(outcome) for outcome in WriteOutcome}
        self.response.created += counts[WriteOutcome.CREATED]
        self.response.unchanged += counts[WriteOutcome.UNCHANGED]
        self.response.replaced += counts[WriteOutcome.REPLACED]
        self.response.rejected += counts[WriteOutcome.CONFLICT] + len(batch.rejected)
        self._list_rejections([*batch.rejected, *_reject_conflicts(batch, written)])
        self.sequence = max(self.sequence, written.sequence)
        self._batches += 1
        self._messages += size

    def build_error_metadata(self) -> dict[str, str]:
        """Return the totals as metadata of the fault that ends the import.

        The key `batch` contains the index of the failed batch.
        """
        totals = self.response
        counts = {
            "batch": self._batches,
            "created": totals.created,
            "unchanged": totals.unchanged,
            "replaced": totals.replaced,
            "rejected": totals.rejected,
        }
        return {name: str(count) for name, count in counts.items()}

    def _list_rejections(self, rejected: Iterable[RejectedMessage]) -> None:
        remaining = self.max_rejections - len(self.response.rejections)
        for message in sorted(rejected, key=lambda message: message.position)[:remaining]:
            self.response.rejections.add(
                index=self._messages + message.position,
                message_id=message.message_id,
                reason=message.reason,
                violations=[f"{violation.field}: {violation.description}" for violation in message.violations],
            )


def _reject_conflicts(batch: WriteBatch, written: WriteReceipt) -> list[RejectedMessage]:
    reason, violations = Reason.ERROR_REASON_MESSAGE_CONFLICT, (Violation("message_id", CONFLICT),)
    return [
        RejectedMessage(position, message_id, reason, violations)
        for position, message_id, outcome in zip(batch.positions, written.message_ids, written.outcomes, strict=True)
        if outcome is WriteOutcome.CONFLICT
    ]
