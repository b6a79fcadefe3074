"""Tests that searches with more matches than the ranking window report it, over gRPC and in the CLI."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from chat_messages import new_message
from nomemory.cli.main import nomemory
from nomemory.server.search.lexical import window
from nomemory.server.search.lexical.tantivy import reader as tantivy_reader
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from running_server import Server


@pytest.fixture
def crowded(server: Server, user: str) -> str:
    """A user with ten messages of the same two words, and one with another word."""
    messages = [new_message(user, f"m{number}", "ferry tickets", ts=number) for number in range(10)]
    messages.append(new_message(user, "last", "harbour", ts=10))
    token = server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token
    server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text="ferry", at_least=token))
    return user


def search(server: Server, user: str, text: str) -> q.LexicalSearchResponse:
    return server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text=text))


def test_search_beyond_the_ranking_window_is_truncated(
    server: Server, crowded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not search(server, crowded, "ferry tickets").truncated
    for module in (window, tantivy_reader):
        monkeypatch.setattr(module, "WINDOW", 4)
    assert search(server, crowded, "ferry tickets").truncated
    assert not search(server, crowded, "harbour").truncated
    shown = CliRunner().invoke(nomemory, ["search", "ferry tickets", "--user", crowded, "--target", server.target])
    assert "Only part of the matching messages was ranked" in shown.output
