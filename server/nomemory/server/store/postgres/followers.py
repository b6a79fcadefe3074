"""The servers whose indexes follow the log: a removal is kept until all of them have wiped it out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from nomemory.server.runtime.secure_files import write_atomically
from nomemory.server.store.errors import LogUnusableError
from nomemory.server.store.position import Checkpoint, LogIdentity
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.rows import numbered
from nomemory.server.store.postgres.schema import connected

_NAME_BYTES: Final = 8


_JOIN: Final = """
INSERT INTO followers (name, is_lasting) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET is_lasting = excluded.is_lasting, seen = now()
"""


_DROPPED: Final = """\
this server, {name}, was taken off the table `followers` of the message log's database, and may have missed removals \
since. Delete `lexical`, `vectors`, `log.json` and `follower` in its data directory, and start it again: its indexes \
are built anew."""


def follower_name(path: Path) -> str:
    """Return the name that a file holds; it is made up where there is none.

    Raises:
        OSError: the file cannot be read or made.
    """
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        name = os.urandom(_NAME_BYTES).hex()
        write_atomically(path, name.encode())
        return name


async def join_followers(database: Database, name: str, record: Checkpoint | None, *, is_lasting: bool = True) -> None:
    """Have removals kept until this server has wiped them out of its indexes.

    Args:
        database: where the log is.
        name: the server's.
        record: what it recorded of the log that its indexes have followed, if they have followed any.
        is_lasting: whether it has indexes of its own. If not, it may be forgotten and come back.

    Raises:
        LogUnusableError: the database cannot be reached, or has forgotten the server.
    """
    async with connected(database) as connection:
        known = await connection.fetchval("SELECT is_lasting FROM followers WHERE name = $1", name)
        if known == is_lasting:
            return
        log = LogIdentity(*(await connection.fetchrow("SELECT log_id, epoch FROM log_state") or ("", "")))
        if is_lasting and record is not None and record.is_of(log):
            raise LogUnusableError(_DROPPED.format(name=name))
        await connection.execute(numbered(_JOIN), name, is_lasting)
