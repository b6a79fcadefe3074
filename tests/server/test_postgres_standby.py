"""Reads from a standby of the log's database: only those whose write token it has, and whose answer it cannot spoil."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from postgres import NOT_INSTALLED, PrivatePostgres, execute, fresh_schema, programs, statements_of
from server.fleet import until

from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from proofs.private_postgres import FAST, end, private_postgres, standby_of
from talk import said

if TYPE_CHECKING:
    from served import Server

    Start = Callable[[Settings], AbstractContextManager[Server]]


@dataclass
class Copied:
    """A server whose database has a standby, and what the standby was asked for."""

    server: Server
    standby: PrivatePostgres
    asked: list[str]

    def write(self, message_id: str) -> str:
        batch = i.WriteMessagesRequest(messages=[said("u", message_id, "tea")])
        return self.server.ingest.WriteMessages(batch).write_token

    def listed(self, token: str = "", cursor: str = "") -> q.ListMessagesResponse:
        request = q.ListMessagesRequest(user_id="u", at_least=token, cursor=cursor, page_size=2)
        return self.server.query.ListMessages(request)

    def pages_from_standby(self) -> int:
        found = sum("FROM messages" in one for one in self.asked)
        self.asked.clear()
        return found


@pytest.fixture
def copied(own_settings: Settings, start: Start, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copied]:
    if programs() is None:
        pytest.skip(NOT_INSTALLED)
    with private_postgres() as primary:
        url, standby = fresh_schema(primary), standby_of(primary)
        asked = statements_of(monkeypatch, str(standby.root))
        standby.start(FAST)
        try:
            there = url.replace(str(primary.root), str(standby.root))
            with start(own_settings.with_changes(log=url, postgres_standby=there)) as server:
                yield Copied(server, standby, asked)
        finally:
            end(standby)


def test_a_standby_answers_reads_whose_write_it_has(copied: Copied) -> None:
    for n in range(3):
        token = copied.write(f"m{n}")
    assert until(lambda: len(copied.listed(token).items) == 2 and copied.pages_from_standby() > 0)
    copied.pages_from_standby()
    first = copied.listed(token)
    assert copied.pages_from_standby() == 1
    rest = copied.listed(token, first.next_cursor)
    assert copied.pages_from_standby() == 0, "a further page has to have what the first one had"
    assert len(first.items) + len(rest.items) == 3
    copied.listed()
    assert copied.pages_from_standby() == 0, "without a token a read has to have everything"
    found = copied.server.query.LexicalSearch(q.LexicalSearchRequest(user_id="u", query_text="tea", at_least=token))
    assert len(found.items) == 3
    assert copied.pages_from_standby() > 0


def test_what_a_standby_lacks_the_primary_answers(copied: Copied) -> None:
    copied.listed(copied.write("m0"))
    copied.pages_from_standby()
    execute(copied.standby, "SELECT pg_wal_replay_pause()")
    token = copied.write("m1")
    assert [message.message_id for message in copied.listed(token).items] == ["m1", "m0"]
    assert copied.pages_from_standby() == 0
    copied.standby.stop()
    assert len(copied.listed(copied.write("m2")).items) == 2
    assert len(copied.listed(token).items) == 2
