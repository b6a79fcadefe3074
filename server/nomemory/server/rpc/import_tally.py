"""The result of an import so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nomemory.server.faults import Fault, Reason, Violation
from nomemory.server.log.protocol import Outcome, Written
from nomemory.server.log.writing import CONFLICT
from nomemory.server.rpc.decode_ingest import ImportBatch, RefusedMessage
from nomemory.v1 import ingest_service_pb2 as pb


@dataclass(slots=True)
class ImportTally:
    """Adds up the batches of an import.

    Attributes:
        rejections_max: how many rejections the response lists at most. It lists the first ones.
        response: the totals so far, without a write token.
        sequence: the latest sequence of the log among the batches.
    """

    rejections_max: int
    response: pb.ImportMessagesResponse = field(default_factory=pb.ImportMessagesResponse)
    sequence: int = 0
    _batches: int = 0
    _messages: int = 0

    def add(self, batch: ImportBatch, written: Written, *, size: int) -> None:
        """Add a stored batch. `size` is the number of messages that it came with, refused ones too."""
        counts = {outcome: written.outcomes.count(outcome) for outcome in Outcome}
        self.response.created += counts[Outcome.CREATED]
        self.response.unchanged += counts[Outcome.UNCHANGED]
        self.response.replaced += counts[Outcome.REPLACED]
        self.response.rejected += counts[Outcome.CONFLICT] + len(batch.refused)
        self._list_rejections([*batch.refused, *_conflicting(batch, written)])
        self.sequence = max(self.sequence, written.sequence)
        self._batches += 1
        self._messages += size

    def ended_by(self, fault: Fault) -> Fault:
        """Return a fault that also says what was done before it. `batch` is the position of the failed batch."""
        so_far = {
            "batch": self._batches,
            "created": self.response.created,
            "unchanged": self.response.unchanged,
            "replaced": self.response.replaced,
            "rejected": self.response.rejected,
        }
        return Fault(
            fault.reason,
            fault.message,
            violations=fault.violations,
            metadata={**fault.metadata, **{name: str(count) for name, count in so_far.items()}},
            retry_after_s=fault.retry_after_s,
        )

    def _list_rejections(self, refused: Iterable[RefusedMessage]) -> None:
        room = self.rejections_max - len(self.response.rejections)
        for message in sorted(refused, key=lambda one: one.position)[:room]:
            self.response.rejections.add(
                index=self._messages + message.position,
                message_id=message.message_id,
                reason=Reason.Name(message.reason),
                violations=[f"{violation.field}: {violation.description}" for violation in message.violations],
            )


def _conflicting(batch: ImportBatch, written: Written) -> list[RefusedMessage]:
    reason, violations = Reason.ERROR_REASON_MESSAGE_CONFLICT, (Violation("message_id", CONFLICT),)
    return [
        RefusedMessage(position, message_id, reason, violations)
        for position, message_id, outcome in zip(batch.positions, written.message_ids, written.outcomes, strict=True)
        if outcome is Outcome.CONFLICT
    ]
