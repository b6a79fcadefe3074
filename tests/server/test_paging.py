"""Tests that paging returns every match once, in order, during changes between pages."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
import pytest

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal
from running_server import settings_without_embedder, started

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from running_server import Server

pytestmark = pytest.mark.both_logs

MESSAGES = 60
WORDS = ["火锅", "tea", "不吃辣", "run"]


def conversation(user: str, count: int, prefix: str = "m", seed: int = 1) -> list[m.ChatMessage]:
    """Return messages with many equal times and scores."""
    draw = random.Random(seed)  # noqa: S311 - a seeded corpus, not a secret
    return [
        new_message(
            user, f"{prefix}{n:04}", " ".join(draw.choices(WORDS, k=draw.randint(1, 4))), draw.randint(0, count // 4)
        )
        for n in range(count)
    ]


def write(server: Server, messages: list[m.ChatMessage], *, replace: bool = False) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, replace=replace)).write_token


def walk(
    server: Server, user: str, query: str | None, sizes: list[int], message_filter: m.Filter | None = None
) -> Iterator[list[tuple[str, float]]]:
    """Follow the cursors with alternating page sizes; return ids and scores page by page."""
    cursor, turn = "", 0
    while turn == 0 or cursor:
        size = sizes[turn % len(sizes)]
        turn += 1
        if query is None:
            listed = server.query.ListMessages(
                q.ListMessagesRequest(user_id=user, filter=message_filter, page_size=size, cursor=cursor)
            )
            page, cursor = [(item, 0.0) for item in ids(listed.items)], listed.next_cursor
        else:
            response = server.query.LexicalSearch(
                q.LexicalSearchRequest(
                    user_id=user, query_text=query, filter=message_filter, page_size=size, cursor=cursor
                )
            )
            page, cursor = [(score.message_id, score.score) for score in response.scores], response.next_cursor
        yield page


@pytest.mark.parametrize("query", [None, "", "火锅", "火锅 tea run", "NOT tea", '"不吃辣" AND run'])
def test_cursors_return_every_match_once_in_order(vector_server: Server, user: str, query: str | None) -> None:
    messages = conversation(user, MESSAGES)
    token = write(vector_server, messages)
    whole = vector_server.query.LexicalSearch(
        q.LexicalSearchRequest(user_id=user, query_text=query or "", page_size=500, at_least=token)
    )
    walked = [item for page in walk(vector_server, user, query, [7, 1, 13]) for item in page]
    assert [message_id for message_id, _ in walked] == ids(whole.items)
    assert [score for _, score in walked] == [item.score for item in whole.scores]
    times = {message.message_id: message.ts.seconds for message in messages}
    order = [(score, times[message_id], message_id) for message_id, score in walked]
    assert order == sorted(order, reverse=True)
    assert len(set(order)) == len(order)


@pytest.mark.parametrize("query", [None, "", "火锅", "火锅 tea run", "NOT tea"])
def test_changes_between_pages_do_not_affect_a_listing(vector_server: Server, user: str, query: str | None) -> None:
    write_token = write(vector_server, conversation(user, MESSAGES))
    before = vector_server.query.LexicalSearch(
        q.LexicalSearchRequest(user_id=user, query_text=query or "", page_size=500, at_least=write_token)
    )
    expected, gone, draw = ids(before.items), set[str](), random.Random(2)  # noqa: S311 - seeded
    walked: list[str] = []
    for turn, page in enumerate(walk(vector_server, user, query, [11, 3])):
        walked += [message_id for message_id, _ in page]
        ahead = [item for item in expected if item not in walked and item not in gone]
        deleted, replaced = draw.sample(ahead, min(2, len(ahead))), draw.sample(ahead, min(2, len(ahead)))
        gone.update(deleted, replaced)
        write(vector_server, conversation(user, 10, prefix=f"late{turn}-", seed=turn))
        if ahead:
            vector_server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=deleted))
            token = write(
                vector_server, [new_message(user, item, "火锅 tea", ts=999) for item in replaced], replace=True
            )
            vector_server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text="tea", at_least=token))
    assert walked == [item for item in expected if item not in gone or item in walked]
    assert not gone.intersection(walked)


@pytest.mark.parametrize("query", [None, "", "火锅", "火锅 tea run", "NOT tea"])
def test_writes_between_pages_do_not_affect_a_metadata_listing(
    vector_server: Server, user: str, query: str | None
) -> None:
    messages = conversation(user, MESSAGES)
    for n, item in enumerate(messages):
        item.metadata.update({"kind": "note" if n % 2 else "chat", "app": f"a{n % 3}"})
    token = write(vector_server, messages)
    message_filter = m.Filter(metadata={"kind": "note", "app": "a1"})
    before = vector_server.query.LexicalSearch(
        q.LexicalSearchRequest(
            user_id=user, query_text=query or "", filter=message_filter, page_size=500, at_least=token
        )
    )
    expected, gone, walked = ids(before.items), set[str](), list[str]()
    assert set(expected) <= {f"m{n:04}" for n in range(1, MESSAGES, 6)} | {
        f"m{n:04}" for n in range(1, MESSAGES, 2) if n % 3 == 1
    }
    for turn, page in enumerate(walk(vector_server, user, query, [3, 1], message_filter)):
        walked += [message_id for message_id, _ in page]
        late = conversation(user, 10, prefix=f"late{turn}-", seed=turn)
        others = [message for message in messages if message.message_id not in expected][turn * 2 :][:2]
        leaving = [
            message for message in messages if message.message_id in expected and message.message_id not in walked
        ][-1:]
        gone.update(ids(leaving))
        for item in [*late, *others]:
            item.metadata.update(message_filter.metadata)
        for item in leaving:
            item.metadata["app"] = "another"
        write(vector_server, [*late, *others, *leaving], replace=True)
    assert walked == [item for item in expected if item not in gone or item in walked]
    assert not gone.intersection(walked)


def test_cursor_is_bound_to_the_metadata_filter(vector_server: Server, user: str) -> None:
    metadata = {"a": "1", "b": "2"}
    write(vector_server, [new_message(user, f"m{n}", "tea", n, metadata=metadata) for n in range(4)])
    request = q.ListMessagesRequest(user_id=user, page_size=1, filter=m.Filter(metadata=metadata))
    request.cursor = vector_server.query.ListMessages(request).next_cursor
    assert ids(vector_server.query.ListMessages(request).items) == ["m2"]
    for others in ({}, {"a": "1"}, {"a": "2", "b": "1"}, {"a": "1", "b": "2", "c": ""}):
        request.filter.CopyFrom(m.Filter(metadata=others))
        with pytest.raises(grpc.RpcError) as refused:
            vector_server.query.ListMessages(request)
        assert refusal(refused.value).reason == "CURSOR_OTHER_QUERY"


def test_cursor_is_bound_to_the_excluded_conversations(vector_server: Server, user: str) -> None:
    write(vector_server, [new_message(user, f"m{n}", "tea", n, conversation_id=f"c{n % 4}") for n in range(8)])
    message_filter = m.Filter(exclude_conversation_ids=["c1", "c2"])
    request = q.ListMessagesRequest(user_id=user, page_size=1, filter=message_filter)
    request.cursor = vector_server.query.ListMessages(request).next_cursor
    for same in (["c1", "c2"], ["c2", "c1"], ["c2", "c1", "c2"]):
        request.filter.CopyFrom(m.Filter(exclude_conversation_ids=same))
        assert ids(vector_server.query.ListMessages(request).items) == ["m4"]
    for other in ({}, {"exclude_conversation_ids": ["c1"]}, {"metadata": {"c1": "c2"}}, {"conversation_id": "c1"}):
        request.filter.CopyFrom(m.Filter(**other))
        with pytest.raises(grpc.RpcError) as rejected:
            vector_server.query.ListMessages(request)
        assert refusal(rejected.value).reason == "CURSOR_OTHER_QUERY"


@dataclass(frozen=True)
class Stopped:
    """The settings of a server that was stopped, its last cursors, and the ids after the cursor of the search."""

    settings: Settings
    list_cursor: str
    search_cursor: str
    rest: list[str]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    settings = settings_without_embedder(tmp_path_factory.mktemp("stopped"))
    with started(settings) as server:
        token = write(server, conversation("u", MESSAGES))
        request = q.LexicalSearchRequest(user_id="u", query_text="火锅 tea", page_size=500, at_least=token)
        every = ids(server.query.LexicalSearch(request).items)
        request.page_size = 10
        search_cursor = server.query.LexicalSearch(request).next_cursor
        list_cursor = server.query.ListMessages(q.ListMessagesRequest(user_id="u", page_size=2)).next_cursor
    return Stopped(settings, list_cursor, search_cursor, every[10:])


def test_cursor_is_valid_after_a_restart(stopped: Stopped) -> None:
    with started(stopped.settings) as server:
        onward = server.query.LexicalSearch(
            q.LexicalSearchRequest(user_id="u", query_text="火锅 tea", page_size=500, cursor=stopped.search_cursor)
        )
        assert ids(onward.items) == stopped.rest


def cursor_of(server: Server, user: str) -> str:
    write(server, conversation(user, 10))
    return server.query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=2)).next_cursor


def refused(server: Server, request: q.ListMessagesRequest | q.LexicalSearchRequest) -> str:
    call = server.query.ListMessages if isinstance(request, q.ListMessagesRequest) else server.query.LexicalSearch
    with pytest.raises(grpc.RpcError) as error:
        call(request)  # type: ignore[arg-type]
    answer = refusal(error.value)
    assert answer.code is grpc.StatusCode.INVALID_ARGUMENT
    assert answer.fields == ["cursor"]
    return answer.reason


def test_cursor_is_bound_to_its_query(vector_server: Server, user: str) -> None:
    cursor = cursor_of(vector_server, user)
    other_filter = m.Filter(role=m.ROLE_USER)
    other = "CURSOR_OTHER_QUERY"
    assert refused(vector_server, q.ListMessagesRequest(user_id="x", cursor=cursor)) == "CURSOR_OTHER_USER"
    assert refused(vector_server, q.ListMessagesRequest(user_id=user, cursor=cursor, filter=other_filter)) == other
    assert refused(vector_server, q.LexicalSearchRequest(user_id=user, cursor=cursor)) == other


def test_truncated_and_malformed_cursors_are_rejected(vector_server: Server, user: str) -> None:
    cursor = cursor_of(vector_server, user)
    for text in (cursor[:-1], cursor[:20], cursor[2:], cursor + "AAAA", "c_", "c_é", "next", "c_" + "A" * 100_000):
        assert refused(vector_server, q.ListMessagesRequest(user_id=user, cursor=text)) == "CURSOR_MALFORMED"


def test_modified_cursor_is_rejected(vector_server: Server, user: str) -> None:
    raw = bytearray(base64.urlsafe_b64decode(cursor_of(vector_server, user).removeprefix("c_") + "=="))
    for offset in range(3, len(raw), 7):
        changed = bytes(byte ^ (index == offset) for index, byte in enumerate(raw))
        text = "c_" + base64.urlsafe_b64encode(changed).decode().rstrip("=")
        assert refused(vector_server, q.ListMessagesRequest(user_id=user, cursor=text)) == "CURSOR_FORGED"


def test_cursor_of_another_server_is_rejected(vector_server: Server, stopped: Stopped) -> None:
    request = q.ListMessagesRequest(user_id="u", cursor=stopped.list_cursor)
    assert refused(vector_server, request) == "CURSOR_FORGED"


def test_cursor_expires(stopped: Stopped) -> None:
    with started(stopped.settings.copy_with_changes(cursor_lifetime_s=1e-9)) as server:
        assert refused(server, q.ListMessagesRequest(user_id="u", cursor=stopped.list_cursor)) == "CURSOR_EXPIRED"


def test_page_is_truncated_at_the_response_size_limit(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    with start(own_settings.copy_with_changes(max_response_bytes=2000)) as server:
        write(server, [new_message("u", f"m{n}", "x" * 500, ts=n) for n in range(10)])
        pages = [len(page) for page in walk(server, "u", None, [10])]
        assert pages == [3, 3, 3, 1]
        around = server.query.GetNeighbors(q.GetNeighborsRequest(user_id="u", message_id="m5", before=5, after=4))
        assert ids(around.items) == ["m5", "m6"] or ids(around.items) == ["m4", "m5", "m6"]
        assert around.truncated_before
        assert around.truncated_after
        got = server.query.BatchGetMessages(q.BatchGetMessagesRequest(user_id="u", message_ids=["m1", "no", "m2"] * 3))
        assert ids(got.items) == ["m1", "m2", "m1"]
        assert got.omitted_message_ids == ["m2", "m1", "m2"]
