"""Tests for the limits of highlights in size and time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from chat_messages import ids, new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from running_server import settings_without_embedder, started

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

LONG = "a b " * 48_750  # 195 KB, in which half of the tokens match


def write(server: Server, *messages: object) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token  # type: ignore[arg-type]


def search(server: Server, user: str, token: str, **fields: object) -> q.LexicalSearchResponse:
    fields = {"query_text": "b", "highlight": q.HighlightOptions(), **fields}
    return server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, at_least=token, **fields))  # type: ignore[arg-type]


def test_many_matches_in_long_messages_do_not_enlarge_the_response(vector_server: Server, user: str) -> None:
    token = write(vector_server, *(new_message(user, f"m{n:02}", LONG, ts=n) for n in range(8)))
    reply = search(vector_server, user, token)
    assert reply.ByteSize() <= 3_000_000
    assert len(reply.highlights) == len(reply.items) == 8
    for highlight in reply.highlights:
        assert [(span.start, span.end) for span in highlight.spans] == [(2 + 4 * n, 3 + 4 * n) for n in range(200)]
        assert highlight.truncated


def test_match_beyond_the_scan_limit_is_returned_without_highlight(vector_server: Server, user: str) -> None:
    token = write(vector_server, new_message(user, "m", "a " * 15_000 + "b"), new_message(user, "n", "a b", ts=1))
    highlights = dict(zip(["n", "m"], search(vector_server, user, token).highlights, strict=True))
    assert (len(highlights["n"].spans), highlights["n"].truncated) == (1, False)
    assert (len(highlights["m"].spans), highlights["m"].truncated) == (0, True)
    assert highlights["m"].snippet_text.startswith("a a")


@pytest.fixture(scope="module")
def narrow_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    settings = settings_without_embedder(tmp_path_factory.mktemp("narrow"), max_response_bytes=20_000)
    with started(settings) as server:
        yield server


@pytest.mark.parametrize("text", ["b", ""])
def test_highlights_count_towards_the_size_of_a_page(narrow_server: Server, user: str, text: str) -> None:
    content = "b c " * 100
    token = write(narrow_server, *(new_message(user, f"m{n:02}", content, ts=n) for n in range(30)))
    seen, cursor = [], ""
    highlight = q.HighlightOptions(snippet_chars=1000)
    while True:
        reply = search(narrow_server, user, token, query_text=text, highlight=highlight, cursor=cursor)
        assert reply.ByteSize() <= 20_000
        seen += ids(reply.items)
        cursor = reply.next_cursor
        if not cursor:
            break
    assert seen == [f"m{n:02}" for n in reversed(range(30))]


def test_short_and_long_messages_are_highlighted_equally(vector_server: Server, user: str) -> None:
    token = write(
        vector_server, new_message(user, "short", "b a", ts=1), new_message(user, "long", "b a" + " a" * 2000)
    )
    for highlight in search(vector_server, user, token).highlights:
        assert [(span.start, span.end) for span in highlight.spans] == [(0, 1)]
        assert highlight.snippet_text.startswith("b a")
