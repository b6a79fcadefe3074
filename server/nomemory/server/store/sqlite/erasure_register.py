"""The register of erasures in a SQLite message log: the tables `erasures` and `epochs`."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import Final

from nomemory.server.store.erasure_register import MESSAGE, USER, EpochStart, ErasureEntry, RegisterKey
from nomemory.server.store.sqlite.schema import read_identity

DIGEST_OF_MESSAGE: Final = "digest_of_message"
"""The SQL function that returns the digest of a user id and a message id."""
DIGEST_OF_USER: Final = "digest_of_user"
"""The SQL function that returns the digest of a user id."""

_UPSERT: Final = """
ON CONFLICT (digest) DO UPDATE SET kind = excluded.kind, epoch = excluded.epoch, seq = excluded.seq,
  erased_us = excluded.erased_us
"""
_EPOCH: Final = "ifnull((SELECT value FROM meta WHERE key='epoch'), '')"
_INSERT: Final = f"INSERT INTO erasures VALUES (?, ?, {_EPOCH}, ?, ?) {_UPSERT}"  # noqa: S608 - no user input
_INSERT_REMOVALS: Final = f"""
INSERT INTO erasures SELECT {DIGEST_OF_MESSAGE}(user_id, message_id), ?, {_EPOCH}, seq, ?
FROM removals WHERE seq > ? {_UPSERT}
"""  # noqa: S608 - no user input
_MERGE: Final = f"INSERT INTO erasures VALUES (?, ?, ?, ?, ?) {_UPSERT} WHERE excluded.erased_us > erased_us"  # noqa: S608 - no user input


def register_user_erasure(connection: sqlite3.Connection, user_id: str, sequence: int) -> None:
    """Register the erasure of all messages of a user up to a sequence number."""
    digest = _read_register_key(connection).compute_user_digest(user_id)
    connection.execute(_INSERT, (digest, USER, sequence, _get_now_us()))


def register_message_erasures(connection: sqlite3.Connection, messages: Iterable[tuple[int, str, str]]) -> None:
    """Register the deletion of messages, each given as `(sequence, user_id, message_id)`."""
    if rows := list(messages):
        key, now_us = _read_register_key(connection), _get_now_us()
        connection.executemany(
            _INSERT,
            [
                (key.compute_message_digest(user, message), MESSAGE, sequence, now_us)
                for sequence, user, message in rows
            ],
        )


def register_deleted_messages(connection: sqlite3.Connection, after: int) -> None:
    """Register the deletion of all messages that were removed after a sequence number."""
    add_digest_functions(connection)
    connection.execute(_INSERT_REMOVALS, (MESSAGE, _get_now_us(), after))


def add_digest_functions(connection: sqlite3.Connection) -> None:
    """Define the SQL functions that return the digests of ids."""
    key = _read_register_key(connection)
    connection.create_function(DIGEST_OF_USER, 1, key.compute_user_digest, deterministic=True)
    connection.create_function(DIGEST_OF_MESSAGE, 2, key.compute_message_digest, deterministic=True)


def merge_erasures(connection: sqlite3.Connection, erasures: Iterable[ErasureEntry]) -> None:
    """Add entries of another register; the later of two entries for an id is kept."""
    connection.executemany(_MERGE, erasures)


def read_erasures(connection: sqlite3.Connection) -> Iterator[ErasureEntry]:
    """Yield all entries of the register of erasures."""
    yield from map(ErasureEntry._make, connection.execute("SELECT digest, kind, epoch, seq, erased_us FROM erasures"))


def read_epochs(connection: sqlite3.Connection) -> list[EpochStart]:
    """Return the epochs of the message log, oldest first."""
    rows = connection.execute("SELECT epoch, seq, began_us FROM epochs ORDER BY number")
    return list(map(EpochStart._make, rows))


def _read_register_key(connection: sqlite3.Connection) -> RegisterKey:
    return RegisterKey.from_log_id(read_identity(connection).log_id)


def _get_now_us() -> int:
    return time.time_ns() // 1_000
