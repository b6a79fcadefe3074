"""The tables of the message log in PostgreSQL, and how they are brought forward.

`sqlite/schema` says what each table is for. Different here: everything that belongs to a user has the user's bucket
first in its key (`bucket_of`), and `messages` has what search by words needs, in the row of the message itself:
`keys` has a number for each of its terms, `tokens` its text as it is searched for phrases (`token_columns`).
`log_state` is one row. `followers` has the servers whose indexes follow the feed, and the sequence up to which each has
wiped out what was removed: a removal is forgotten when all have. One that has no index of its own is not `is_lasting`:
when it has not been `seen` for a day it is gone.

`buckets` has a row for each bucket, with its latest sequence and the latest id that was made in it. Who writes locks
the rows of the buckets that the write touches, in ascending order, takes numbers from `log_sequence` only then, and
holds the locks until the commit. So no two changes of the log have the same sequence, and those of one bucket become
visible in their order: whoever follows a bucket skips none. Those of several buckets may become visible in another.

`index_collections` has the indexes by meaning that several servers share on one Qdrant, and the log that each has
followed. `index_buckets` says of each bucket of them how far it is filled, and by which server that has not left;
`index_members` which servers there are; `index_users` which users are further than their bucket; `index_aside` which
messages can never be taken.

Texts have the collation "C": they are ordered by their bytes, as in every other part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from nomemory.server.store.errors import LogUnusableError, LogVersionError
from nomemory.server.store.postgres.connections import ERRORS, LONG_S, Database

if TYPE_CHECKING:
    from nomemory.server.store.postgres.connections import Connection


_FIRST: Final = """
CREATE TABLE log_state (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  log_id text NOT NULL,
  epoch text NOT NULL DEFAULT '',
  sequence bigint NOT NULL DEFAULT 0,
  last_id bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 10);
INSERT INTO log_state (log_id) VALUES (replace(gen_random_uuid()::text, '-', ''));
CREATE TABLE messages (
  bucket smallint NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  ts_us bigint NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  sequence bigint NOT NULL,
  expire_us bigint,
  checksum bigint NOT NULL,
  role smallint NOT NULL,
  conversation_id text COLLATE "C" NOT NULL,
  wire bytea NOT NULL,
  keys bigint[],
  tokens bytea,
  PRIMARY KEY (bucket, user_id, ts_us, message_id)
);
CREATE UNIQUE INDEX messages_by_id ON messages (bucket, user_id, message_id);
CREATE UNIQUE INDEX messages_by_sequence ON messages (sequence, bucket);
CREATE INDEX messages_by_conversation ON messages (bucket, user_id, conversation_id, ts_us, message_id)
  WHERE conversation_id <> '';
