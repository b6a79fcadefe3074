"""The tables of the message log, whose column names and row order may differ between storage engines."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Table(NamedTuple):
    """The name, the key columns and the other columns of a table."""

    name: str
    key: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The key columns, followed by the other columns."""
        return self.key + self.others


MESSAGES: Final = Table(
    "messages",
    ("user_id", "ts_us", "message_id"),
    ("sequence", "role", "conversation_id", "wire", "expire_us", "checksum"),
)
VECTORS: Final = Table("embeddings", ("user_id", "message_id"), ("vector",))
METADATA: Final = Table("metadata_entries", ("user_id", "mark", "ts_us", "message_id"))
USERS: Final = Table("users", ("user_id",), ("latest_sequence", "messages"))
REQUESTS: Final = Table("requests", ("user_id", "digest"), ("first_id", "size"))
REMOVALS: Final = Table("removals", ("sequence",), ("user_id", "message_id", "removed_sequence"))

TABLES: Final = (MESSAGES, VECTORS, METADATA, USERS, REQUESTS, REMOVALS)

Row = tuple[Any, ...]
"""The values of all columns of a table."""
