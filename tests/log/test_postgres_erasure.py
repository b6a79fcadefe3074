"""Removals in a PostgreSQL log are deleted when the indexes of all servers have erased them."""

from __future__ import annotations

from pathlib import Path

import pytest
from log.engine import PostgresEngine
from postgres import PrivatePostgres

from nomemory.server.message import Message, Role
from nomemory.server.store.buckets import BUCKETS, compute_bucket
from nomemory.server.store.errors import LogUnusableError
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import Checkpoint
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.erasure import PostgresLogErasure
from nomemory.server.store.postgres.followers import load_follower_name, register_follower
from nomemory.server.store.postgres.schema import upgrade_schema
from nomemory.server.store.results import PendingRemovals


async def test_a_removal_is_deleted_when_all_servers_have_erased_it(postgres: PrivatePostgres, tmp_path: Path) -> None:
    engine = PostgresEngine(postgres)
    log, database = await engine(tmp_path), engine.database(tmp_path)
    servers = [PostgresLogErasure(database, name) for name in ("one", "other")]
    for name in ("one", "other"):
        await register_follower(database, name, None)
    await log.write(*(Message("u", f"{n}", n, Role.USER, "x") for n in range(5)))
    written = await log.reader.read_sequence()
    versions = await log.reader.read_messages("u", ["1", "2", "3"])
    last = (await log.writer.delete("u", ["1", "2", "3"])).sequence
    latest = FeedPosition(tuple(last if bucket == compute_bucket("u") else 0 for bucket in range(BUCKETS)))
    for server in servers:
        assert await server.read_pending_removals(3) == PendingRemovals(latest, are_many=True)
        assert await server.read_pending_removals(4) == PendingRemovals(latest, are_many=False)
    assert await servers[0].delete_removals(latest, 2) is False
    assert await servers[0].read_pending_removals(1) is None
    assert await servers[1].read_pending_removals(1) == PendingRemovals(latest, are_many=True)
    assert [change.removed_sequence for change in log.feed.read_changes(written, 9)] == [
        versions[name].sequence for name in "123"
    ]
    assert await servers[1].delete_removals(latest, 2) is True
    assert await servers[1].delete_removals(latest, 2) is False
    assert log.feed.read_changes(written, 9) == []
    assert await servers[0].overwrite_unused_bytes(0, 10) is None
    assert len(await log.everything()) == 2
    for server in servers:
        await server.close()
    await log.close()


async def test_an_erased_user_leaves_no_rows(postgres: PrivatePostgres, tmp_path: Path) -> None:
    engine = PostgresEngine(postgres)
    log, database = await engine(tmp_path), engine.database(tmp_path)
    await register_follower(database, "one", None)
    await log.write_nameless(Message("u", "", 1, Role.USER, "x", "", "c", {"k": "v"}, b"\0\0\0\0"), request_id="r")
    erased = await log.writer.erase("u")
    server = PostgresLogErasure(database, "one")
    await server.delete_removals(FeedPosition.from_sequence(erased.sequence), 100)
    connection = await database.connect()
    tables = ("messages", "metadata_entries", "embeddings", "removals", "users", "requests")
    left = {table: await connection.fetchval(f"SELECT count(*) FROM {table}") for table in tables}  # noqa: S608 - ours
    assert left == dict.fromkeys(tables, 0)
    connection.terminate()
    await server.close()
    await log.close()


async def test_an_unregistered_follower_is_rejected(postgres_url: str, tmp_path: Path) -> None:
    database = Database(postgres_url)
    await upgrade_schema(database)
    name = load_follower_name(tmp_path / "follower")
    assert load_follower_name(tmp_path / "follower") == name
    await register_follower(database, name, None)
    connection = await database.connect()
    log_id = await connection.fetchval("SELECT log_id FROM log_state")
    await register_follower(database, name, Checkpoint(log_id, 7))
    await connection.execute("DELETE FROM followers")
    connection.terminate()
    with pytest.raises(LogUnusableError, match=name):
        await register_follower(database, name, Checkpoint(log_id, 7))
    await register_follower(database, name, Checkpoint("another log", 7))


async def test_inactive_servers_without_indexes_do_not_keep_removals(postgres: PrivatePostgres, tmp_path: Path) -> None:
    engine = PostgresEngine(postgres)
    log, database = await engine(tmp_path), engine.database(tmp_path)
    names = ("lasting", "stopped", "lost")
    for name in names:
        await register_follower(database, name, None, is_lasting=name == "lasting")
    lasting, stopped, lost = (PostgresLogErasure(database, name, is_lasting=name == "lasting") for name in names)
    await log.write(Message("u", "m", 1, Role.USER, "x"))
    until = FeedPosition.from_sequence((await log.writer.delete("u", ["m"])).sequence)
    await lasting.delete_removals(until, 10)
    assert await lost.read_pending_removals(1) is not None, "the removal waits for the follower"
    await stopped.close()
    connection = await database.connect()
    await connection.execute("UPDATE followers SET seen = now() - interval '2 days'")
    await lasting.delete_removals(until, 10)
    assert await connection.fetchval("SELECT count(*) FROM removals") == 0
    assert [row["name"] for row in await connection.fetch("SELECT name FROM followers")] == ["lasting"]
    connection.terminate()
    record = Checkpoint((await log.reader.read_identity()).name, 1)
    await register_follower(database, "lost", record, is_lasting=False)  # it has no index that missed removals
    for server in (lasting, lost):
        await server.close()
    await log.close()
