"""A move goes on where it was, whenever it is killed, and misses nothing that was written meanwhile."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import grpc
import pytest
from cli.command_line import Run
from cli.moves import Move, Start, by_words, everything, fill_some, listed, many, rows_of, write
from postgres import PrivatePostgres, count, fresh_schema

from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.protocol import LogUnusableError
from nomemory.server.maintenance import move_database, move_file
from nomemory.server.maintenance.move_file import LogFile
from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from served import Server
from talk import said

both_ways = pytest.mark.parametrize("to_database", [True, False])


def kill_when(move: Move, is_reached: Callable[[], bool]) -> bool:
    """Run the command in a process, and kill it as soon as something holds; return whether it was not done before."""
    program = str(Path(sys.executable).with_name("nomemory"))
    command = [program, "migrate", "--from", move.source, "--to", move.target]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not is_reached() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    return process.wait(30) == -signal.SIGKILL


def copied(move: Move, postgres: PrivatePostgres) -> int:
    """Return how many messages there are where they are to be; -1 where there is no log yet."""
    try:
        if move.target.startswith("postgresql://"):
            return count(postgres, move.target, "messages")
        with closing(sqlite3.connect(f"file:{move.target}/log.db?mode=ro", uri=True)) as log:
            return int(log.execute("SELECT count(*) FROM messages").fetchone()[0])
    except (sqlite3.Error, subprocess.CalledProcessError):
        return -1


@both_ways
def test_whatever_moment_it_is_killed_at_it_goes_on_and_ends_the_same(
    run: Run, start: Start, own_settings: Settings, postgres: PrivatePostgres, *, to_database: bool
) -> None:
    move = Move.of(own_settings, fresh_schema(postgres), to_database=to_database)
    with start(move.former) as server:
        many(server, users=40)
    rows = rows_of(move.source)

    def has(least: int) -> Callable[[], bool]:
        return lambda: copied(move, postgres) >= least

    assert [kill_when(move, has(least)) for least in (0, 1, 1_500)] == [True] * 3
    with pytest.raises(LogUnusableError, match="unfinished copy of another log"), start(move.later):
        pass
    move.complete(run)
    assert rows_of(move.target) == rows
    with start(move.later) as server:
        assert len(listed(server, "user2")) == 98
        token = write(server, said("user2", "new", "zebra", ts=1)).write_token
        assert by_words(server, "user2", "zebra", token) == ["new"]


@both_ways
def test_between_the_switch_of_the_one_and_of_the_other_it_can_be_killed(
    run: Run,
    start: Start,
    own_settings: Settings,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    to_database: bool,
) -> None:
    move = Move.of(own_settings, postgres_url, to_database=to_database)
    with start(move.former) as server:
        fill_some(server)
    rows = rows_of(move.source)

    move.interrupt(run, monkeypatch, "finish")
    for settings in (move.former, move.later):
        with pytest.raises(LogUnusableError), start(settings):
            pass
    move.complete(run)
    assert rows_of(move.target) == rows
    assert move.run(run).exit_code == 1
    with start(move.later) as server:
        assert len(listed(server, "bob")) == 5


def test_the_index_of_words_of_a_moved_log_goes_whenever_it_is_killed(
    run: Run, start: Start, own_settings: Settings, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = Move.of(own_settings, postgres_url, to_database=True)
    with start(move.former) as server:
        fill_some(server)
    words = DataDirectory(move.former.server.data).lexical
    assert words.exists()

    mark_moved = LogFile.mark_moved

    async def is_marked_and_killed(log: LogFile) -> None:
        await mark_moved(log)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LogFile, "mark_moved", is_marked_and_killed)
        assert move.run(run).exit_code == 1
    move.complete(run)
    assert not words.exists()


@both_ways
def test_what_was_copied_is_copied_again_only_if_the_log_was_written_to_since(
    run: Run,
    start: Start,
    own_settings: Settings,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    to_database: bool,
) -> None:
    move, begun = Move.of(own_settings, postgres_url, to_database=to_database), list[object]()
    ends = move_database if to_database else move_file

    def begins(*copy: object) -> object:
        begun.append(copy[1])
        return begin_copy(*copy)

    begin_copy = ends.begin_copy
    monkeypatch.setattr(ends, "begin_copy", begins)
    with start(move.former) as server:
        many(server, users=4)
    for _ in range(2):
        move.interrupt(run, monkeypatch, "prepare")
    assert len(begun) == 1
    with start(move.former) as server:
        server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="user3", message_ids=["m1"]))
        fill_some(server)
    move.interrupt(run, monkeypatch, "prepare")
    with start(move.former) as server:
        before = everything(server)
    rows = rows_of(move.source)
    move.complete(run)
    assert (len(begun), rows_of(move.target)) == (2, rows)
    with start(move.later) as server:
        assert everything(server) == before


def test_what_a_server_of_the_database_acknowledged_meanwhile_is_moved(
    run: Run, start: Start, own_settings: Settings, postgres_url: str
) -> None:
    move, acknowledged = Move.of(own_settings, postgres_url, to_database=False), list[str]()
    with start(move.former) as server:
        many(server, users=4)
        writer = threading.Thread(target=write_until_refused, args=(server, acknowledged))
        writer.start()
        move.complete(run)
        writer.join()
    with start(move.later) as server:
        assert set(acknowledged) <= set(listed(server, "ann"))


def write_until_refused(server: Server, acknowledged: list[str]) -> None:
    """Write one message after the other, and note those that were acknowledged."""
    with suppress(grpc.RpcError):
        for turn in range(400):
            write(server, said("ann", f"m{turn}", f"turn {turn}", ts=turn))
            acknowledged.append(f"m{turn}")
