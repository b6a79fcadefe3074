"""Tests for migrations that are killed and run again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from cli.command_line import Run
from cli.message_logs import (
    Start,
    fill_many,
    fill_some,
    lexical_search,
    listed_ids,
    rows_of_database,
    rows_of_directory,
    write,
)
from postgres import PrivatePostgres, execute_statement, fetch_rows, fresh_schema

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.server.store import migration
from nomemory.server.store.errors import LogUnusableError


def kill_when(data: str, url: str, is_reached: Callable[[], bool]) -> bool:
    """Kill the command in a process when a condition is met; return whether it was still running."""
    program = shutil.which("nomemory") or f"{sys.prefix}/bin/nomemory"
    process = subprocess.Popen([program, "migrate", data, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not is_reached() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    return process.wait(30) == -signal.SIGKILL


@contextmanager
def slow_inserts(postgres: PrivatePostgres, schema: str) -> Iterator[None]:
    """Slow the copy down to one millisecond per message, so that a test can observe it."""
    execute_statement(
        postgres,
        f"""
        CREATE FUNCTION "{schema}".wait() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$;
        CREATE TRIGGER slow BEFORE INSERT ON "{schema}".messages FOR EACH ROW EXECUTE FUNCTION "{schema}".wait()
        """,
    )
    yield
    execute_statement(postgres, f'DROP TRIGGER slow ON "{schema}".messages')


def is_copying(postgres: PrivatePostgres, schema: str) -> bool:
    """Return whether a migration is copying messages; unlike a read of the table, this does not wait for its locks."""
    return fetch_rows(
        postgres,
        f"""
        SELECT count(*) > 0 FROM pg_locks
          JOIN pg_class ON pg_class.oid = pg_locks.relation AND relname = 'messages'
          JOIN pg_stat_activity USING (pid)
        WHERE relnamespace = '"{schema}"'::regnamespace AND query LIKE 'COPY %'
        """,  # noqa: S608 - ours
    ) == [(True,)]


def test_migration_killed_at_any_moment_can_be_rerun(
    run: Run, start: Start, own_settings: Settings, postgres: PrivatePostgres
) -> None:
    data, url = own_settings.server.data, fresh_schema(postgres)
    with start(own_settings) as server:
        fill_many(server, users=40)
    rows = rows_of_directory(data)
    schema = url.partition("search_path=")[2]
    has_tables = f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}' AND tablename = 'index_aside'"  # noqa: S608 - ours
    assert kill_when(str(data), url, lambda: True)
    assert kill_when(str(data), url, lambda: fetch_rows(postgres, has_tables) == [(1,)])
    with slow_inserts(postgres, schema):
        assert kill_when(str(data), url, lambda: is_copying(postgres, schema))
    migrated = run("migrate", str(data), url)
    assert migrated.exit_code == 0, migrated.output
    assert rows_of_database(url) == rows
    with start(own_settings.copy_with_changes(database_url=url)) as server:
        token = write(server, new_message("user2", "new", "zebra", ts=1)).write_token
        assert lexical_search(server, "user2", "zebra", token) == ["new"]


@pytest.mark.parametrize("is_committed", [False, True])
def test_migration_killed_at_its_commit_is_completed_by_the_next_run(
    run: Run,
    start: Start,
    own_settings: Settings,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_committed: bool,
) -> None:
    data = own_settings.server.data
    with start(own_settings) as server:
        fill_some(server)
    rows = rows_of_directory(data)

    def kill(_vectors: object) -> None:
        raise KeyboardInterrupt

    if is_committed:
        assert run("migrate", str(data), postgres_url).exit_code == 0
    else:
        with monkeypatch.context() as patched:
            patched.setattr(migration, "split_backlogs_into_buckets", kill)  # the last step before the commit
            assert run("migrate", str(data), postgres_url).exit_code == 1
    with pytest.raises(LogUnusableError, match="was interrupted, run it again"), start(own_settings):
        pass
    migrated = run("migrate", str(data), postgres_url)
    assert (migrated.exit_code, "already migrated" in migrated.output) == (0, is_committed)
    assert rows_of_database(postgres_url) == rows
    with start(own_settings.copy_with_changes(database_url=postgres_url)) as server:
        assert len(listed_ids(server, "bob")) == 5
