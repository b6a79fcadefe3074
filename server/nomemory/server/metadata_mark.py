"""What stands for a metadata entry in an index: short, of one length, and equal only for equal entries."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

Entry = tuple[str, str]
"""A key and its value."""

_BYTES = 16


def mark_of(entry: Entry) -> str:
    """Return the mark of an entry: 32 hexadecimal digits of a hash. Keys have no NUL, so that NUL ends them."""
    key, value = entry
    return blake2b(f"{key}\0{value}".encode(), digest_size=_BYTES).hexdigest()


def marks_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the marks of entries, in their order."""
    return tuple(map(mark_of, entries))


def stored_mark(entry: Entry) -> bytes:
    """Return the mark of an entry as the log's tables have it."""
    return bytes.fromhex(mark_of(entry))
