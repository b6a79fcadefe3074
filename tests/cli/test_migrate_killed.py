"""A move goes on where it was, whenever it is killed, and misses nothing that a server writes meanwhile."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli.conftest import Run
from cli.moves import Move, Start, by_words, everything, fill_some, listed, many, rows_of, write
from postgres import PrivatePostgres, count, fresh_schema

from conftest import Server
from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.protocol import LogUnusableError
from nomemory.server.log.sqlite.move import mark_moved
from nomemory.server.maintenance import file_ends
from nomemory.server.maintenance.database_ends import DatabaseTarget
from nomemory.server.maintenance.file_ends import FileTarget
from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
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
    move.switch(run)
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

    async def is_killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DatabaseTarget if to_database else FileTarget, "finish", is_killed)
        assert move.run(run, "--switch").exit_code == 1
    for settings in (move.former, move.later):
        with pytest.raises(LogUnusableError), start(settings):
            pass
    move.switch(run)
    assert rows_of(move.target) == rows
    assert move.run(run, "--switch").exit_code == 1
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

    def is_marked_and_killed(log: Path) -> None:
        mark_moved(log)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(file_ends, "mark_moved", is_marked_and_killed)
        assert move.run(run, "--switch").exit_code == 1
    move.switch(run)
    assert not words.exists()


@both_ways
def test_a_server_writes_meanwhile_and_nothing_of_it_is_missing(
    run: Run, start: Start, own_settings: Settings, postgres_url: str, *, to_database: bool
) -> None:
    move, stop = Move.of(own_settings, postgres_url, to_database=to_database), threading.Event()
    with start(move.former) as server:
        many(server, users=4)
        writer = threading.Thread(target=keep_changing, args=(server, stop))
        writer.start()
        outcomes = [move.run(run).exit_code for _ in range(3)]
        stop.set()
        writer.join()
        before = everything(server)
    assert outcomes == [0, 0, 0]
    move.switch(run)
    with start(move.later) as server:
        assert everything(server) == before


def keep_changing(server: Server, stop: threading.Event) -> None:
    """Write, replace, delete and erase until told to stop."""
    turn = 0
    while not stop.is_set():
        turn += 1
        user = f"user{turn % 4}"
        write(server, *(said(user, "", f"turn {turn}", ts=turn, embedding=(1.0, 0, 0, turn)) for _ in range(3)))
        again = said(user, f"m{turn % 100}", f"replaced in turn {turn}", ts=turn)
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[again], replace=True))
        server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=[f"m{turn * 7 % 100}"]))
        if turn % 20 == 0:
            server.ingest.EraseUser(i.EraseUserRequest(user_id=user))
