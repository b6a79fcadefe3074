"""A log that is moved to PostgreSQL and back is the same log: nothing of it is lost, and nothing is embedded again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from cli.command_line import Run
from cli.moves import Move, Start, by_meaning, by_words, embedded, everything, fill_some, listed, rows_of, write
from postgres import PrivatePostgres, execute, fresh_schema
from server.models import DIMENSION, Models, models

from nomemory.cli.doctor.data import check_data
from nomemory.cli.migrate import shown
from nomemory.server.data_directory import DataDirectory
from nomemory.server.log.protocol import LogUnusableError
from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from proofs.qdrant_stand_in import qdrant_stand_in
from served import Server
from talk import ids, refusal, said

VECTOR = (1.0, *(0.0,) * (DIMENSION - 1))


@pytest.fixture
def endpoint() -> Iterator[Models]:
    with models() as served:
        yield served


@pytest.fixture
def settings(tmp_path: Path, endpoint: Models, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a server with a model, whose log is in a file."""
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return Settings.from_environment(
        data=tmp_path / "data",
        listen="127.0.0.1:0",
        embedder="openai",
        embedding_model="small",
        embedding_dimension=DIMENSION,
        drain_s=0.0,
    )


def fill(server: Server) -> str:
    """Write messages of every kind; return the token of the last write."""
    first = said("ann", "m1", "我不吃辣，喜欢 hotpot", ts=1, name="Ann", conversation_id="c1", metadata={"lang": "zh"})
    own = said("ann", "m2", "a vector of my own", ts=2, role=m.ROLE_ASSISTANT, embedding=VECTOR)
    stays = said("ann", "m3", "gone in a thousand years", ts=3)
    stays.expire_ts.FromSeconds(40_000_000_000)
    write(server, first, own, stays, said("ann", "m4", "to be replaced", ts=4), said("ann", "m5", "deleted", ts=5))
    write(server, *(said("bob", f"b{n}", f"message number {n}", ts=n) for n in range(30)), said("eve", "e", "x", ts=1))
    replaced = said("ann", "m4", "takes its place", ts=6, metadata={"lang": "en", "kind": "note"})
    server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[replaced], replace=True))
    server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="ann", message_ids=["m5"]))
    server.ingest.EraseUser(i.EraseUserRequest(user_id="eve"))
    return write(server, said("ann", "", "named by the log", ts=7), request_id="r1").write_token


def is_remembered(server: Server) -> bool:
    """Return whether the request with which `fill` ended is known."""
    again = write(server, said("ann", "", "named by the log", ts=7), request_id="r1")
    return [one.outcome for one in again.results] == [i.WRITE_OUTCOME_UNCHANGED]


def answers(server: Server, token: str) -> list[object]:
    """Return what a server says to questions of every kind."""
    english = q.ListMessagesRequest(user_id="ann", filter=m.Filter(metadata={"lang": "en"}))
    return [
        everything(server),
        ids(server.query.ListMessages(english).items),
        server.query.ListConversations(q.ListConversationsRequest(user_id="ann")).conversations,
        by_words(server, "ann", "不吃辣 OR place", token),
        by_words(server, "ann", "replaced OR deleted", token),
        by_meaning(server, "ann", "hotpot", token),
    ]


def stop_using(data: Path) -> None:
    """Delete the log that was moved."""
    for path in data.glob("log.db*"):
        path.unlink()


def refuses(start: Start, settings: Settings, said_so: str) -> None:
    """Expect that no server starts."""
    with pytest.raises(LogUnusableError, match=said_so), start(settings):
        pass


