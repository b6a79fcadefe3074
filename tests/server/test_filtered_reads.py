"""Tests that filtered reads equal brute-force results on random conversations with equal times."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import ids, new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

VECTORS = [(1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (1.0, 1.0, 0.0, 0.0), (-1.0, 0.5, 0.0, 2.0)]
QUERY_VECTOR = (1.0, 0.25, 0.0, 0.0)
WORDS = ["火锅", "tea", "不吃辣"]


@dataclass(frozen=True)
class RandomMessage:
    message_id: str
    ts: int
    role: int
    conversation: str
    words: frozenset[str]
    vector: tuple[float, ...]
    metadata: dict[str, str]


METADATA = st.dictionaries(st.sampled_from(["app", "kind"]), st.sampled_from(["", "a", "b"]))
conversations = st.lists(
    st.builds(
        RandomMessage,
        message_id=st.text("aé中😀Z", min_size=1, max_size=3),
        ts=st.integers(0, 5),
        role=st.sampled_from([1, 2, 3, 4]),
        conversation=st.sampled_from(["", "c", "d"]),
        words=st.frozensets(st.sampled_from(WORDS)),
        vector=st.sampled_from(VECTORS),
        metadata=METADATA,
    ),
    max_size=25,
    unique_by=lambda build: build.message_id,
)
filter_strategy = st.fixed_dictionaries(
    {
        "since": st.none() | st.integers(0, 5),
        "length": st.none() | st.integers(0, 5),
        "role": st.sampled_from([0, 0, 1, 2, 3, 4]),
        "conversation": st.sampled_from(["", "c", "d"]),
        "excluded": st.lists(st.sampled_from(["c", "d", "e"]), max_size=2),
        "metadata": METADATA,
    }
)


def until(filter_values: dict[str, Any]) -> int | None:
    return None if filter_values["length"] is None else (filter_values["since"] or 0) + filter_values["length"]


def as_filter(filter_values: dict[str, Any]) -> m.Filter:
    chosen = m.Filter(
        role=filter_values["role"],
        conversation_id=filter_values["conversation"],
        exclude_conversation_ids=filter_values["excluded"],
        metadata=filter_values["metadata"],
    )
    if filter_values["since"] is not None:
        chosen.time_range.since.CopyFrom(Timestamp(seconds=filter_values["since"]))
    if until(filter_values) is not None:
        chosen.time_range.until.CopyFrom(Timestamp(seconds=until(filter_values)))
    return chosen


def matching(conversation: list[RandomMessage], filter_values: dict[str, Any]) -> list[RandomMessage]:
    matches = [
        item
        for item in conversation
        if (filter_values["since"] is None or item.ts >= filter_values["since"])
        and ((end := until(filter_values)) is None or item.ts < end)
        and filter_values["role"] in (0, item.role)
        and filter_values["conversation"] in ("", item.conversation)
        and item.conversation not in filter_values["excluded"]
        and filter_values["metadata"].items() <= item.metadata.items()
    ]
    return sorted(matches, key=lambda item: (item.ts, item.message_id), reverse=True)


def cosine(vector: tuple[float, ...]) -> float:
    dot = sum(a * b for a, b in zip(vector, QUERY_VECTOR, strict=True))
    return dot / math.hypot(*vector) / math.hypot(*QUERY_VECTOR)


def stored(server: Server, user: str, conversation: list[RandomMessage]) -> str:
    messages = [
        new_message(
            user,
            item.message_id,
            " ".join(["好", *sorted(item.words)]),
            item.ts,
            item.role,  # type: ignore[arg-type]
            conversation_id=item.conversation,
            embedding=item.vector,
            metadata=item.metadata,
        )
        for item in conversation
    ]
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token if messages else ""


@given(conversation=conversations, filter_values=filter_strategy)
def test_reads_equal_brute_force_results(
    vector_server: Server, conversation: list[RandomMessage], filter_values: dict[str, Any]
) -> None:
    user = f"user-{uuid.uuid4().hex}"
    token, chosen = stored(vector_server, user, conversation), as_filter(filter_values)
    expected = matching(conversation, filter_values)

    listed = vector_server.query.ListMessages(q.ListMessagesRequest(user_id=user, filter=chosen, at_least=token))
    assert ids(listed.items) == [entry.message_id for entry in expected]

    for query, holds in (
        ("火锅", lambda words: "火锅" in words),
        ('"不吃辣" AND tea', lambda words: {"不吃辣", "tea"} <= words),
        ("NOT tea", lambda words: "tea" not in words),
    ):
        response = vector_server.query.LexicalSearch(
            q.LexicalSearchRequest(user_id=user, query_text=query, filter=chosen, at_least=token)
        )
        assert ids(response.items) == [entry.message_id for entry in expected if holds(entry.words)]
        assert not response.index_lagging

    near = vector_server.query.SemanticSearch(
        q.SemanticSearchRequest(
            user_id=user, query_embedding=q.Embedding(values=QUERY_VECTOR), filter=chosen, top_k=10, at_least=token
        )
    )
    nearest = sorted(
        expected, key=lambda entry: (round(cosine(entry.vector), 4), entry.ts, entry.message_id), reverse=True
    )
    assert [item.message.message_id for item in near.items] == [entry.message_id for entry in nearest[:10]]
    for item, entry in zip(near.items, nearest, strict=False):
        assert math.isclose(item.score, cosine(entry.vector), abs_tol=1e-4)

    both = vector_server.query.HybridSearch(
        q.HybridSearchRequest(
            user_id=user,
            query_text="tea",
            query_embedding=q.Embedding(values=QUERY_VECTOR),
            filter=chosen,
            top_k=200,
            at_least=token,
        )
    )
    assert {item.message.message_id for item in both.items} == {entry.message_id for entry in expected}
