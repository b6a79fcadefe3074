"""Rows of messages, read from SQLite and checked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

import orjson

from nomemory.server.message import LoggedMessage
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.checksums import Row
from nomemory.server.store.conditions import Clause, Expiry
from nomemory.server.store.damage import LogDamage
from nomemory.server.store.sqlite.schema import latest_sequence, open_for_reading

_CHECKED = "wire, seq, crc"
_MESSAGE = f"messages.user_id, messages.message_id, messages.ts, {_CHECKED}"
_STATEMENTS_KEPT = 256
_UNMARKED = "NULL"
"""In the place of what took a message back, where nobody asks."""
ALL = "messages"
# Left to itself SQLite walks through all that the user ever said.
BY_ID = f"{ALL} INDEXED BY messages_by_id"


class SqliteRows:
    """A read-only connection to the log, for one thread at a time.

    Args:
        path: the database file.
        expiry: what hides messages that have expired; None: they are read like others.
        damage: told of what is found to be damaged.

    Attributes:
        connection: for statements about anything but messages.

    Raises (any method): Fault STORAGE_UNAVAILABLE if the file cannot be read, or a message is damaged.
    """

    def __init__(self, path: Path, expiry: Expiry | None = None, damage: LogDamage | None = None) -> None:
        self.connection = open_for_reading(path, anywhere=True)
        self._expiry = expiry
        self._damage = damage or LogDamage()

    def sequence(self) -> int:
        """Return the sequence of the latest change."""
        with self._damage.translated_errors():
            return latest_sequence(self.connection)

    def unexpired(self) -> Clause:
        """Return the condition on `messages` that hides what has expired."""
        return Clause("TRUE") if self._expiry is None else self._expiry.unexpired()

    def fetch(self, statement: str, values: Sequence[object]) -> list[Row]:
        """Return all rows of a statement. What it returns of messages is not checked."""
        try:
            return self.connection.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._damage.fault_for(error) or error from error

    def messages(self, user_id: str, where: str, values: Sequence[object], *, source: str = ALL) -> list[LoggedMessage]:
        """Return the messages of a source that a condition admits, in its order. It admits only those of a user."""
        return self._damage.verify_messages(user_id, self._marked(_MESSAGE, user_id, source, where, values))

    def each(self, user_id: str, where: str, values: Iterable[Sequence[object]]) -> list[list[LoggedMessage]]:
        """Return what `messages` does of one condition for each of several values: all are checked at once."""
        statement, before = self._of_user(_MESSAGE, user_id, ALL, where)
        found = [self.fetch(statement, (*before, *some)) for some in values]
        messages = iter(self._damage.verify_messages(user_id, list(chain.from_iterable(found))))
        return [list(islice(messages, len(rows))) for rows in found]

    def encoded_messages(self, user_id: str, where: str, values: Sequence[object], *, source: str = ALL) -> list[bytes]:
        """Return what `messages` does as the bytes of ChatMessages."""
        return self._damage.verify_encoded(user_id, self._marked(_CHECKED, user_id, source, where, values))

    def split_damaged(
        self, where: str, values: Sequence[object], *, source: str = ALL
    ) -> tuple[list[LoggedMessage], list[ChangeRef]]:
        """Return what `messages` does of any users, and apart from it what is damaged, which is noted."""
        living, moments = self.unexpired()
        statement = _statement(_MESSAGE, _UNMARKED, source, living, where)
        return self._damage.split_damaged(row[:-1] for row in self.fetch(statement, (*moments, *values)))

    def by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Resolve ids; those that do not exist are not in the answer."""
        return {
            message.message_id: message
            for message in self.messages(user_id, *_by_ids(user_id, message_ids), source=BY_ID)
        }

    def undamaged_by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return what `by_ids` does without what is damaged."""
        sound, _ = self.split_damaged(*_by_ids(user_id, message_ids), source=BY_ID)
        return {message.message_id: message for message in sound}

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _marked(self, columns: str, user_id: str, source: str, where: str, values: Sequence[object]) -> list[Row]:
        statement, before = self._of_user(columns, user_id, source, where)
        return self.fetch(statement, (*before, *values))

    def _of_user(self, columns: str, user_id: str, source: str, where: str) -> Clause:
        """Return a statement for messages of a user, and for what took each back, without the values of `where`."""
        living = self.unexpired()
        taker = self._expiry.retracted_by(user_id, living) if self._expiry else Clause(_UNMARKED)
        statement = _statement(columns, taker.condition, source, living.condition, where)
        return Clause(statement, (*taker.values, *living.values))


@lru_cache(_STATEMENTS_KEPT)
def _statement(columns: str, taker: str, source: str, living: str, where: str) -> str:
    return f"SELECT {columns}, {taker} FROM {source} WHERE {living} AND {where}"  # noqa: S608 - our text, bound values


def _by_ids(user_id: str, message_ids: Sequence[str]) -> tuple[str, tuple[str, bytes]]:
    return "user_id=? AND message_id IN (SELECT value FROM json_each(?))", (user_id, orjson.dumps(list(message_ids)))
