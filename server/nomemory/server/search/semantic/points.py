"""Build the point identifiers and payloads that every engine stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID, uuid5

from nomemory.server.search.semantic.protocol import VectorPoint

USER: Final = "user_id"
MESSAGE: Final = "message_id"
CONVERSATION: Final = "conversation_id"
METADATA: Final = "metadata"
"""Hashes of the metadata entries. Points of messages without metadata do not have this field."""
ROLE: Final = "role"
TIME: Final = "ts"
SEQUENCE: Final = "seq"

PART_BLOCK: Final = 32
"""Number of parts per lookup when the points of a message are removed."""

_NAMESPACE: Final = UUID("5b6ce0c4-8a0e-5d1c-9f0b-0d1f6f2f8a57")


def build_point_id(user_id: str, message_id: str, part: int) -> UUID:
    """Return the identifier of a point. NUL separates the hashed ids, because ids contain no control characters."""
    return uuid5(_NAMESPACE, f"{user_id}\0{message_id}\0{part}")


def iterate_point_id_blocks(user_id: str, message_id: str, from_part: int) -> Iterator[list[UUID]]:
    """Yield blocks of the point identifiers of a message, from part `from_part` on, without end.

    The part numbers of a message have no gaps.
    """
    while True:
        yield [build_point_id(user_id, message_id, part) for part in range(from_part, from_part + PART_BLOCK)]
        from_part += PART_BLOCK


def build_payload(point: VectorPoint) -> dict[str, str | int | list[str]]:
    """Return the payload of a point."""
    hashes: dict[str, list[str]] = {METADATA: list(point.metadata_hashes)} if point.metadata_hashes else {}
    return {
        USER: point.user_id,
        MESSAGE: point.message_id,
        CONVERSATION: point.conversation_id,
        ROLE: int(point.role),
        TIME: point.ts_us,
        SEQUENCE: point.sequence,
        **hashes,
    }
