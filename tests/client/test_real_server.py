"""Tests for both clients with a real server: writes, searches, paging, deletions and errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nomemory.client.aio import AsyncClient
from nomemory.client.errors import NoMemoryError
from nomemory.client.messages import NewMessage
from nomemory.client.sync import Client
from running_server import Server

START = datetime(2024, 5, 1, tzinfo=UTC)


def new_message(user: str, number: int) -> NewMessage:
    return {
        "user_id": user,
        "message_id": f"m{number}",
        "ts": START + timedelta(minutes=number),
        "role": "user",
        "content": f"第 {number} 条 message",
    }


def test_written_message_is_read(vector_server: Server, user: str) -> None:
    with Client(vector_server.target) as client:
        written = client.write([new_message(user, number) for number in range(7)])
        assert [message.message_id for message in client.iter_messages(user, page_size=3)] == [
            f"m{number}" for number in range(6, -1, -1)
        ]
        lexical_hits = client.iter_lexical(user, "message", page_size=2, at_least=written.write_token, snippet_chars=20)
        hits = list(lexical_hits)
        assert len(hits) == 7
        assert all(hit.highlight is not None and hit.highlight.spans for hit in hits)
        assert client.neighbors(user, "m3", before=1, after=1).anchor_index == 1
        assert list(client.batch_get(user, ["m1", "nope"]).missing_message_ids) == ["nope"]
        assert client.delete(user, ["m0"]).deleted == 1
        assert client.status(user).log.messages == 6


def test_stored_messages_can_be_counted_listed_and_exported(vector_server: Server, user: str) -> None:
    with Client(vector_server.target) as client:
        client.write([{**new_message(user, number), "conversation_id": f"c{number % 2}"} for number in range(7)])
        assert client.count_messages(user) == 7
        assert client.count_messages(user, since=START + timedelta(minutes=5), conversation_id="c1") == 1
        listed = [
            (conversation.conversation_id, conversation.message_count)
            for conversation in client.iter_conversations(user, page_size=1)
        ]
        assert listed == [("c0", 4), ("c1", 3)]
        assert (user, 7) in [(item.user_id, item.message_count) for item in client.iter_users(page_size=500)]
        oldest = list(client.iter_messages(user, page_size=2, oldest_first=True))
        assert [message for batch in client.export_messages(user) for message in batch.messages] == oldest
        assert [message.message_id for message in oldest] == [f"m{number}" for number in range(7)]


def test_added_messages_are_searchable_with_their_write_token(vector_server: Server, user: str) -> None:
    talk = [{"role": "user", "content": "I never eat spicy food."}, {"role": "assistant", "content": "Noted."}]
    before = datetime.now(UTC) - timedelta(seconds=1)
    with Client(vector_server.target) as client:
        added = client.add(user, talk)
        hits = client.lexical_search(user, "spicy", at_least=added.write_token).items
        listed = list(client.iter_messages(user, oldest_first=True))
    assert [item.message_id for item in listed] == [result.message_id for result in added.results]
    assert [item.content for item in listed] == [message["content"] for message in talk]
    assert [item.content for item in hits] == ["I never eat spicy food."]
    assert all(before < item.ts.ToDatetime(tzinfo=UTC) < datetime.now(UTC) for item in listed)


async def test_messages_added_with_asyncio_are_searchable_with_their_write_token(
    vector_server: Server, user: str
) -> None:
    async with AsyncClient(vector_server.target) as client:
        added = await client.add(user, "I never eat spicy food.")
        response = await client.lexical_search(user, "spicy", at_least=added.write_token)
    assert [item.message_id for item in response.items] == [added.results[0].message_id]


async def test_asyncio_client_imports_reads_and_searches(vector_server: Server, user: str) -> None:
    async with AsyncClient(vector_server.target) as client:
        imported = await client.import_messages(new_message(user, number) for number in range(1_500))
        assert imported.created == 1_500
        read = [message async for message in client.iter_messages(user, page_size=500)]
        assert len(read) == 1_500
        await client.lexical_search(user, "message", at_least=imported.write_token)
        hits = [hit async for hit in client.iter_lexical(user, '"第 7 条"')]
        assert [hit.message.message_id for hit in hits] == ["m7"]
        with pytest.raises(NoMemoryError) as caught:
            await client.semantic_search(user, "anything")
        assert caught.value.reason == "ERROR_REASON_EMBEDDER_DISABLED"


def test_a_write_without_ids_is_stored_once_under_one_request_id(vector_server: Server, user: str) -> None:
    without_id: NewMessage = {"user_id": user, "ts": START, "role": "user", "content": "hi"}
    with Client(vector_server.target) as client:
        first = client.write([without_id], request_id="batch-1")
        again = client.write([without_id], request_id="batch-1")
        assert first.results[0].message_id == again.results[0].message_id
        assert client.status(user).log.messages == 1
        client.write([without_id])
        assert client.status(user).log.messages == 2


def test_error_has_every_violation(vector_server: Server) -> None:
    with Client(vector_server.target) as client, pytest.raises(NoMemoryError) as caught:
        client.list_messages("", page_size=-1)
    assert {violation.field for violation in caught.value.violations} == {"user_id", "page_size"}
    assert caught.value.request_id
