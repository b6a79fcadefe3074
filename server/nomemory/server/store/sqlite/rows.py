"""Read messages from SQLite and verify their checksums."""

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
from nomemory.server.store.conditions import Clause, ExpiryConditions
from nomemory.server.store.damage import DamageRegistry
from nomemory.server.store.sqlite.schema import open_read_only_log, read_latest_sequence

_CHECKED = "wire, seq, crc"
_MESSAGE = f"messages.user_id, messages.message_id, messages.ts, {_CHECKED}"
_STATEMENTS_KEPT = 256
_NO_RETRACTION = "NULL"
ALL = "messages"
# Without INDEXED BY, SQLite may scan all messages of the user.
BY_ID = f"{ALL} INDEXED BY messages_by_id"


class SqliteRows:
    """Reads messages over one connection, which only one thread at a time may use.

    All methods raise the fault STORAGE_UNAVAILABLE if the file cannot be read or a message is damaged.

    Args:
        expiry: hides expired messages; None to include them.

    Attributes:
        connection: the read-only connection, for statements that do not return messages.
    """

    def __init__(
        self, path: Path, expiry: ExpiryConditions | None = None, damage_registry: DamageRegistry | None = None
    ) -> None:
        self.connection = open_read_only_log(path, any_thread=True)
        self._expiry = expiry
        self._damage_registry = damage_registry or DamageRegistry()

    def read_sequence(self) -> int:
        """Return the sequence number of the latest change."""
        with self._damage_registry.translate_errors():
            return read_latest_sequence(self.connection)

    def build_unexpired_clause(self) -> Clause:
        """Return the condition that hides expired messages."""
        return Clause("TRUE") if self._expiry is None else self._expiry.build_unexpired_clause()

    def fetch(self, statement: str, values: Sequence[object]) -> list[Row]:
        """Return all rows of a statement, without verifying checksums."""
        try:
            return self.connection.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._damage_registry.to_fault(error) or error from error

    def read_messages(
        self, user_id: str, where: str, values: Sequence[object], *, source: str = ALL
    ) -> list[LoggedMessage]:
        """Return the messages that match a condition, which must select messages of one user."""
        return self._damage_registry.verify_messages(
            user_id, self._fetch_with_retractions(_MESSAGE, user_id, source, where, values)
        )

    def read_messages_of_queries(
        self, user_id: str, where: str, values: Iterable[Sequence[object]]
    ) -> list[list[LoggedMessage]]:
        """Return the messages of several queries, which differ only in their bound values."""
        statement, before = self._build_statement(_MESSAGE, user_id, ALL, where)
        results = [self.fetch(statement, (*before, *bound)) for bound in values]
        messages = iter(self._damage_registry.verify_messages(user_id, list(chain.from_iterable(results))))
        return [list(islice(messages, len(rows))) for rows in results]

    def read_encoded_messages(
        self, user_id: str, where: str, values: Sequence[object], *, source: str = ALL
    ) -> list[bytes]:
        """Return the messages that match a condition, as encoded ChatMessages."""
        return self._damage_registry.verify_encoded_messages(
            user_id, self._fetch_with_retractions(_CHECKED, user_id, source, where, values)
        )

    def split_damaged_messages(
        self, where: str, values: Sequence[object], *, source: str = ALL
    ) -> tuple[list[LoggedMessage], list[ChangeRef]]:
        """Return the intact and the damaged messages of all users that match a condition, and record the damage."""
        unexpired, expiry_values = self.build_unexpired_clause()
        statement = _build_select(_MESSAGE, _NO_RETRACTION, source, unexpired, where)
        return self._damage_registry.split_damaged_messages(
            row[:-1] for row in self.fetch(statement, (*expiry_values, *values))
        )

    def read_messages_by_ids(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return messages of a user by id; unknown ids are omitted."""
        return {
            message.message_id: message
            for message in self.read_messages(user_id, *_build_ids_condition(user_id, message_ids), source=BY_ID)
        }

    def read_undamaged_messages(self, user_id: str, message_ids: Sequence[str]) -> dict[str, LoggedMessage]:
        """Return messages of a user by id; unknown ids and damaged messages are omitted."""
        sound, _ = self.split_damaged_messages(*_build_ids_condition(user_id, message_ids), source=BY_ID)
        return {message.message_id: message for message in sound}

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _fetch_with_retractions(
        self, columns: str, user_id: str, source: str, where: str, values: Sequence[object]
    ) -> list[Row]:
        statement, before = self._build_statement(columns, user_id, source, where)
        return self.fetch(statement, (*before, *values))

    def _build_statement(self, columns: str, user_id: str, source: str, where: str) -> Clause:
        """Return a statement for messages and their retractions, with all bound values except those of `where`."""
        unexpired = self.build_unexpired_clause()
        retraction = (
            self._expiry.build_retraction_expression(user_id, unexpired) if self._expiry else Clause(_NO_RETRACTION)
        )
        statement = _build_select(columns, retraction.condition, source, unexpired.condition, where)
        return Clause(statement, (*retraction.values, *unexpired.values))


@lru_cache(_STATEMENTS_KEPT)
def _build_select(columns: str, retraction: str, source: str, unexpired: str, where: str) -> str:
    return f"SELECT {columns}, {retraction} FROM {source} WHERE {unexpired} AND {where}"  # noqa: S608 - no user input


def _build_ids_condition(user_id: str, message_ids: Sequence[str]) -> tuple[str, tuple[str, bytes]]:
    return "user_id=? AND message_id IN (SELECT value FROM json_each(?))", (user_id, orjson.dumps(list(message_ids)))