CREATE INDEX messages_by_expiry ON messages (expire_us) WHERE expire_us IS NOT NULL;
CREATE TABLE metadata_entries (
  bucket smallint NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  mark bytea NOT NULL,
  ts_us bigint NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (bucket, user_id, mark, ts_us, message_id)
);
CREATE INDEX metadata_entries_by_message ON metadata_entries (bucket, user_id, message_id);
CREATE TABLE removals (
  bucket smallint NOT NULL,
  sequence bigint NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  removed_sequence bigint NOT NULL,
  PRIMARY KEY (sequence, bucket)
);
CREATE INDEX removals_by_version ON removals (removed_sequence);
CREATE TABLE embeddings (
  bucket smallint NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  vector bytea NOT NULL,
  PRIMARY KEY (bucket, user_id, message_id)
);
ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE EXTERNAL;
CREATE TABLE users (
  bucket smallint NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  latest_sequence bigint NOT NULL,
  messages bigint NOT NULL,
  PRIMARY KEY (bucket, user_id)
) WITH (fillfactor = 80);
CREATE INDEX users_in_order ON users (user_id);
CREATE TABLE followers (
  name text PRIMARY KEY,
  wiped bigint NOT NULL DEFAULT 0,
  since timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE requests (
  bucket smallint NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  digest bytea NOT NULL,
  first_id bytea NOT NULL,
  size integer NOT NULL,
  PRIMARY KEY (bucket, user_id, digest)
);
"""
WORDS: Final = "CREATE INDEX IF NOT EXISTS messages_by_words ON messages USING gin (keys) WITH (fastupdate = off)"
_THIRD: Final = """
LOCK TABLE log_state, messages, removals IN ACCESS EXCLUSIVE MODE;
CREATE TABLE buckets (
  bucket smallint PRIMARY KEY,
  sequence bigint NOT NULL DEFAULT 0,
  last_id bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 10);
INSERT INTO buckets (bucket, sequence, last_id)
  SELECT bucket, sequence, last_id FROM log_state, generate_series(0, 63) AS bucket;
CREATE SEQUENCE log_sequence;
SELECT setval('log_sequence', greatest(sequence, 1), sequence > 0) FROM log_state;
ALTER TABLE log_state DROP COLUMN sequence, DROP COLUMN last_id;
DROP INDEX messages_by_sequence;
CREATE UNIQUE INDEX messages_by_sequence ON messages (bucket, sequence);
ALTER TABLE removals DROP CONSTRAINT removals_pkey, ADD PRIMARY KEY (bucket, sequence);
"""
_FOURTH: Final = """
CREATE TABLE index_collections (
  collection text COLLATE "C" PRIMARY KEY,
  log text NOT NULL
);
CREATE TABLE index_buckets (
  collection text COLLATE "C" NOT NULL,
  bucket smallint NOT NULL,
  checkpoint bigint NOT NULL,
  generation bigint NOT NULL DEFAULT 0,
  holder text NOT NULL DEFAULT '',
  until timestamptz NOT NULL DEFAULT '-infinity',
  PRIMARY KEY (collection, bucket)
) WITH (fillfactor = 10);
CREATE TABLE index_members (
  collection text COLLATE "C" NOT NULL,
  name text NOT NULL,
  seen timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (collection, name)
) WITH (fillfactor = 10);
CREATE TABLE index_users (
  collection text COLLATE "C" NOT NULL,
  bucket smallint NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  sequence bigint NOT NULL,
  PRIMARY KEY (collection, bucket, user_id)
);
CREATE TABLE index_aside (
  collection text COLLATE "C" NOT NULL,
  bucket smallint NOT NULL,
  user_id text COLLATE "C" NOT NULL,
  message_id text COLLATE "C" NOT NULL,
  latest bigint NOT NULL,
  reason text NOT NULL,
  PRIMARY KEY (collection, bucket, user_id, message_id)
);
ALTER TABLE followers ADD COLUMN is_lasting boolean NOT NULL DEFAULT true;
ALTER TABLE followers ADD COLUMN seen timestamptz NOT NULL DEFAULT now();
ALTER TABLE followers ALTER COLUMN wiped DROP DEFAULT;
ALTER TABLE followers ALTER COLUMN wiped TYPE bigint[] USING array_fill(wiped, ARRAY[64]);
ALTER TABLE followers ALTER COLUMN wiped SET DEFAULT array_fill(0::bigint, ARRAY[64]);
"""
MIGRATIONS: Final = (_FIRST, WORDS, _THIRD, _FOURTH)
"""What brings a database forward: the statements at place n make schema n + 1 out of schema n. None is ever changed."""


SCHEMA_VERSION: Final = len(MIGRATIONS)
OLDEST_SERVED: Final = 4
"""The oldest schema whose servers can go on with a database of this one: those of the version before, at an upgrade."""


VERSIONS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS schema_versions (version integer PRIMARY KEY, since timestamptz NOT NULL DEFAULT now());
ALTER TABLE schema_versions ADD COLUMN IF NOT EXISTS oldest_served integer;
"""
LOCK: Final = 0x6E6F_6D65_6D6F_7279
"""The advisory lock under which a database is brought forward: one server at a time."""


_OLDEST: Final = 140_000
"""PostgreSQL 14."""


_UNUSABLE: Final = """\
the message log in PostgreSQL (NOMEMORY_DATABASE_URL) cannot be used: {cause}."""
_IS_BEHIND: Final = "SELECT last_value < (SELECT max(sequence) FROM buckets) FROM log_sequence"
_TOO_OLD: Final = "it is PostgreSQL {version}, and 14 is the oldest that will do"
_ENCODING: Final = "its encoding is {encoding}, and only UTF8 holds every message"
_NOT_DURABLE: Final = "synchronous_commit is off for this role, so that a commit would not be durable"
_LATEST: Final = "SELECT version, oldest_served FROM schema_versions ORDER BY version DESC LIMIT 1"
_NOTE: Final = "INSERT INTO schema_versions (version, oldest_served) VALUES ($1, $2)"


async def bring_forward(database: Database) -> bool:
    """Check the database, and make the schema that this server knows out of whatever is there.

    Return whether what it acknowledges survives a failure of its machine.

    Raises:
        LogUnusableError: it cannot be reached, or cannot hold the log.
        LogVersionError: it has a schema that a later server made.
    """
    async with connected(database) as connection:
        is_safe = await _check(connection)
        await _migrate(connection)
    return is_safe


async def begin_epoch(database: Database) -> None:
    """Give the log a new epoch, durably: from now on its sequences mean other changes than they did to others.

    Raises:
        LogUnusableError: the database cannot be reached.
    """
    async with connected(database) as connection:
        await connection.execute("UPDATE log_state SET epoch = left(md5(gen_random_uuid()::text), 16)")


@asynccontextmanager
async def connected(database: Database) -> AsyncIterator[Connection]:
    """Open a connection, for what has to be done before a server starts.

    Raises:
        LogUnusableError: the database cannot be reached, or refuses.
    """
    try:
        connection = await database.connect()
        try:
            yield connection
        finally:
            connection.terminate()
    except ERRORS as error:
        raise LogUnusableError(_UNUSABLE.format(cause=error or type(error).__name__)) from error


async def _check(connection: Connection) -> bool:
    version, encoding, commit, fsync = await connection.fetchrow(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),"
        " current_setting('synchronous_commit'), current_setting('fsync')"
    ) or (0, "", "", "")
    if version < _OLDEST:
        raise LogUnusableError(_UNUSABLE.format(cause=_TOO_OLD.format(version=version // 10_000)))
    if encoding != "UTF8":
        raise LogUnusableError(_UNUSABLE.format(cause=_ENCODING.format(encoding=encoding)))
    if commit == "off":
        raise LogUnusableError(_UNUSABLE.format(cause=_NOT_DURABLE))
    return bool(fsync != "off")


async def _migrate(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(VERSIONS_TABLE)
        latest = await connection.fetchrow(_LATEST)
    version, oldest_served = latest or (0, None)
    if version > SCHEMA_VERSION < (oldest_served or version):
        raise LogVersionError(f"the log has schema {version}, this server knows {SCHEMA_VERSION}")
    for step in range(version, SCHEMA_VERSION):
        await _step(connection, step + 1)
    await _mend_sequence(connection)


async def _mend_sequence(connection: Connection) -> None:
    """Have numbers go on beyond all that were given out. A copy by logical replication has no state of a sequence."""
    if not await connection.fetchval(_IS_BEHIND):
        return
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM buckets ORDER BY bucket FOR UPDATE")  # nobody draws numbers meanwhile
        await connection.execute(f"SELECT setval('log_sequence', max(sequence)) FROM buckets WHERE ({_IS_BEHIND})")  # noqa: S608 - ours


async def _step(connection: Connection, to: int) -> None:
    """Make one schema of the one before, unless another server has done it meanwhile."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute("SET LOCAL statement_timeout = 0")
        if await connection.fetchval("SELECT 1 FROM schema_versions WHERE version = $1", to):
            return
        await connection.execute(MIGRATIONS[to - 1], timeout=LONG_S)
        await connection.execute(_NOTE, to, OLDEST_SERVED)
