"""Fixed-length marks that stand for metadata entries and retractions in indexes: equal only for equal entries."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

Entry = tuple[str, str]
"""A key and its value."""


_BYTES = 16


def entry_hash(entry: Entry) -> str:
    """Return the mark of an entry: 32 hexadecimal digits of a hash. Keys have no NUL, so that NUL ends them."""
    key, value = entry
    return blake2b(f"{key}\0{value}".encode(), digest_size=_BYTES).hexdigest()


def entry_hashes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the marks of entries, in their order."""
    return tuple(map(entry_hash, entries))


def entry_hash_bytes(entry: Entry) -> bytes:
    """Return the mark of an entry as the log's tables have it."""
    return bytes.fromhex(entry_hash(entry))


RETRACTION: Final = b"nomemory.retract"
"""How the mark of what a message takes back begins. With an id after it, it is longer than the mark of any entry."""


def retraction_key(message_id: str) -> bytes:
    """Return what stands in the log's tables for that a message takes back another, which has this id."""
    return RETRACTION + message_id.encode()
