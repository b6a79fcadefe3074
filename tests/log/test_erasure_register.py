"""The register of erasures: its entries, its file, and the messages of a restored log that an entry affects."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from log.engine import Engine, Log, PostgresEngine
from log.test_message_log import new_message

from nomemory.server.message_filter import Filter
from nomemory.server.store.erasure_register import (
    MESSAGE,
    USER,
    EpochStart,
    ErasureEntry,
    RegisterError,
    RegisterKey,
    find_last_affected_sequence,
)
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.erasure_register import DIGEST_OF_MESSAGE, DIGEST_OF_USER
from nomemory.server.store.postgres.erasure_register import read_erasures as read_postgres_erasures
from nomemory.server.store.register_file import read_register, write_register
from nomemory.server.store.sqlite.erasure_register import read_erasures

KEY = RegisterKey.from_log_id("0123456789abcdef")
FIRST, SECOND, THIRD = EpochStart("", 0, 0), EpochStart("e1", 10, 1_000), EpochStart("e2", 30, 2_000)
ERASURES = [
    ErasureEntry(KEY.compute_user_digest("u"), USER, "", 7, 1_750_000_000_123_456),
    ErasureEntry(KEY.compute_message_digest("v", "m"), MESSAGE, "e1", 9, 1_750_000_000_000_001),
]


async def build_metadata_rows(engine: Engine, directory: Path) -> dict[bytes, ErasureEntry]:
    """Return the register of a log by digest."""
    if isinstance(engine, PostgresEngine):
        connection = await engine.database(directory).connect()
        async with connection.transaction():
            entries = [erasure async for erasure in read_postgres_erasures(connection)]
        connection.terminate()
    else:
        with closing(sqlite3.connect(directory / "log.db")) as file:
            entries = list(read_erasures(file))
    return {entry.digest: entry for entry in entries}


async def test_deletions_and_erasures_are_registered_and_replacements_are_not(
    engine: Engine, log: Log, tmp_path: Path
) -> None:
    await log.write(*(new_message(name, message_id=name, ts_us=at) for at, name in enumerate("abcd", 1)))
    await log.write(new_message("x", message_id="x", ts_us=1, user="v"))
    key = RegisterKey.from_log_id((await log.reader.read_identity()).log_id)
    await log.writer.delete("u", ["a", "unknown"])
    await log.writer.delete_matching("u", Filter(since_us=3, until_us=4))
    entries = await build_metadata_rows(engine, tmp_path)
    assert entries.keys() == {key.compute_message_digest("u", "a"), key.compute_message_digest("u", "c")}
    await log.writer.erase("v")
    await log.writer.erase("nobody")
    entries = await build_metadata_rows(engine, tmp_path)
    assert {(entry.digest, entry.kind) for entry in entries.values() if entry.kind == USER} == {
        (key.compute_user_digest("v"), USER),
        (key.compute_user_digest("nobody"), USER),
    }
    assert all(entry.epoch == "" for entry in entries.values())


async def test_entry_sequence_is_between_erased_and_later_messages(engine: Engine, log: Log, tmp_path: Path) -> None:
    key = RegisterKey.from_log_id((await log.reader.read_identity()).log_id)
    for erase in (
        lambda: log.writer.delete("u", ["a"]),
        lambda: log.writer.delete_matching("u", Filter(since_us=0)),
        lambda: log.writer.erase("u"),
    ):
        await log.write(new_message("a", message_id="a", ts_us=1))
        before = (await log.reader.read_messages("u", ["a"]))["a"].sequence
        await erase()
        await log.write(new_message("a", message_id="a", ts_us=1))
        after = (await log.reader.read_messages("u", ["a"]))["a"].sequence
        latest = max(entry.sequence for entry in (await build_metadata_rows(engine, tmp_path)).values())
        assert before < latest < after
    assert len(await build_metadata_rows(engine, tmp_path)) == 2  # the message and the user
    assert key.compute_message_digest("u", "a") in await build_metadata_rows(engine, tmp_path)


@pytest.mark.parametrize(
    ("erasure", "epochs", "affected"),
    [
        (("", 7, 500), [FIRST], 7),
        (("", 7, 500), [FIRST, SECOND], 7),
        (("", 25, 900), [FIRST, SECOND], 10),  # erased after the backup, which ends at 10
        (("e1", 25, 1_500), [FIRST, SECOND, THIRD], 25),
        (("e1", 45, 1_500), [FIRST, SECOND, THIRD], 30),
        (("e1", 45, 1_500), [FIRST, THIRD], 30),  # an epoch unknown to this log
    ],
)
def test_an_erasure_affects_messages_of_the_time_before_it(
    erasure: tuple[str, int, int], epochs: list[EpochStart], affected: int
) -> None:
    assert find_last_affected_sequence(ErasureEntry(b"", USER, *erasure), epochs, 100) == affected


@pytest.mark.parametrize(("epoch", "sequence"), [("", 25), ("e1", 5)])
def test_a_restored_log_without_a_new_epoch_is_rejected(epoch: str, sequence: int) -> None:
    with pytest.raises(RegisterError, match="doctor --accept-loss"):
        find_last_affected_sequence(ErasureEntry(b"", USER, epoch, sequence, 1_500), [FIRST], 10)


def test_ids_of_different_kinds_and_logs_have_different_digests() -> None:
    assert KEY.compute_user_digest("u") != KEY.compute_message_digest("u", "")
    assert KEY.compute_user_digest("u") != RegisterKey.from_log_id("another").compute_user_digest("u")
    assert KEY.compute_message_digest("ab", "c") != KEY.compute_message_digest("a", "bc")


def test_register_file_round_trips_its_entries(tmp_path: Path) -> None:
    path = tmp_path / "erasures.jsonl"
    assert write_register(path, KEY, 1_000_001, ERASURES, 1_750_000_001_000_000) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    register = read_register(path, KEY)
    assert list(register.read_erasures()) == ERASURES
    assert (register.since_us, register.exported_us, register.entries) == (1_000_001, 1_750_000_001_000_000, 2)


def test_a_damaged_register_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "erasures.jsonl"
    write_register(path, KEY, 0, ERASURES, 1)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    damaged = [
        *(lines[:-1], lines[:1], [lines[0], *lines[2:]], [*lines, lines[1]]),
        [content.replace(b'"sequence":7', b'"sequence":8')],
        [content.replace(b'"kind":"user"', b'"kind":"users"')],
        [content[:-20]],
    ]
    for parts in damaged:
        path.write_bytes(b"".join(parts))
        with pytest.raises(RegisterError, match="damaged or incomplete"):
            read_register(path, KEY)
    path.write_bytes(content.replace(b'{"format":1', b'{"format":2'))
    with pytest.raises(RegisterError, match="newer version"):
        read_register(path, KEY)
    for text in (b"", b"[]", b"{}", b"not JSON", content[:10]):
        path.write_bytes(text)
        with pytest.raises(RegisterError, match="is not a register of erasures"):
            read_register(path, KEY)


def test_the_register_of_another_log_is_rejected(tmp_path: Path) -> None:
    write_register(tmp_path / "erasures.jsonl", KEY, 0, ERASURES, 1)
    with pytest.raises(RegisterError, match="another message log"):
        read_register(tmp_path / "erasures.jsonl", RegisterKey.from_log_id("another"))


async def test_postgresql_computes_the_same_digests(postgres_url: str) -> None:
    connection = await Database(postgres_url).connect()
    for user, message in (("u", "m"), ("größe\\000", "愛"), ("a", "")):
        row = await connection.fetchrow(
            f"SELECT {DIGEST_OF_USER} AS u, {DIGEST_OF_MESSAGE} AS m"  # noqa: S608 - ours
            " FROM (SELECT $3::text AS user_id, $4::text AS message_id) AS ids",
            *KEY.hmac_pads,
            user,
            message,
        )
        assert row is not None
        assert tuple(row) == (KEY.compute_user_digest(user), KEY.compute_message_digest(user, message))
    connection.terminate()
