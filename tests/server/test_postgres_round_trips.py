"""Tests for the number of database round trips of a search with a PostgreSQL log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from postgres import statements_of

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

EAST = q.Embedding(values=[1.0, 0.0, 0.0, 0.0])
HYBRID_MAX, SEMANTIC_MAX = 2, 2


@pytest.fixture
def statement_log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the SQL statements as they are executed."""
    return statements_of(monkeypatch)


@pytest.fixture
def server(
    statement_log: list[str],  # noqa: ARG001 - before the server connects
    own_settings: Settings,
    postgres_url: str,
    start: Callable[[Settings], AbstractContextManager[Server]],
) -> Iterator[Server]:
    quiet = {"erase_within_s": 3600.0}
    with start(own_settings.copy_with_changes(database_url=postgres_url, **quiet)) as server:
        yield server


def written(server: Server, user: str, day: int) -> str:
    message = new_message(user, f"m{day}", f"we had tea on day {day}", ts=day, embedding=[1, 0, 0, day / 99])
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[message])).write_token


def test_searches_take_few_database_round_trips(server: Server, statement_log: list[str]) -> None:
    """The user has just written a message, so nothing is cached."""
    best = q.HybridSearchRequest(user_id="u", query_text="on which day did we have tea?", query_embedding=EAST)
    near = q.SemanticSearchRequest(user_id="u", query_embedding=EAST)
    for day in range(8):
        near.at_least = best.at_least = written(server, "u", day)
        assert len(server.query.SemanticSearch(near).items) == day + 1
        near.at_least = best.at_least = ""
        statement_log.clear()
        assert server.query.HybridSearch(best).items
        hybrid = statements(statement_log)
        assert server.query.SemanticSearch(near).items
        semantic = statements(statement_log)
    assert len(hybrid) <= HYBRID_MAX, hybrid
    assert len(semantic) <= SEMANTIC_MAX, semantic


def statements(statement_log: list[str]) -> list[str]:
    """Return the statements since the last call, without those of the index that polls the log."""
    searches = [item for item in statement_log if not item.startswith("SELECT sequence FROM buckets")]
    statement_log.clear()
    return searches
