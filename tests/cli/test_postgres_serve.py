"""Tests for a server with a PostgreSQL log: its startup line, and its status while the database is down."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from cli.command_line import Run
from postgres import NOT_INSTALLED, find_program_directory, fresh_schema, private_postgres
from server.fleet import command, environment, until

from nomemory.server.runtime.settings import Settings
from running_server import Server


def test_startup_line_names_the_database_without_its_password(postgres_url: str, tmp_path: Path) -> None:
    url = postgres_url.replace("nomemory@", "nomemory:a-secret@")
    with subprocess.Popen(
        command(), env=environment(tmp_path / "data", NOMEMORY_DATABASE_URL=url), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("NoMemory is serving at ")
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
    host, schema = re.findall(r"host=([^&]+)&search_path=(\w+)", url)[0]
    assert line == f"Message log: postgresql://{host}/postgres ({schema})\n"


def test_status_names_the_fault_while_the_database_is_down(
    run: Run, start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    if find_program_directory() is None:
        pytest.skip(NOT_INSTALLED)
    with (
        private_postgres() as database,
        start(own_settings.copy_with_changes(database_url=fresh_schema(database))) as server,
    ):
        status = ("status", "--target", server.target)
        assert run(*status).exit_code == 0
        database.stop()
        expected = re.compile(r"Active fault: message-log UNREACHABLE since 20\d\d-\d\d-\d\dT[\d:]+Z \(.+\)")
        assert until(lambda: expected.search(_output(run, *status)) is not None)
        database.start()
        assert until(lambda: run(*status).exit_code == 0)


def _output(run: Run, *arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code in {0, 1}
    return result.output.replace("\n", " ")
