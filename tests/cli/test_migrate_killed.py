"""Tests for migrations that are killed and run again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

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
from postgres import PrivatePostgres, fetch_rows, fresh_schema

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


def test_migration_killed_at_any_moment_can_be_rerun(
    run: Run, start: Start, own_settings: Settings, postgres: PrivatePostgres
) -> None:
    data, url = own_settings.server.data, fresh_schema(postgres)
    with start(own_settings) as server:
        fill_many(server, users=40)
    rows = rows_of_directory(data)
    schema = url.partition("search_path=")[2]
    has_tables = f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}' AND tablename = 'index_aside'"  # noqa: S608 - ours
    is_copying = f"SELECT pg_relation_size('\"{schema}\".messages')"

    moments: list[Callable[[], bool]] = [
        lambda: True,
        lambda: fetch_rows(postgres, has_tables) == [(1,)],
        lambda: fetch_rows(postgres, is_copying) > [(0,)],
    ]
    assert [kill_when(str(data), url, moment) for moment in moments] == [True] * 3
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
