"""Tests for lexical searches with a PostgreSQL log: visibility, paging and round trips."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from postgres import PrivatePostgres, execute_statement, fresh_schema

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import Server, settings_without_embedder, started


@pytest.fixture(scope="module")
def server(postgres: PrivatePostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data, log = tmp_path_factory.mktemp("data"), fresh_schema(postgres)
    settings = settings_without_embedder(data, database_url=log)
    with started(settings) as running:
        yield running


def hit_ids(server: Server, user: str, text: str) -> list[str]:
    reply = server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text=text))
    return [item.message_id for item in reply.items]


def test_acknowledged_write_is_found_immediately(server: Server, user: str) -> None:
    for number in range(20):
        text = f"第{number}次吃火锅 take {number}"
        written = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message(user, f"m{number}", text)]))
        assert hit_ids(server, user, f'"第{number}次" AND take') == [f"m{number}"]
        request = q.LexicalSearchRequest(user_id=user, query_text=f'"{number}次"', at_least=written.write_token)
        reply = server.query.LexicalSearch(request)
        assert [item.message_id for item in reply.items][:1] == [f"m{number}"]
        assert not reply.index_lagging
    server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=["m7"]))
    assert len(hit_ids(server, user, "火锅")) == 19


def test_pages_return_each_match_once_during_writes(server: Server, user: str) -> None:
    def write(*numbers: int) -> None:
        messages = [
            new_message(user, f"m{number:03}", f"火锅 cat{' dog' * (number % 2)}", ts=number) for number in numbers
        ]
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))

    write(*range(60))
    walked, cursor = list[str](), ""
    for turn in range(100):
        request = q.LexicalSearchRequest(user_id=user, query_text="dog cat zebra", page_size=7, cursor=cursor)
        page = server.query.LexicalSearch(request)
        walked += [item.message_id for item in page.items]
        if not (cursor := page.next_cursor):
            break
        write(100 + turn)
    assert sorted(walked) == [f"m{number:03}" for number in range(60)]
    assert [int(each[1:]) % 2 for each in walked] == [1] * 30 + [0] * 30


def test_equal_messages_of_two_users_are_separate(server: Server) -> None:
    for user, count in (("ann", 1), ("bob", 30)):
        messages = [new_message(user, f"{user}{number}", "火锅 hot pot") for number in range(count)]
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
    for text in ("火锅", '"hot pot"', "hot 火锅 zebra", "-zebra", ""):
        assert hit_ids(server, "ann", text) == ["ann0"]


def test_postgres_lexical_index_never_lags(server: Server, user: str) -> None:
    server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message(user, "m", "火锅")]))
    status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest(user_id=user))
    assert (status.lexical.checkpoint, status.lexical.pending) == (status.log.sequence, 0)


def test_damaged_message_is_not_returned(server: Server, postgres: PrivatePostgres, user: str) -> None:
    server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message(user, "m", "火锅")]))
    log = server.settings.server.database_url
    assert log is not None
    schema = log.get_secret_value().partition("search_path=")[2]
    execute_statement(postgres, f"UPDATE \"{schema}\".messages SET wire = wire || '\\x20' WHERE user_id = '{user}'")  # noqa: S608
    with pytest.raises(grpc.RpcError) as refused:
        hit_ids(server, user, "火锅")
    assert refusal(refused.value).reason == "STORAGE_UNAVAILABLE"
