"""Tests for the migration of a message log to PostgreSQL: no loss and no new embedding."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.command_line import Run
from cli.message_logs import (
    Start,
    everything,
    fill_some,
    lexical_search,
    listed_ids,
    rows_of_database,
    rows_of_directory,
    semantic_search,
    texts_embedded,
    write,
)
from postgres import PrivatePostgres, execute_statement, fetch_rows, fresh_schema
from server.models import DIMENSION, Models, models

from chat_messages import ids, new_message
from nomemory.cli.doctor.data import check_data
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.server.store.errors import LogUnusableError
from nomemory.server.store.postgres.connections import Database
from nomemory.server.store.postgres.display_url import redact_database_url
from nomemory.server.store.postgres.schema import upgrade_schema
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from proofs.fake_qdrant import run_fake_qdrant
from running_server import Server, settings_without_embedder, started

VECTOR = (1.0, *(0.0,) * (DIMENSION - 1))


@pytest.fixture
def endpoint() -> Iterator[Models]:
    with models() as served:
        yield served


@pytest.fixture
def settings(tmp_path: Path, endpoint: Models, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a server with a model and a SQLite log."""
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return Settings.from_environment(
        data=tmp_path / "data",
        listen="127.0.0.1:0",
        embedder="openai",
        embedding_model="small",
        embedding_dimension=DIMENSION,
        drain_timeout_s=0.0,
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a stopped server with five messages."""
    data = tmp_path_factory.mktemp("filled") / "data"
    settings = settings_without_embedder(data)
    with started(settings) as server:
        fill_some(server)
    return data


@pytest.fixture
def data(filled: Path, own_settings: Settings) -> Path:
    """A copy of the data directory."""
    shutil.copytree(filled, own_settings.server.data)
    return own_settings.server.data


def fill(server: Server) -> str:
    """Write messages of every kind; return the token of the last write."""
    first = new_message(
        "ann", "m1", "我不吃辣，喜欢 hotpot", ts=1, name="Ann", conversation_id="c1", metadata={"lang": "zh"}
    )
    with_vector = new_message("ann", "m2", "a vector of my own", ts=2, role=m.ROLE_ASSISTANT, embedding=VECTOR)
    expiring = new_message("ann", "m3", "gone in a thousand years", ts=3)
    expiring.expire_ts.FromSeconds(40_000_000_000)
    to_replace, to_delete = new_message("ann", "m4", "to be replaced", ts=4), new_message("ann", "m5", "deleted", ts=5)
    write(server, first, with_vector, expiring, to_replace, to_delete)
    write(
        server,
        *(new_message("bob", f"b{n}", f"message number {n}", ts=n) for n in range(30)),
        new_message("eve", "e", "x", ts=1),
    )
    replacement = new_message("ann", "m4", "takes its place", ts=6, metadata={"lang": "en", "kind": "note"})
    server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[replacement], replace=True))
    server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="ann", message_ids=["m5"]))
    server.ingest.EraseUser(i.EraseUserRequest(user_id="eve"))
    return write(server, new_message("ann", "", "named by the log", ts=7), request_id="r1").write_token


def request_is_remembered(server: Server) -> bool:
    """Return whether the last request id of `fill` is stored."""
    repeated = write(server, new_message("ann", "", "named by the log", ts=7), request_id="r1")
    return [result.outcome for result in repeated.results] == [i.WRITE_OUTCOME_UNCHANGED]


def answers(server: Server, token: str) -> list[object]:
    """Return the responses of a server to queries of every kind."""
    english = q.ListMessagesRequest(user_id="ann", filter=m.Filter(metadata={"lang": "en"}))
    return [
        everything(server),
        ids(server.query.ListMessages(english).items),
        server.query.ListConversations(q.ListConversationsRequest(user_id="ann")).conversations,
        lexical_search(server, "ann", "不吃辣 OR place", token),
        lexical_search(server, "ann", "replaced OR deleted", token),
        semantic_search(server, "ann", "hotpot", token),
    ]


def migrate(run: Run, data: Path, url: str) -> None:
    migrated = run("migrate", str(data), url)
    assert (migrated.exit_code, "migrated and verified" in migrated.output) == (0, True), migrated.output


def test_migration_keeps_all_messages_removals_and_the_log_identity(
    run: Run, start: Start, settings: Settings, postgres: PrivatePostgres, postgres_url: str
) -> None:
    data, migrated = settings.server.data, settings.copy_with_changes(database_url=postgres_url)
    with start(settings) as server:
        token = fill(server)
        page = server.query.ListMessages(q.ListMessagesRequest(user_id="bob", page_size=10))
        refused = run("migrate", str(data), postgres_url)
        assert (refused.exit_code, "in use by another server" in refused.output) == (1, True)
        before = answers(server, token)
        assert texts_embedded(server) > 30

    rows = rows_of_directory(data)
    assert rows["removals"]
    migrate(run, data, postgres_url)
    assert rows_of_database(postgres_url) == rows
    schema, follower = postgres_url.partition("search_path=")[2], (data / "follower").read_text()
    followers = f'SELECT name, is_lasting FROM "{schema}".followers'  # noqa: S608 - ours
    assert fetch_rows(postgres, followers) == [(follower, True)], "removals are kept until the local indexes apply them"
    destination = redact_database_url(postgres_url)
    with pytest.raises(LogUnusableError) as error, start(settings):
        pass
    assert f"was migrated to {destination}. Set NOMEMORY_DATABASE_URL" in str(error.value)
    *_, check = check_data(DataDirectory(data))
    assert (check.state, destination in check.advice) == ("fail", True)
    with start(migrated) as server:
        assert answers(server, token) == before
        rest = server.query.ListMessages(q.ListMessagesRequest(user_id="bob", page_size=10, cursor=page.next_cursor))
        assert ids(rest.items) == [f"b{n}" for n in range(19, 9, -1)]
        assert request_is_remembered(server)
        assert texts_embedded(server) == 0
        server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="ann", message_ids=["m3"]))
        token = write(server, new_message("ann", "m9", "written in the database 辣", ts=9)).write_token
        assert lexical_search(server, "ann", "database", token) == ["m9"]
        assert texts_embedded(server) == 1


def test_vector_index_on_a_qdrant_server_continues(
    run: Run, start: Start, settings: Settings, postgres_url: str
) -> None:
    with run_fake_qdrant() as qdrant:
        settings = settings.copy_with_changes(qdrant_url=f"grpc://127.0.0.1:{qdrant.port}", qdrant_shard_keys=4)
        with start(settings) as server:
            token = fill(server)
            before = answers(server, token)
            assert texts_embedded(server) > 30
        migrate(run, settings.server.data, postgres_url)
        with start(settings.copy_with_changes(database_url=postgres_url)) as server:
            assert answers(server, token) == before
            assert texts_embedded(server) == 0
            write(server, new_message("ann", "m9", "written in the database", ts=9))
            assert texts_embedded(server) == 1


def test_database_with_a_log_is_rejected(
    run: Run, start: Start, own_settings: Settings, postgres: PrivatePostgres, tmp_path: Path, data: Path
) -> None:
    other = own_settings.copy_with_changes(data=tmp_path / "other")
    url, used = fresh_schema(postgres), fresh_schema(postgres)
    for settings in (other, other.copy_with_changes(database_url=used, data=tmp_path / "third")):
        with start(settings) as server:
            fill_some(server)
    migrate(run, data, url)
    for source, target, message in (
        (other.server.data, url, "already has a message log"),
        (other.server.data, used, "already has a message log"),
        (data, used, f"was migrated to {redact_database_url(url)} and cannot be migrated again"),
        (tmp_path / "nothing", url, "no messages to migrate"),
    ):
        refused = run("migrate", str(source), target)
        assert (refused.exit_code, message in refused.output) == (1, True), refused.output
    with start(other) as server:
        assert len(listed_ids(server, "bob")) == 5


def test_log_with_damaged_messages_is_not_migrated(
    run: Run, start: Start, own_settings: Settings, postgres_url: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOMEMORY_EMBEDDER", "none")  # the doctor need not load the model
    log = data / "log.db"
    log.write_bytes(log.read_bytes().replace(b"message number 3", b"message number 8"))
    refused = run("migrate", str(data), postgres_url)
    assert refused.exit_code == 1
    assert "messages with a wrong checksum: 1." in refused.output
    assert "message number" not in refused.output
    run("doctor", "--data", str(data), "--delete-damaged")
    migrate(run, data, postgres_url)
    with start(own_settings.copy_with_changes(database_url=postgres_url)) as server:
        assert listed_ids(server, "bob") == ["b4", "b2", "b1", "b0"]


def test_copy_that_differs_is_discarded(
    run: Run, start: Start, own_settings: Settings, postgres: PrivatePostgres, data: Path
) -> None:
    url = fresh_schema(postgres)
    schema = url.partition("search_path=")[2]
    asyncio.run(upgrade_schema(Database(url)))
    execute_statement(
        postgres,
        f"""
        CREATE FUNCTION "{schema}".damage() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN NEW.role := 2; RETURN NEW; END $$;
        CREATE TRIGGER damage BEFORE INSERT ON "{schema}".messages FOR EACH ROW EXECUTE FUNCTION "{schema}".damage()
        """,
    )
    refused = run("migrate", str(data), url)
    assert refused.exit_code == 1
    assert "table messages: 5 rows were read and 5 stored, and their digests differ" in refused.output
    with start(own_settings) as server:
        assert len(listed_ids(server, "bob")) == 5
    execute_statement(postgres, f'DROP TRIGGER damage ON "{schema}".messages')
    migrate(run, data, url)


def test_migrated_tables_have_the_same_indexes_as_new_ones(
    run: Run, start: Start, own_settings: Settings, postgres: PrivatePostgres, tmp_path: Path, data: Path
) -> None:
    made, migrated = fresh_schema(postgres), fresh_schema(postgres)
    with start(own_settings.copy_with_changes(database_url=made, data=tmp_path / "other")):
        pass
    migrate(run, data, migrated)
    assert indexes(postgres, made) == indexes(postgres, migrated)


def indexes(postgres: PrivatePostgres, url: str) -> list[str]:
    schema = url.partition("search_path=")[2]
    statement = f"SELECT indexdef FROM pg_indexes WHERE schemaname = '{schema}' ORDER BY indexname"  # noqa: S608 - ours
    return [definition.replace(schema, "schema") for (definition,) in fetch_rows(postgres, statement)]


def test_url_is_read_from_the_environment_and_its_password_hidden(
    run: Run, data: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOMEMORY_DATABASE_URL", "postgresql://nomemory:secret@127.0.0.1:1/none")
    unreachable = run("migrate", str(data))
    assert (unreachable.exit_code, "secret" in unreachable.output) == (1, False)
    monkeypatch.setenv("NOMEMORY_DATABASE_URL", postgres_url.replace("nomemory@", "nomemory:secret@"))
    migrated = run("migrate", str(data))
    assert (migrated.exit_code, "secret" in migrated.output) == (0, False)
    assert b"secret" not in (data / "log.db").read_bytes()
    monkeypatch.delenv("NOMEMORY_DATABASE_URL")
    for arguments in ((str(data),), (str(data), str(data)), ()):
        assert run("migrate", *arguments).exit_code == 2


def test_displayed_url_has_no_password() -> None:
    for url in ("postgresql://u:se@cret@db:5432/name?sslmode=off", "postgres://u:cret@db:5432/name?password=cret"):
        assert redact_database_url(url) == "postgresql://db:5432/name"
    assert redact_database_url("postgresql://u:cret@db/name?search_path=memory") == "postgresql://db/name (memory)"
    for url in ("postgresql://u:se/cret@db/name", "postgresql://u:se?cret@db/name", "postgresql://u:se#cret@db/name"):
        assert redact_database_url(url) == "the database"
