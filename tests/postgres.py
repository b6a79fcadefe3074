"""A private PostgreSQL server for the tests, with a new schema on request.

The first test that needs it starts it. The workers of one run share it, and the last one stops it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
from file_lock import locked_file

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
    with locked_file(meeting_place / "postgres.lock") as file:
        count, _, root = file.read().partition(" ")
        server = PrivatePostgres(Path(root)) if root else create_postgres()
        if not root:
            server.start()
        _write(file, f"{int(count or 0) + 1} {server.root}")
    try:
        yield server
    finally:
        with locked_file(meeting_place / "postgres.lock") as file:
            count = file.read().partition(" ")[0]
            last = int(count) == 1
            _write(file, "" if last else f"{int(count) - 1} {server.root}")
            if last:
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


def _write(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def statements_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the SQL statements executed from now on."""
    statements, original = list[str](), Database.connect

    async def connect(database: Database) -> asyncpg.Connection[asyncpg.Record]:
        connection = await original(database)
        connection.add_query_logger(lambda record: statements.append(record.query))
        return connection

    monkeypatch.setattr(Database, "connect", connect)
    return statements
