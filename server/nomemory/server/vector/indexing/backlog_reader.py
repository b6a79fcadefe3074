"""How far the vector index has come, read from the backlog beside its writer.

Makes of a backlog that followed a log of one kind one that follows the same log where it was moved to.

A log in a file has one bucket, one in a database has many. Nothing is work again but what was not done.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.server.log.position import BUCKETS, FeedPosition, bucket_of
from nomemory.server.sqlite_users import users_condition
from nomemory.server.vector.indexing.backlog import PARKED, Backlog, checkpoint, fed, known_messages
from nomemory.server.vector.shared.protocol import Filled

_PROGRESS = "SELECT fed, (SELECT min(oldest) FROM work WHERE state = 0 AND user_id = ?) FROM feed"


@dataclass(frozen=True, slots=True)
class BacklogCounts:
    """How many messages wait, and how many can never be taken."""

    pending: int
    parked: int


class BacklogReader:
    """Reads a backlog that a `Backlog` has made, also from another process. Belongs to the thread that made it.

    Every answer takes well below a millisecond, except the counts of a user with a very long backlog.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)

    def fed(self) -> FeedPosition:
        """Return up to where the feed has been taken in."""
        return fed(self._connection)

    def is_behind(self, user_id: str, sequence: int) -> bool:
        """Return whether a change of this user up to a sequence may not be applied yet.

        What was fed and what is left of it are read in one statement, so that they belong together.
        """
        fed, oldest = self._connection.execute(_PROGRESS, (user_id,)).fetchone()
        fed_of_user = fed if isinstance(fed, int) else FeedPosition.decoded(fed).of_user(user_id)
        return fed_of_user < sequence or (oldest is not None and oldest <= sequence)

    def is_pending(self, user_id: str) -> bool:
        """Return whether there is work for a user."""
        found = self._connection.execute("SELECT 1 FROM work WHERE state = 0 AND user_id = ? LIMIT 1", (user_id,))
        return found.fetchone() is not None

    def checkpoint(self) -> FeedPosition:
        """Return up to where everything has been applied or parked."""
        return checkpoint(self._connection)

    def counts(self, user_id: str | None = None, prefix: str = "") -> BacklogCounts:
        """Count messages, of one user or of all whose ids begin with a prefix."""
        parked = "SELECT count(*) FROM work WHERE state > 0 AND state = ?"
        if user_id is None and not prefix:
            return BacklogCounts(self._number("SELECT pending FROM feed"), self._number(parked, (PARKED,)))
        condition, values = users_condition(user_id, prefix)
        pending = self._number(f"SELECT count(*) FROM work WHERE state = 0 AND {condition}", values)  # noqa: S608 - ours
        return BacklogCounts(pending, self._number(f"{parked} AND {condition}", (PARKED, *values)))

    def parked_ids(self, user_id: str, limit: int = 100) -> list[str]:
        """Name the first messages of a user that were set aside, by id."""
        rows = self._connection.execute(
            "SELECT message_id FROM work WHERE state > 0 AND state = ? AND user_id = ? ORDER BY message_id LIMIT ?",
            (PARKED, user_id, limit),
        )
        return [message_id for (message_id,) in rows]

    def known(self, user_id: str, message_ids: Sequence[str]) -> set[str]:
        """Name those of a user's messages that wait, were applied and not made durable yet, or were set aside."""
        return known_messages(self._connection, user_id, message_ids)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _number(self, statement: str, values: Sequence[str | int] = ()) -> int:
        return int(self._connection.execute(statement, values).fetchone()[0])


_ON_SERVER: Final = re.compile(r"(?P<name>.+)-server-[0-9a-f]{8}")
"""What the directory of a collection on a Qdrant server is called: its name there, and a mark of the server."""


def has_own_index(vectors: Path) -> bool:
    """Return whether a directory of collections has one whose vectors are in it, not on a Qdrant server."""
    return any(not _ON_SERVER.fullmatch(path.parent.name) for path in vectors.glob("*/vectors.db"))


def follow_buckets(vectors: Path) -> None:
    """Have the backlogs of a directory of collections, none of which is in use, follow a log of many buckets."""
    for path in sorted(vectors.glob("*/vectors.db")):
        backlog = Backlog(path)  # brings it forward
        fed = backlog.fed
        backlog.close()
        many = FeedPosition(tuple(fed.of(bucket) for bucket in range(BUCKETS)))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.create_function("bucket_of", 1, bucket_of, deterministic=True)
            connection.execute("UPDATE work SET bucket = bucket_of(user_id)")
            connection.execute("UPDATE feed SET fed = ?", (many.encoded(),))


def follow_one(vectors: Path, reached: FeedPosition, shared: Mapping[str, Filled]) -> None:
    """Have the backlogs of a directory of collections, none of which is in use, follow a log of one bucket.

    Args:
        vectors: the directory.
        reached: how far the log is, that they have followed by buckets.
        shared: what is known of indexes that servers share, by their names on the engine's server.
    """
    for path in sorted(vectors.glob("*/vectors.db")):
        named = _ON_SERVER.fullmatch(path.parent.name)
        filled = shared.get(named["name"]) if named else None
        backlog = Backlog(path)
        if filled is not None:
            backlog.start_over(aside=filled.aside)
        fed = (backlog.fed if filled is None else filled.checkpoint).settled(reached)
        backlog.close()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE work SET bucket = 0")
            connection.execute("UPDATE feed SET fed = ?", (fed,))
            if filled is not None:
                connection.execute("UPDATE followed SET is_begun = 1")
