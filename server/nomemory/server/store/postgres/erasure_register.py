"""The register of erasures in a PostgreSQL message log: the tables `erasures` and `epochs`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from nomemory.server.store.buckets import compute_bucket
from nomemory.server.store.erasure_register import MESSAGE, USER, EpochStart, ErasureEntry, RegisterKey

if TYPE_CHECKING:
    from nomemory.server.store.postgres.connections import Connection

DIGEST_OF_USER: Final = r"""
sha256($2::bytea || sha256($1::bytea || 'user\000'::bytea || convert_to(user_id, 'UTF8')))
"""
"""The SQL expression for the digest of a user, with `RegisterKey.hmac_pads` bound to $1 and $2."""
DIGEST_OF_MESSAGE: Final = r"""
sha256($2::bytea || sha256($1::bytea
  || 'message\000'::bytea || convert_to(user_id, 'UTF8') || '\000'::bytea || convert_to(message_id, 'UTF8')))
"""
"""The SQL expression for the digest of a message, with `RegisterKey.hmac_pads` bound to $1 and $2."""

_PAGE_ROWS: Final = 1_000
_UPSERT: Final = """
ON CONFLICT (digest) DO UPDATE SET kind = excluded.kind, epoch = excluded.epoch, sequence = excluded.sequence,
  erased_us = excluded.erased_us
"""
_INSERT: Final = f"""
INSERT INTO erasures (digest, kind, epoch, sequence, erased_us)
SELECT digest, $3, epoch, sequence, $4 FROM log_state, unnest($1::bytea[], $2::bigint[]) AS new(digest, sequence)
{_UPSERT}
"""  # noqa: S608 - no user input
_INSERT_REMOVALS: Final = f"""
INSERT INTO erasures (digest, kind, epoch, sequence, erased_us)
SELECT {DIGEST_OF_MESSAGE}, $3, epoch, sequence, $4 FROM log_state, removals
WHERE bucket = $5 AND user_id = $6 AND sequence > $7
{_UPSERT}
"""  # noqa: S608 - no user input
_MERGE: Final = f"""
INSERT INTO erasures (digest, kind, epoch, sequence, erased_us)
SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
{_UPSERT} WHERE excluded.erased_us > erasures.erased_us
"""  # noqa: S608 - no user input


async def register_user_erasure(connection: Connection, user_id: str, sequence: int) -> None:
    """Register the erasure of all messages of a user up to a sequence number."""
    key = await read_register_key(connection)
    await connection.execute(_INSERT, [key.compute_user_digest(user_id)], [sequence], USER, _get_now_us())


async def register_message_erasures(connection: Connection, messages: Sequence[tuple[int, str, str]]) -> None:
    """Register the deletion of messages, each given as `(sequence, user_id, message_id)`."""
    if messages:
        key = await read_register_key(connection)
        sequences = {key.compute_message_digest(user, message): sequence for sequence, user, message in messages}
        await connection.execute(_INSERT, list(sequences), list(sequences.values()), MESSAGE, _get_now_us())


async def register_deleted_messages(connection: Connection, user_id: str, after: int) -> None:
    """Register the deletion of all messages of a user that were removed after a sequence number."""
    key = await read_register_key(connection)
    await connection.execute(
        _INSERT_REMOVALS, *key.hmac_pads, MESSAGE, _get_now_us(), compute_bucket(user_id), user_id, after
    )


async def merge_erasures(connection: Connection, erasures: Iterable[ErasureEntry]) -> None:
    """Add entries of another register, at most one per id; the later of two entries for an id is kept."""
    await connection.execute(_MERGE, *map(list, zip(*erasures, strict=True)))


async def read_erasures(connection: Connection) -> AsyncIterator[ErasureEntry]:
    """Yield the entries of the register. The connection must be in a transaction."""
    cursor = await connection.cursor("SELECT digest, kind, epoch, sequence, erased_us FROM erasures ORDER BY digest")
    while rows := await cursor.fetch(_PAGE_ROWS):
        for row in rows:
            yield ErasureEntry(*row)


async def read_epochs(connection: Connection) -> list[EpochStart]:
    """Return the epochs of the message log, oldest first."""
    rows = await connection.fetch("SELECT epoch, sequence, began_us FROM epochs ORDER BY number")
    return [EpochStart(*row) for row in rows]


async def read_register_key(connection: Connection) -> RegisterKey:
    """Return the key of the register, which is derived from the id of the message log."""
    return RegisterKey.from_log_id(await connection.fetchval("SELECT log_id FROM log_state"))


def _get_now_us() -> int:
    return time.time_ns() // 1_000
