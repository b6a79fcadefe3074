"""Tests for the LangGraph store with the real package."""

from __future__ import annotations

import pytest
from frameworks.conftest import TokenRecorder
from frameworks.sample_messages import CANARY, PEANUTS

from nomemory.client import Client, NoMemoryError, chat_message

pytest.importorskip("langgraph.store.base", reason="scripts/check_frameworks installs it")

from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp

from nomemory.frameworks.langgraph_items import UnsupportedOperationError
from nomemory.frameworks.langgraph_store import MemoryStore

ROOT, TRIP = ("memories",), ("memories", "trip")


def test_search_returns_the_users_messages_best_first(client: Client, ann: str) -> None:
    store = MemoryStore(client, ann)
    hits = store.search(ROOT, query="What am I allergic to?", limit=2)
    assert (hits[0].key, hits[0].namespace, hits[0].value["content"]) == ("a1", ROOT, PEANUTS)
    assert hits[0].score
    assert hits[0].created_at.isoformat() == "2026-01-05T09:01:00+00:00"
    second = store.search(ROOT, query="What am I allergic to?", limit=1, offset=1)
    assert [item.key for item in second] == [item.key for item in hits[1:]]
    assert CANARY not in str(store.search((), query="allergic to canaries", limit=50))


def test_search_without_a_query_lists_by_time(client: Client, ann: str) -> None:
    store = MemoryStore(client, ann)
    assert [item.key for item in store.search(ROOT, limit=3, offset=1)] == ["c0", "a2", "a1"]
    assert [item.key for item in store.search(TRIP)] == ["c1", "c0"]
    assert [item.key for item in store.search(ROOT, filter={"role": "assistant"})] == ["c1"]
    between = {"said_at": {"$gte": "2026-01-05T09:01:00Z", "$lt": "2026-01-05T09:02:00Z"}}
    assert [item.key for item in store.search(ROOT, filter=between)] == ["a1"]


def test_item_is_found_only_in_its_namespace(client: Client, ann: str) -> None:
    store = MemoryStore(client, ann)
    item = store.get(TRIP, "c1")
    assert item
    value = {"content": "Kochi it is.", "role": "assistant", "said_at": "2026-01-05T09:04:00Z", "name": "Kim"}
    assert (item.key, item.namespace, item.value) == ("c1", TRIP, value)
    assert store.get(ROOT, "c1") is None
    assert store.get(TRIP, "gone") is None
    assert store.get(ROOT, "b0") is None  # another user's


def test_stored_entry_is_found(noting: TokenRecorder, user: str) -> None:
    store = MemoryStore(noting, user)
    store.put(ROOT, "m1", {"content": "I moved to Basel."})
    assert [item.key for item in store.search(ROOT, query="Where did I move to?")] == ["m1"]
    assert noting.at_least[-1] == noting.tokens[-1] != ""


async def test_put_stores_changes_and_deletes_a_message(client: Client, user: str) -> None:
    store = MemoryStore(client, user)
    await store.aput(TRIP, "m1", {"content": "I moved to Basel.", "said_at": "2026-01-05T09:00:00Z"})
    item = await store.aget(TRIP, "m1")
    assert item
    store.put(TRIP, "m1", {**item.value, "content": "I moved to Bern."})
    (changed,) = client.list_messages(user).items
    assert (changed.content, changed.conversation_id, changed.ts.ToJsonString()) == (
        "I moved to Bern.",
        "trip",
        "2026-01-05T09:00:00Z",
    )
    store.delete(ROOT, "m1")
    assert client.count_messages(user) == 1
    await store.adelete(TRIP, "m1")
    assert client.count_messages(user) == 0


def test_replacing_a_message_keeps_fields_that_the_value_omits(client: Client, user: str) -> None:
    message = chat_message(
        user_id=user,
        message_id="m1",
        ts="2026-01-05T09:00:00Z",
        role="user",
        content="I moved to Basel.",
        metadata={"channel": "phone"},
        expire_ts="2099-01-01T00:00:00Z",
    )
    client.write([message])
    MemoryStore(client, user).put(ROOT, "m1", {"content": "I moved to Bern."})
    (changed,) = client.list_messages(user).items
    message.content = "I moved to Bern."
    assert changed == message


def test_record_that_is_not_a_message_is_rejected(client: Client, ann: str) -> None:
    store = MemoryStore(client, ann)
    for value in ({"food": "pizza"}, {"content": {"food": "pizza"}}, {"content": "x", "food": "pizza"}):
        with pytest.raises(UnsupportedOperationError, match="unsupported value"):
            store.put(ROOT, "m1", value)
    with pytest.raises(UnsupportedOperationError, match="index"):
        store.put(ROOT, "m1", {"content": "x"}, index=False)
    with pytest.raises(NotImplementedError):
        store.put(ROOT, "m1", {"content": "x"}, ttl=5)
    with pytest.raises(UnsupportedOperationError, match="another namespace"):
        store.put(ROOT, "c1", {"content": "x"})
    with pytest.raises(UnsupportedOperationError, match="unsupported filter"):
        store.search(ROOT, filter={"food": "pizza"})
    with pytest.raises(NoMemoryError, match="INVALID_ARGUMENT"):
        store.search(ROOT, query="x", limit=201)
    assert client.count_messages(ann) == 5


def test_namespace_outside_the_store_is_rejected(client: Client, ann: str) -> None:
    store = MemoryStore(client, ann, (ann, "memories"))
    assert [item.key for item in store.search((ann,), limit=1)] == ["c1"]
    for namespace in ((f"{ann}-other", "memories"), (ann, "memories", "trip", "more"), (ann,)):
        with pytest.raises(InvalidNamespaceError):
            store.get(namespace, "b0")
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "b0", {"content": "x"})
    with pytest.raises(InvalidNamespaceError):
        store.search((f"{ann}-other",), query="canaries")


def test_conversations_are_listed_as_namespaces(client: Client, ann: str) -> None:
    store = MemoryStore(client, ann)
    assert store.list_namespaces() == [ROOT, TRIP]
    assert store.list_namespaces(prefix=TRIP) == [TRIP]
    assert store.list_namespaces(suffix=("*", "trip")) == [TRIP]
    assert store.list_namespaces(max_depth=1) == [ROOT]
    assert store.list_namespaces(limit=1, offset=1) == [TRIP]
    assert store.list_namespaces(prefix=("other",)) == []


async def test_batch_operations_run_in_order(client: Client, user: str) -> None:
    put, get = PutOp(ROOT, "m1", {"content": "I moved to Basel."}), GetOp(ROOT, "m1")
    before, _, after, _, gone = await MemoryStore(client, user).abatch([get, put, get, PutOp(ROOT, "m1", None), get])
    assert before is None
    assert after
    assert gone is None
