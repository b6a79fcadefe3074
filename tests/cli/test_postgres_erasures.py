"""Tests for the erasure register of a PostgreSQL log with backups by pg_dump and psql."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from cli.command_line import Run
from cli.test_restored_erasures import KEPT, erase_some, fill, listed, write
from postgres import PrivatePostgres, execute_statement

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from running_server import Server

Start = Callable[[Settings], AbstractContextManager[Server]]


@dataclass(frozen=True)
class DumpedSchema:
    """A database schema and its dump."""

    database: PrivatePostgres
    url: str

    @property
    def _dump(self) -> Path:
        return self.database.root / f"{self._name}.sql"

    @property
    def _name(self) -> str:
        return self.url.partition("search_path=")[2]

    def back_up(self) -> None:
        """Dump the schema."""
        self.database.run_program("pg_dump", "-d", self.database.url, "-n", self._name, "-f", str(self._dump))

    def restore(self) -> None:
        """Replace the schema with its dump."""
        execute_statement(self.database, f'DROP SCHEMA "{self._name}" CASCADE')
        self.database.run_program("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.database.url, "-f", str(self._dump))


@pytest.fixture
def schema(postgres: PrivatePostgres, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> DumpedSchema:
    """Return the schema that the command line uses."""
    monkeypatch.setenv("NOMEMORY_DATABASE_URL", postgres_url)
    monkeypatch.setenv("NOMEMORY_EMBEDDER", "none")  # the doctor need not load the model
    return DumpedSchema(postgres, postgres_url)


@pytest.fixture
def settings(own_settings: Settings, postgres_url: str) -> Settings:
    return own_settings.copy_with_changes(database_url=postgres_url)


def test_register_is_applied_to_a_restored_database(
    run: Run, start: Start, settings: Settings, schema: DumpedSchema
) -> None:
    data = str(settings.server.data)
    with start(settings) as server:
        fill(server)
        schema.back_up()
        erase_some(server)
        exported = run("erasures", "export", "erasures.jsonl")  # while the server runs
        assert exported.output == "erasures.jsonl: 3 erasures.\n"
    schema.restore()
    refused = run("erasures", "apply", "erasures.jsonl")
    assert (refused.exit_code, "doctor --accept-loss" in refused.output.replace("\n", " ")) == (1, True)
    assert "Loss accepted" in run("doctor", "--accept-loss", "--data", data).output
    with start(settings) as server:
        assert len(listed(server, "anna")) == 3
        write(server, new_message("anna", "a9", "anna is back", ts=1))
        for deleted in (5, 0):
            applied = run("erasures", "apply", "erasures.jsonl")
            assert applied.exit_code == 0, applied.output
            assert f"3 erasures; deleted {deleted} messages" in applied.output
            assert "The register was exported at " in applied.output
        assert {user: listed(server, user) for user in KEPT} == {**KEPT, "anna": ["a9"]}
    assert run("erasures", "export", "again.jsonl").output == "again.jsonl: 3 erasures.\n"
    assert "anna" not in Path("again.jsonl").read_text()


def test_register_of_an_abandoned_epoch_is_applied(
    run: Run, start: Start, settings: Settings, schema: DumpedSchema
) -> None:
    """The first backup is restored twice; the erasure happened after the first restore."""
    data = str(settings.server.data)
    with start(settings) as server:
        fill(server)
        schema.back_up()
    schema.restore()
    run("doctor", "--accept-loss", "--data", data)
    with start(settings) as server:
        server.ingest.EraseUser(i.EraseUserRequest(user_id="anna"))
        run("erasures", "export", "erasures.jsonl")
    schema.restore()
    assert run("erasures", "apply", "erasures.jsonl").exit_code == 1
    run("doctor", "--accept-loss", "--data", data)
    assert "deleted 3 messages" in run("erasures", "apply", "erasures.jsonl").output
    with start(settings) as server:
        assert listed(server, "anna") == []


def test_a_migrated_log_keeps_its_register(
    run: Run, start: Start, own_settings: Settings, schema: DumpedSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = str(own_settings.server.data)
    with start(own_settings) as server:
        fill(server)
        erase_some(server)
    monkeypatch.delenv("NOMEMORY_DATABASE_URL")
    assert run("erasures", "export", "sqlite.jsonl", "--data", data).exit_code == 0
    assert run("migrate", data, schema.url).exit_code == 0
    refused = run("erasures", "export", "none.jsonl", "--data", data)
    assert (refused.exit_code, "was migrated to" in refused.output) == (1, True)
    monkeypatch.setenv("NOMEMORY_DATABASE_URL", schema.url)
    assert run("erasures", "export", "postgres.jsonl").exit_code == 0
    headers, *entries = zip(*(_lines(name) for name in ("sqlite.jsonl", "postgres.jsonl")), strict=True)
    assert headers[0]["since"] == headers[1]["since"]
    assert all(before == after for before, after in entries[:-1])
    assert "deleted 0 messages" in run("erasures", "apply", "sqlite.jsonl").output


def test_unavailable_database_is_named_without_its_password(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOMEMORY_DATABASE_URL", "postgresql://nomemory:a-secret@127.0.0.1:1/none")
    Path("erasures.jsonl").touch()
    for command in ("export", "apply"):
        refused = run("erasures", command, "erasures.jsonl")
        assert (refused.exit_code, "cannot be opened" in refused.output) == (1, True)
        assert "a-secret" not in refused.output


def _lines(name: str) -> list[dict[str, object]]:
    header, *entries, footer = map(orjson.loads, Path(name).read_text().splitlines())
    return [header, *sorted(entries, key=lambda entry: str(entry["id"])), footer]
