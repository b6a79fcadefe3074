"""Create logs with the schemas of earlier versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from nomemory.server import wire
from nomemory.server.message import Message
from nomemory.server.store.checksums import compute_checksum

LOG_ID: Final = "0123456789abcdef0123456789abcdef"

FORMER: Final = (1, 2, 3)
"""The earlier schema versions."""

_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE messages (
  user_id TEXT NOT NULL,
  ts INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  role INTEGER NOT NULL,
  conversation_id TEXT NOT NULL,
  wire BLOB NOT NULL,
  PRIMARY KEY (user_id, ts, message_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX messages_by_id ON messages (user_id, message_id);
CREATE UNIQUE INDEX messages_by_seq ON messages (seq);
CREATE INDEX messages_by_conversation ON messages (user_id, conversation_id, ts, message_id)
  WHERE conversation_id <> '';
CREATE TABLE removals (
  seq INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  removed_seq INTEGER NOT NULL
);
CREATE TABLE embeddings (
  user_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  vector BLOB NOT NULL,
  UNIQUE (user_id, message_id)
);
CREATE TABLE users (
  user_id TEXT PRIMARY KEY,
  latest_seq INTEGER NOT NULL,
  messages INTEGER NOT NULL
) WITHOUT ROWID;
PRAGMA user_version=1;
"""
_SCHEMA_2: Final = """
ALTER TABLE messages ADD COLUMN expire_us INTEGER;
CREATE INDEX messages_by_expiry ON messages (expire_us) WHERE expire_us IS NOT NULL;
CREATE TABLE requests (
  user_id TEXT NOT NULL,
  digest BLOB NOT NULL,
  first_id BLOB NOT NULL,
  size INTEGER NOT NULL,
  PRIMARY KEY (user_id, digest)
) WITHOUT ROWID;
CREATE TABLE metadata_entries (
  user_id TEXT NOT NULL,
  mark BLOB NOT NULL,
  ts INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  PRIMARY KEY (user_id, mark, ts, message_id)
) WITHOUT ROWID;
INSERT INTO meta VALUES ('derived_ids', '1');
PRAGMA user_version=2;
"""
_SCHEMA_3: Final = """
ALTER TABLE messages ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
UPDATE messages SET crc = message_checksum(user_id, seq, wire);
PRAGMA user_version=3;
"""


def make_former_log(path: Path, user: str, messages: Iterable[Message], schema: int = 1) -> None:
    """Write a log with messages of one user that have no metadata."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode=WAL")
        file.executescript(_SCHEMA)
        file.execute("INSERT INTO meta VALUES ('log_id', ?)", (LOG_ID,))
        rows = [
            (user, m.ts_us, m.message_id, sequence, m.role.value, m.conversation_id, wire.encode(m))
            for sequence, m in enumerate(messages, 1)
        ]
        vectors = [
            (user, message.message_id, message.embedding) for message in messages if message.embedding is not None
        ]
        file.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        file.executemany("INSERT INTO embeddings VALUES (?, ?, ?)", vectors)
        file.execute("INSERT INTO users VALUES (?, ?, ?)", (user, len(rows), len(rows)))
        file.create_function("message_checksum", 3, compute_checksum)
        for script in (_SCHEMA_2, _SCHEMA_3)[: schema - 1]:
            file.executescript(script)
