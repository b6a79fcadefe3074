"""Rows of messages, read from SQLite one short statement at a time and never inside a long transaction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson

from nomemory.server.log.sqlite_expiry import Condition, Expiry
from nomemory.server.log.sqlite_schema import latest_sequence, open_for_reading
from nomemory.server.message import LoggedMessage

_ROW = "messages.user_id, messages.message_id, messages.ts, seq, wire"
_ALL = "messages"


class SqliteRows:
    """A read-only connection to the log. Belongs to the thread that made it.

    Args:
        path: the database file.
        expiry: what hides messages that have expired; None: they are read like others.

    Attributes:
        connection: for statements about anything but messages.
    """

    def __init__(self, path: Path, expiry: Expiry | None = None) -> None:
        self.connection = open_for_reading(path)
        self._expiry = expiry

    def sequence(self) -> int:
        """Return the sequence of the latest change."""
        return latest_sequence(self.connection)

    def living(self) -> Condition:
        """Return the condition on `messages` that hides what has expired, and its values."""
        return ("TRUE", ()) if self._expiry is None else self._expiry.living()

    def messages(self, where: str, values: Sequence[object], *, source: str = _ALL) -> list[LoggedMessage]:
        """Return the messages of a source that a condition admits, in its order."""
        living, moments = self.living()
        rows: list[tuple[str, str, int, int, bytes]] = self.connection.execute(
            f"SELECT {_ROW} FROM {source} WHERE {living} AND {where}",  # noqa: S608 - our text, bound values
            (*moments, *values),
        ).fetchall()
        return list(map(LoggedMessage._make, rows))

    def wires(self, where: str, values: Sequence[object], *, source: str = _ALL) -> list[bytes]:
        """Return what `messages` does as the bytes of ChatMessages."""
        living, moments = self.living()
        rows: list[tuple[bytes]] = self.connection.execute(
            f"SELECT wire FROM {source} WHERE {living} AND {where}",  # noqa: S608 - as above
            (*moments, *values),
        ).fetchall()
        return [wire for (wire,) in rows]

    def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids; those that do not exist are not in the answer."""
        found = self.messages(
            "user_id=? AND message_id IN (SELECT value FROM json_each(?))",
            (user_id, orjson.dumps(list(message_ids))),
            # Left to itself SQLite walks through all that the user ever said.
            source=f"{_ALL} INDEXED BY messages_by_id",
        )
        return {message.message_id: message for message in found}

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
