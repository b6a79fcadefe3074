"""A private PostgreSQL server for the tests, with a new schema on request.

The first test that needs it starts it. The workers of one run share it, and the last one stops it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nomemory.server.runtime.secure_files import file_lock
from nomemory.server.store.postgres.connections import Database
from proofs.private_postgres import (
    NOT_INSTALLED,
    PrivatePostgres,
    create_postgres,
    execute_statement,
    fetch_rows,
    find_program_directory,
    private_postgres,
    remove_postgres,
)

if TYPE_CHECKING:
    import asyncpg

__all__ = [
    "NOT_INSTALLED",
    "PrivatePostgres",
    "count",
    "execute_statement",
    "fetch_rows",
    "find_program_directory",
    "fresh_schema",
    "private_postgres",
    "schema_url",
    "shared_postgres",
    "statements_of",
]


@contextmanager
def shared_postgres(meeting_place: Path) -> Iterator[PrivatePostgres]:
    """Run a server shared by all users of a directory until the last of them exits."""
    meeting_place.mkdir(parents=True, exist_ok=True)
    state = meeting_place / "postgres"
    with file_lock(state):
        process_count, _, root = state.read_text().partition(" ") if state.exists() else ("0", "", "")
        server = PrivatePostgres(Path(root)) if root else create_postgres()
        if not root:
            server.start()
        state.write_text(f"{int(process_count) + 1} {server.root}")
    try:
        yield server
    finally:
        with file_lock(state):
            remaining_count = int(state.read_text().partition(" ")[0]) - 1
            if remaining_count:
                state.write_text(f"{remaining_count} {server.root}")
            else:
                state.unlink()
                remove_postgres(server)


def fresh_schema(server: PrivatePostgres) -> str:
    """Return the URL of a new schema; the log creates its tables."""
    return schema_url(server, f"s{uuid.uuid4().hex}")


def schema_url(server: PrivatePostgres, schema: str) -> str:
    """Return the URL of a schema, which is created if it does not exist."""
    execute_statement(server, f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    return f"{server.url}&search_path={schema}"


def count(server: PrivatePostgres, url: str, table: str) -> int:
    """Count the rows of a table in a schema, by its URL."""
    schema = url.partition("search_path=")[2]
    ((rows,),) = fetch_rows(server, f'SELECT count(*) FROM "{schema}".{table}')  # noqa: S608 - ours
    return int(rows)


def statements_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the SQL statements executed from now on."""
    statements, original = list[str](), Database.connect

    async def connect(database: Database) -> asyncpg.Connection[asyncpg.Record]:
        connection = await original(database)
        connection.add_query_logger(lambda record: statements.append(record.query))
        return connection

    monkeypatch.setattr(Database, "connect", connect)
    return statements
