"""The PostgreSQL schema of the message log, and its upgrades.

The tables correspond to those in `sqlite/schema`, with these differences:

- Keys of tables with user data begin with the bucket of the user (`compute_bucket`).
- `messages` contains the lexical index: the column `keys` has hashes of tokens and terms, and the column `tokens` has
  the tokens and terms themselves for exact checks (`token_columns`).
- `log_state` has a single row, with the identity of the message log.
- `followers` lists the servers whose indexes follow the message log, and the position up to which each has erased
  removed messages. A removal record is deleted when all followers have erased the message. For a server without local
  indexes, `is_lasting` is false, and the row is deleted a day after `seen`, the time of its last update.
- `buckets` has the latest sequence number and the latest generated id of each bucket. A writer locks the rows of the
  affected buckets in ascending order, then allocates sequence numbers from `log_sequence`, and holds the locks until
  the commit. Sequence numbers are therefore unique, and the changes of a bucket become visible in order. Changes in
  different buckets may become visible out of order.
- `index_collections` lists the vector indexes that several servers share on a Qdrant server, and the message log that
  each follows. `index_buckets` has the checkpoint and the leader for each bucket, `index_members` the servers that use
  the index, `index_users` the users whose checkpoint is ahead of their bucket, and `index_aside` the dead letters.
- `erasures` and `epochs` have no bucket, because their rows do not contain a user id.

Text columns have the collation "C", so they are ordered by their bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from nomemory.server.store.errors import LogUnusableError, LogVersionError
from nomemory.server.store.postgres.connections import ERRORS, LONG_TIMEOUT_S, Database

if TYPE_CHECKING:
    from nomemory.server.store.postgres.connections import Connection


_SCHEMA_1: Final = """
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
LEXICAL_INDEX: Final = (
    "CREATE INDEX IF NOT EXISTS messages_by_words ON messages USING gin (keys) WITH (fastupdate = off)"
)
_SCHEMA_3: Final = """
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
_SCHEMA_4: Final = """
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
_SCHEMA_5: Final = """
CREATE TABLE erasures (
  digest bytea PRIMARY KEY,
  kind text NOT NULL,
  epoch text NOT NULL,
  sequence bigint NOT NULL,
  erased_us bigint NOT NULL
);
CREATE TABLE epochs (
  number integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  epoch text NOT NULL,
  sequence bigint NOT NULL,
  began_us bigint NOT NULL
);
INSERT INTO epochs (epoch, sequence, began_us)
  SELECT epoch, 0, (extract(epoch FROM now()) * 1000000)::bigint FROM log_state;
"""
MIGRATIONS: Final = (_SCHEMA_1, LEXICAL_INDEX, _SCHEMA_3, _SCHEMA_4, _SCHEMA_5)
"""Schema upgrades. The statements at index n upgrade schema n to schema n + 1. They must never be changed."""


SCHEMA_VERSION: Final = len(MIGRATIONS)
OLDEST_SERVED: Final = 5
"""The oldest schema whose servers can use a database of this schema, for rolling upgrades. Servers of schema 4 do not
record erasures."""


VERSIONS_TABLE: Final = """
CREATE TABLE IF NOT EXISTS schema_versions (version integer PRIMARY KEY, since timestamptz NOT NULL DEFAULT now());
ALTER TABLE schema_versions ADD COLUMN IF NOT EXISTS oldest_served integer;
"""
LOCK: Final = 0x6E6F_6D65_6D6F_7279
"""The advisory lock that serializes schema upgrades."""


_OLDEST: Final = 140_000
"""The oldest supported version: PostgreSQL 14."""


_UNUSABLE: Final = """\
the message log in PostgreSQL (NOMEMORY_DATABASE_URL) cannot be opened: {cause}."""
_IS_BEHIND: Final = "SELECT last_value < (SELECT max(sequence) FROM buckets) FROM log_sequence"
_TOO_OLD: Final = "PostgreSQL {version} is too old; use version 14 or later"
_ENCODING: Final = "the database encoding is {encoding}; use UTF8"
_NOT_DURABLE: Final = "synchronous_commit is off for this role, so commits are not durable; turn it on"
_BEGIN_EPOCH: Final = """
WITH state AS (
  UPDATE log_state SET epoch = left(md5(gen_random_uuid()::text), 16) RETURNING epoch
)
INSERT INTO epochs (epoch, sequence, began_us)
  SELECT state.epoch, CASE WHEN is_called THEN last_value ELSE 0 END, (extract(epoch FROM now()) * 1000000)::bigint
  FROM state, log_sequence
"""
_LATEST: Final = "SELECT version, oldest_served FROM schema_versions ORDER BY version DESC LIMIT 1"
_INSERT_VERSION: Final = "INSERT INTO schema_versions (version, oldest_served) VALUES ($1, $2)"


async def upgrade_schema(database: Database) -> bool:
    """Check the database, create or upgrade its schema, and return whether commits are durable (`fsync`).

    Raises:
        LogUnusableError: the database is unavailable or unsuitable.
        LogVersionError: the schema was created by a newer version.
    """
    async with open_connection(database) as connection:
        is_durable = await _check_server(connection)
        await _migrate_schema(connection)
    return is_durable


async def begin_epoch(database: Database) -> None:
    """Start a new epoch of the message log durably; followers of the previous epoch have to start over.

    Raises:
        LogUnusableError: the database is unavailable.
    """
    async with open_connection(database) as connection:
        await connection.execute(_BEGIN_EPOCH)


@asynccontextmanager
async def open_connection(database: Database) -> AsyncIterator[Connection]:
    """Open a connection for startup or offline work, and translate its errors.

    Raises:
        LogUnusableError: the database is unavailable or rejects a statement.
    """
    try:
        connection = await database.connect()
        try:
            yield connection
        finally:
            connection.terminate()
    except ERRORS as error:
        raise LogUnusableError(_UNUSABLE.format(cause=error or type(error).__name__)) from error


async def _check_server(connection: Connection) -> bool:
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


async def _migrate_schema(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute(VERSIONS_TABLE)
        latest = await connection.fetchrow(_LATEST)
    version, oldest_served = latest or (0, None)
    if version > SCHEMA_VERSION < (oldest_served or version):
        raise LogVersionError(
            f"the message log has schema {version}, but this server supports only schemas up to {SCHEMA_VERSION}; "
            "use a newer server"
        )
    for current in range(version, SCHEMA_VERSION):
        await _upgrade_to(connection, current + 1)
    await _advance_sequence(connection)


async def _advance_sequence(connection: Connection) -> None:
    """Advance `log_sequence` past all assigned sequence numbers, because logical replication omits its state."""
    if not await connection.fetchval(_IS_BEHIND):
        return
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM buckets ORDER BY bucket FOR UPDATE")  # blocks writers
        await connection.execute(f"SELECT setval('log_sequence', max(sequence)) FROM buckets WHERE ({_IS_BEHIND})")  # noqa: S608 - no user input


async def _upgrade_to(connection: Connection, version: int) -> None:
    """Upgrade the schema by one version, unless another server has already upgraded it."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        await connection.execute("SET LOCAL statement_timeout = 0")
        if await connection.fetchval("SELECT 1 FROM schema_versions WHERE version = $1", version):
            return
        await connection.execute(MIGRATIONS[version - 1], timeout=LONG_TIMEOUT_S)
        await connection.execute(_INSERT_VERSION, version, OLDEST_SERVED)