def test_there_and_back_it_is_the_same_log(run: Run, start: Start, settings: Settings, postgres_url: str) -> None:
    data, there = settings.server.data, settings.with_changes(log=postgres_url)
    out, back = Move(str(data), postgres_url, settings, there), Move(postgres_url, str(data), there, settings)
    with start(settings) as server:
        token = fill(server)
        page = server.query.ListMessages(q.ListMessagesRequest(user_id="bob", page_size=10))
        refused = out.run(run)
        assert (refused.exit_code, "another server uses" in refused.output) == (1, True)
        before = answers(server, token)
        assert embedded(server) > 30

    rows = rows_of(str(data))
    out.complete(run)
    assert rows_of(postgres_url) == rows
    refuses(start, settings, "Set NOMEMORY_LOG")
    *_, looked = check_data(DataDirectory(data))
    assert (looked.state, "were moved to PostgreSQL" in looked.advice) == ("fail", True)
    with start(there) as server:
        assert answers(server, token) == before
        rest = server.query.ListMessages(q.ListMessagesRequest(user_id="bob", page_size=10, cursor=page.next_cursor))
        assert ids(rest.items) == [f"b{n}" for n in range(19, 9, -1)]
        assert is_remembered(server)
        assert embedded(server) == 0
        server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id="ann", message_ids=["m3"]))
        token = write(server, said("ann", "m9", "written in the database 辣", ts=9)).write_token
        before = answers(server, token)
        assert embedded(server) == 1
        busy = back.run(run)
        assert (busy.exit_code, "another server uses" in busy.output) == (1, True)
    away = back.run(run)
    assert (away.exit_code, "was moved from here once" in away.output) == (1, True)
    stop_using(data)

    rows = rows_of(postgres_url)
    back.complete(run)
    assert rows_of(str(data)) == rows
    refuses(start, there, "Start without NOMEMORY_LOG")
    with start(settings) as server:
        assert answers(server, token) == before
        assert is_remembered(server)
        assert embedded(server) == 0


def test_an_index_on_a_qdrant_server_goes_on(run: Run, start: Start, settings: Settings, postgres_url: str) -> None:
    data = settings.server.data
    with qdrant_stand_in() as qdrant:
        here = settings.with_changes(qdrant_url=f"grpc://127.0.0.1:{qdrant.port}", qdrant_buckets=4)
        there = here.with_changes(log=postgres_url)
        with start(here) as server:
            token = fill(server)
            before = answers(server, token)
            assert embedded(server) > 30
        Move(str(data), postgres_url, here, there).complete(run)
        with start(there) as server:
            assert answers(server, token) == before
            assert embedded(server) == 0
            token = write(server, said("ann", "m9", "written in the database", ts=9)).write_token
            before = answers(server, token)
            assert embedded(server) == 1
        stop_using(data)
        Move(postgres_url, str(data), there, here).complete(run)
        with start(here) as server:
            assert answers(server, token) == before
            assert embedded(server) == 0


def test_a_server_that_still_runs_on_a_moved_database_takes_no_writes(
    run: Run, start: Start, own_settings: Settings, postgres_url: str
) -> None:
    move = Move.of(own_settings, postgres_url, to_database=False)
    with start(move.former) as server:
        fill_some(server)
        move.complete(run)
        with pytest.raises(grpc.RpcError) as error:
            write(server, said("bob", "new", "too late", ts=1))
    refused = refusal(error.value)
    assert (refused.reason, "was moved elsewhere" in refused.text) == ("STORAGE_UNAVAILABLE", True)
    with start(move.later) as server:
        assert listed(server, "bob") == ["b4", "b3", "b2", "b1", "b0"]


