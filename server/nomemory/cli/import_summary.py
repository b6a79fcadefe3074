"""What became of the messages of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nomemory.v1 import ingest_service_pb2


@dataclass(frozen=True, slots=True)
class Tally:
    """How many messages went which way. `sent` covers the first four, and what a dry run would send."""

    sent: int = 0
    created: int = 0
    unchanged: int = 0
    replaced: int = 0
    rejected: int = 0
    skipped: int = 0

    def plus(self, other: Tally) -> Tally:
        """Add up."""
        return Tally(
            self.sent + other.sent,
            self.created + other.created,
            self.unchanged + other.unchanged,
            self.replaced + other.replaced,
            self.rejected + other.rejected,
            self.skipped + other.skipped,
        )


def tally_of(sent: int, reply: ingest_service_pb2.ImportMessagesResponse) -> Tally:
    """Count what the server did with a stream."""
    return Tally(sent, reply.created, reply.unchanged, reply.replaced, reply.rejected)


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of importing one file.

    `ignored` counts, per field, the messages that had it without a place for it. `rejects` is the file of rejects,
    None if there were none. `write_token` is for reads that must see the import.
    """

    source: str
    format: str
    title: str
    tally: Tally
    dry_run: bool = False
    ignored: Mapping[str, int] = field(default_factory=dict)
    rejects: Path | None = None
    write_token: str = ""
