"""The SQL statements of a commit in PostgreSQL. Each statement processes many rows, which saves round trips."""

from __future__ import annotations

from typing import Final

BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""READ COMMITTED lets statements see commits that happened while the transaction waited for a lock."""

LOCK_BUCKETS: Final = """
WITH locked AS MATERIALIZED (
  SELECT bucket, sequence, last_id FROM buckets WHERE bucket = ANY(?::smallint[]) ORDER BY bucket FOR UPDATE
), held AS MATERIALIZED (
  SELECT count(*) AS locks, array_agg(bucket) AS buckets, array_agg(sequence) AS sequences, array_agg(last_id) AS ids
  FROM locked
)
SELECT buckets, sequences, ids,
  ARRAY(SELECT nextval('log_sequence') FROM generate_series(1, CASE WHEN locks > 0 THEN ?::integer END))
FROM held
"""
"""Lock buckets and allocate sequence numbers.

The CASE expression depends on the locks, so sequence numbers are allocated only after all locks are held.
"""

EXISTING: Final = """
SELECT {live} AS lives, messages.user_id, messages.message_id, messages.ts_us, messages.sequence, messages.wire,
  e.vector
FROM unnest(?::smallint[], ?::text[], ?::text[]) AS wanted(bucket, user_id, message_id)
JOIN messages USING (bucket, user_id, message_id)
LEFT JOIN embeddings AS e USING (bucket, user_id, message_id)
"""

REQUESTS: Final = """
SELECT user_id, digest, first_id, size
FROM unnest(?::smallint[], ?::text[], ?::bytea[]) AS wanted(bucket, user_id, digest)
JOIN requests USING (bucket, user_id, digest)
"""

_DELETE_RELATED: Final = """entries AS (
  DELETE FROM metadata_entries AS e USING gone AS g
  WHERE (e.bucket, e.user_id, e.message_id) = (g.bucket, g.user_id, g.message_id)
), vectors AS (
  DELETE FROM embeddings AS e USING gone AS g
  WHERE (e.bucket, e.user_id, e.message_id) = (g.bucket, g.user_id, g.message_id)
)"""

REMOVE: Final = f"""
WITH gone AS MATERIALIZED (
  SELECT * FROM unnest(?::smallint[], ?::text[], ?::text[]) AS wanted(bucket, user_id, message_id)
), {_DELETE_RELATED}
DELETE FROM messages AS m USING gone AS g
WHERE (m.bucket, m.user_id, m.message_id) = (g.bucket, g.user_id, g.message_id)
"""  # noqa: S608 - no user input

REMOVE_WHERE: Final = f"""
WITH gone AS (
  DELETE FROM messages WHERE {{condition}} RETURNING bucket, user_id, message_id, sequence
), marked AS (
  INSERT INTO removals (bucket, sequence, user_id, message_id, removed_sequence)
  SELECT bucket, nextval('log_sequence'), user_id, message_id, sequence
  FROM (SELECT * FROM gone ORDER BY sequence) AS in_order
  RETURNING sequence
), {_DELETE_RELATED}
SELECT count(*), max(sequence) FROM marked
"""  # noqa: S608 - as above

WRITE_ROWS: Final = """
WITH marked AS (
  INSERT INTO removals (bucket, sequence, user_id, message_id, removed_sequence)
  SELECT * FROM unnest(?::smallint[], ?::bigint[], ?::text[], ?::text[], ?::bigint[])
), entries AS (
  INSERT INTO metadata_entries (bucket, user_id, mark, ts_us, message_id)
  SELECT * FROM unnest(?::smallint[], ?::text[], ?::bytea[], ?::bigint[], ?::text[])
), vectors AS (
  INSERT INTO embeddings (bucket, user_id, message_id, vector)
  SELECT * FROM unnest(?::smallint[], ?::text[], ?::text[], ?::bytea[])
), counted AS (
  INSERT INTO users AS u (bucket, user_id, latest_sequence, messages)
  SELECT * FROM unnest(?::smallint[], ?::text[], ?::bigint[], ?::bigint[])
  ON CONFLICT (bucket, user_id) DO UPDATE
  SET latest_sequence = excluded.latest_sequence, messages = u.messages + excluded.messages
), remembered AS (
  INSERT INTO requests (bucket, user_id, digest, first_id, size)
  SELECT * FROM unnest(?::smallint[], ?::text[], ?::bytea[], ?::bytea[], ?::integer[])
)
UPDATE buckets AS b SET sequence = n.sequence, last_id = n.last_id
FROM unnest(?::smallint[], ?::bigint[], ?::bytea[]) AS n(bucket, sequence, last_id) WHERE b.bucket = n.bucket
"""
"""Write all rows of a commit except messages, which are inserted with COPY."""

EXPIRED: Final = "SELECT user_id, message_id FROM messages WHERE expire_us <= ? ORDER BY expire_us LIMIT ?"
NEXT_USERS: Final = (
    "SELECT max(user_id) FROM (SELECT user_id FROM users WHERE user_id > ? ORDER BY user_id LIMIT ?) AS next"
)
TOO_OLD: Final = """
SELECT m.user_id, m.message_id FROM users AS u JOIN messages AS m USING (bucket, user_id)
WHERE m.ts_us <= ? AND u.user_id > ? AND u.user_id <= ? LIMIT ?
"""

FORGET_REQUESTS: Final = "DELETE FROM requests WHERE bucket = ? AND user_id = ?"
KNOWN_USER: Final = "SELECT 1 FROM users WHERE bucket = ? AND user_id = ?"
