"""The servers whose indexes follow a PostgreSQL message log.

A removal record is kept until all servers have erased the message.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from nomemory.server.runtime.secure_files import write_atomically
from nomemory.server.store.errors import LogUnusableError
from nomemory.server.store.position import Checkpoint, LogIdentity
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.rows import number_placeholders
from nomemory.server.store.postgres.schema import open_connection

_NAME_BYTES: Final = 8


_INSERT_FOLLOWER: Final = """
INSERT INTO followers (name, is_lasting) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET is_lasting = excluded.is_lasting, seen = now()
"""


_EXPIRED_FOLLOWER: Final = """\
this server ({name}) was deleted from the table `followers` of the message log's database and may have missed \
removals. Delete `lexical`, `vectors`, `log.json` and `follower` in its data directory and start it again to rebuild \
the indexes."""


def load_follower_name(path: Path) -> str:
    """Read the name of this server from a file, or generate a name and store it.

    Raises:
        OSError: the file with the name cannot be read or written.
    """
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        name = os.urandom(_NAME_BYTES).hex()
        write_atomically(path, name.encode())
        return name


async def register_follower(
    database: Database, name: str, record: Checkpoint | None, *, is_lasting: bool = True
) -> None:
    """Register this server, so that removal records are kept until the indexes of this server have applied them.

    `record` is the checkpoint in the data directory. `is_lasting` is false for a server without local indexes, which
    can register again at any time.

    Raises:
        LogUnusableError: the database is unavailable, or the registration of the server was deleted.
    """
    async with open_connection(database) as connection:
        registered = await connection.fetchval("SELECT is_lasting FROM followers WHERE name = $1", name)
        if registered == is_lasting:
            return
        log = LogIdentity(*(await connection.fetchrow("SELECT log_id, epoch FROM log_state") or ("", "")))
        if is_lasting and record is not None and record.matches_log(log):
            raise LogUnusableError(_EXPIRED_FOLLOWER.format(name=name))
        await connection.execute(number_placeholders(_INSERT_FOLLOWER), name, is_lasting)