def test_what_is_not_empty_is_no_target(
    run: Run,
    start: Start,
    own_settings: Settings,
    postgres: PrivatePostgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = own_settings, own_settings.with_changes(data=tmp_path / "other")
    url, taken = fresh_schema(postgres), fresh_schema(postgres)
    for settings in (one, other, other.with_changes(log=taken, data=tmp_path / "third")):
        with start(settings) as server:
            fill_some(server)
    Move.of(one, url, to_database=True).interrupt(run, monkeypatch, "prepare")
    for source, target, said_so in (
        (other.server.data, url, "the unfinished copy of another log"),
        (other.server.data, taken, "a message log in the database already"),
        (taken, other.server.data, "belongs to another message log"),
        (tmp_path / "nothing", url, "no messages to move"),
        (fresh_schema(postgres), tmp_path / "new", "no messages to move"),
        (url, tmp_path / "new", "unfinished copy itself"),
    ):
        refused = run("migrate", "--from", str(source), "--to", str(target))
        assert (refused.exit_code, said_so in refused.output) == (1, True), refused.output


def test_indexes_that_may_have_missed_removals_are_not_taken_over(
    run: Run, start: Start, own_settings: Settings, postgres_url: str
) -> None:
    data, there = own_settings.server.data, own_settings.with_changes(log=postgres_url)
    with start(there) as server:
        fill_some(server)
    (data / "follower").unlink()
    refused = run("migrate", "--from", postgres_url, "--to", str(data))
    assert (refused.exit_code, "may have missed removals" in refused.output) == (1, True), refused.output
    with start(there.with_changes(data=data.with_name("other"))) as server:
        assert len(listed(server, "bob")) == 5


def test_damaged_messages_are_named_and_the_log_stays(
    run: Run, start: Start, own_settings: Settings, postgres_url: str
) -> None:
    move, data = Move.of(own_settings, postgres_url, to_database=True), own_settings.server.data
    with start(move.former) as server:
        fill_some(server)
    log = data / "log.db"
    log.write_bytes(log.read_bytes().replace(b"message number 3", b"message number 8"))
    for _ in range(2):
        refused = move.run(run)
        assert refused.exit_code == 1
        assert "Damaged: message b3 of user bob, change 4" in refused.output
        assert "--delete-damaged" in refused.output
        assert "message number" not in refused.output
    run("doctor", "--data", str(data), "--delete-damaged")
    move.complete(run)
    with start(move.later) as server:
        assert listed(server, "bob") == ["b4", "b2", "b1", "b0"]


def test_a_difference_keeps_the_log_where_it_is(
    run: Run, start: Start, own_settings: Settings, postgres: PrivatePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = fresh_schema(postgres)
    move, schema = Move.of(own_settings, url, to_database=True), url.partition("search_path=")[2]
    with start(move.former) as server:
        fill_some(server)
    move.interrupt(run, monkeypatch, "prepare")
    execute(postgres, f"UPDATE \"{schema}\".messages SET role = 2 WHERE message_id = 'b3'")  # noqa: S608 - ours
    refused = move.run(run)
    assert (refused.exit_code, "Differs: messages: as many in both" in refused.output) == (1, True), refused.output
    with start(move.former) as server:
        assert len(listed(server, "bob")) == 5
    move.complete(run)


def test_the_tables_are_as_a_server_makes_them(
    run: Run, start: Start, own_settings: Settings, postgres: PrivatePostgres, tmp_path: Path
) -> None:
    made, moved = fresh_schema(postgres), fresh_schema(postgres)
    with start(own_settings.with_changes(log=made, data=tmp_path / "other")):
        pass
    move = Move.of(own_settings, moved, to_database=True)
    with start(move.former) as server:
        fill_some(server)
    move.complete(run)
    assert indexes(postgres, made) == indexes(postgres, moved)


def indexes(postgres: PrivatePostgres, url: str) -> str:
    schema = url.partition("search_path=")[2]
    statement = f"SELECT indexdef FROM pg_indexes WHERE schemaname = '{schema}' ORDER BY indexname"  # noqa: S608 - ours
    return execute(postgres, statement).replace(schema, "schema")


def test_the_database_may_be_named_by_the_environment_and_its_password_is_not_shown(
    run: Run, start: Start, own_settings: Settings, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = str(own_settings.server.data)
    with start(own_settings) as server:
        fill_some(server)
    monkeypatch.setenv("NOMEMORY_LOG", postgres_url.replace("nomemory@", "nomemory:secret@"))
    copied = run("migrate", "--from", data)
    assert (copied.exit_code, "secret" in copied.output) == (0, False)
    monkeypatch.setenv("NOMEMORY_LOG", "postgresql://nomemory:secret@127.0.0.1:1/none")
    away = run("migrate", "--from", data)
    assert (away.exit_code, "secret" in away.output) == (1, False)
    monkeypatch.delenv("NOMEMORY_LOG")
    for arguments in (("--from", data), ("--from", data, "--to", data), ()):
        assert run("migrate", *arguments).exit_code == 2


def test_no_piece_of_a_password_is_shown() -> None:
    for url in ("postgresql://u:se@cret@db:5432/name?sslmode=off", "postgres://u:cret@db:5432/name?password=cret"):
        assert shown(url) == "postgresql://db:5432/name"
    assert shown("postgresql://u:cret@db/name?search_path=memory") == "postgresql://db/name (memory)"
    for url in ("postgresql://u:se/cret@db/name", "postgresql://u:se?cret@db/name", "postgresql://u:se#cret@db/name"):
        assert shown(url) == "the database"
