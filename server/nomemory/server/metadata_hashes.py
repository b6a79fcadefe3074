"""Index keys for metadata entries and retractions."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

Entry = tuple[str, str]
"""A metadata key and its value."""


_BYTES = 16


def compute_entry_hash(entry: Entry) -> str:
    """Return the BLAKE2b hash of a metadata entry as 32 hexadecimal digits."""
    key, value = entry  # a key cannot contain NUL
    return blake2b(f"{key}\0{value}".encode(), digest_size=_BYTES).hexdigest()


def compute_entry_hashes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the hexadecimal hash of each metadata entry."""
    return tuple(map(compute_entry_hash, entries))


def compute_entry_hash_bytes(entry: Entry) -> bytes:
    """Return the hash of a metadata entry as the 16 bytes that the message log stores."""
    return bytes.fromhex(compute_entry_hash(entry))


RETRACTION: Final = b"nomemory.retract"
"""Prefix of retraction keys. A retraction key is longer than the hash of an entry, so the two cannot collide."""


def build_retraction_key(message_id: str) -> bytes:
    """Return the index key that finds the messages that retract `message_id`."""
    return RETRACTION + message_id.encode()
