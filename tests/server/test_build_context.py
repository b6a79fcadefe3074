"""Tests for BuildContext: the current conversation and related messages within a token limit."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.client import Client
from nomemory.client.messages import Turn
from nomemory.client.prompt_passages import count_tokens
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub
from rpc_errors import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from nomemory.server.runtime.settings import Settings
    from running_server import Server

pytestmark = pytest.mark.both_logs


def write(server: Server, messages: Iterable[m.ChatMessage]) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token


def build(server: Server, user: str, **request: object) -> r.BuildContextResponse:
    with grpc.insecure_channel(server.target) as channel:
        stub = RecallServiceStub(channel)
        return stub.BuildContext(r.BuildContextRequest(**request), metadata=(("x-user-id", user),))  # type: ignore[arg-type]


def turn(text: str, role: m.Role.ValueType = m.ROLE_USER) -> r.Turn:
    return r.Turn(role=role, text=text)


def ids(items: Iterable[r.ContextMessage]) -> list[str]:
    return [item.message.message_id for item in items]


def conversation(user: str) -> list[m.ChatMessage]:
    return [
        new_message(user, "kochi", "We fly to Kochi for Christmas.", 100, conversation_id="travel"),
        new_message(user, "hotel", "The hotel in Kochi is booked.", 200, m.ROLE_ASSISTANT, conversation_id="travel"),
        new_message(user, "search", "Kochi: 12 hotels found.", 250, m.ROLE_TOOL, conversation_id="travel"),
        new_message(user, "loose", "Kochi is hot.", 300),
        new_message(user, "hello", "Are we still flying to Kochi?", 400, conversation_id="now"),
        new_message(user, "reply", "Let me look at Kochi.", 500, m.ROLE_ASSISTANT, conversation_id="now"),
    ]


def test_recent_messages_are_the_current_conversation_and_related_the_others(vector_server: Server, user: str) -> None:
    token = write(vector_server, conversation(user))
    reply = build(vector_server, user, turns=[turn("When do we fly to Kochi?")], conversation_id="now", at_least=token)
    assert ids(reply.recent) == ["hello", "reply"]
    assert ids(reply.related) == ["kochi", "hotel", "loose"]
    assert (reply.token_count, reply.truncated, reply.index_lagging) == (count_tokens(reply.text), False, False)
    shown = [json.loads(line)[0] for line in reply.text.splitlines() if line.startswith("[")]
    assert shown == ids([*reply.related, *reply.recent])


def test_stored_conversation_is_used_without_turns(vector_server: Server, user: str) -> None:
    token = write(vector_server, conversation(user))
    reply = build(vector_server, user, conversation_id="now", at_least=token)
    assert ids(reply.recent) == ["hello", "reply"]
    assert "kochi" in ids(reply.related)


def test_a_turn_that_exceeds_the_query_limit_is_shortened(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings, user: str
) -> None:
    with start(own_settings.copy_with_changes(max_query_chars=50)) as server:
        token = write(server, conversation(user))
        turns = [turn("When do we fly to Kochi? " + "I do not remember. " * 20 + "Kochi!")]
        reply = build(server, user, turns=turns, conversation_id="now", at_least=token)
    assert "kochi" in ids(reply.related)


def test_excluded_conversations_have_no_related_messages(vector_server: Server, user: str) -> None:
    token = write(vector_server, conversation(user))
    excluded = {"conversation_id": "now", "exclude_conversation_ids": ["travel"]}
    reply = build(vector_server, user, turns=[turn("Kochi?")], at_least=token, **excluded)
    assert ids(reply.related) == ["loose"]


def test_tool_output_is_related_only_if_no_other_message_is(vector_server: Server, user: str) -> None:
    token = write(vector_server, [item for item in conversation(user) if item.message_id in {"search", "hello"}])
    reply = build(vector_server, user, turns=[turn("Kochi hotels")], conversation_id="now", at_least=token)
    assert ids(reply.related) == ["search"]


def test_messages_of_other_users_are_never_returned(vector_server: Server, user: str) -> None:
    write(vector_server, conversation(f"{user}-other"))
    token = write(vector_server, [new_message(user, "own", "Kochi again.", 50, conversation_id="mine")])
    reply = build(vector_server, user, turns=[turn("Kochi")], conversation_id="now", at_least=token)
    assert (ids(reply.recent), ids(reply.related)) == ([], ["own"])


def test_retracted_messages_are_marked(vector_server: Server, user: str) -> None:
    correction = new_message(user, "no", "We do not fly to Kochi.", 150, conversation_id="travel")
    correction.retracts.append("kochi")
    token = write(vector_server, [*conversation(user), correction])
    reply = build(vector_server, user, turns=[turn("fly to Kochi")], conversation_id="now", at_least=token)
    marked = {item.message.message_id: item.message.retracted_by for item in reply.related}
    assert (marked["kochi"], marked["no"]) == ("no", "")
    assert '{"retracted_by":"no"}' in reply.text


def test_messages_at_or_after_now_are_not_read(vector_server: Server, user: str) -> None:
    token = write(vector_server, conversation(user))
    request_fields = {
        "turns": [turn("Kochi")],
        "conversation_id": "now",
        "at_least": token,
        "now": Timestamp(seconds=300),
    }
    reply = build(vector_server, user, **request_fields)
    assert (ids(reply.recent), ids(reply.related)) == ([], ["kochi", "hotel"])


def test_a_short_reply_is_shown_with_the_message_before_it(vector_server: Server, user: str) -> None:
    talk = [
        new_message(user, "asked", "Which airline do you want?", 10, m.ROLE_ASSISTANT, conversation_id="travel"),
        new_message(user, "short", "Kochi Air", 20, conversation_id="travel"),
    ]
    token = write(vector_server, talk)
    reply = build(vector_server, user, turns=[turn("Kochi Air")], conversation_id="now", at_least=token)
    assert ids(reply.related) == ["asked", "short"]


SENTENCES = ["Tea is good.", "我喜欢喝茶。", "Line\n", '"quoted" tea!', "x" * 200]
sentences = st.lists(st.sampled_from(SENTENCES), max_size=40)
contents = sentences.map(lambda parts: "tea " + " ".join(parts))


@given(
    written=st.lists(st.tuples(contents, st.sampled_from(["", "now", "a", "b"])), min_size=1, max_size=12),
    max_tokens=st.integers(100, 1_500),
)
@settings(max_examples=15)
def test_the_text_stays_within_the_limit_and_contents_are_verbatim(
    vector_server: Server, written: list[tuple[str, str]], max_tokens: int
) -> None:
    user = f"user-{uuid.uuid4().hex}"
    stored = {
        f"m{n}": new_message(user, f"m{n}", content, n, conversation_id=conversation_id)
        for n, (content, conversation_id) in enumerate(written)
    }
    token = write(vector_server, stored.values())
    request_fields = {"turns": [turn("tea")], "conversation_id": "now", "at_least": token}
    reply = build(vector_server, user, max_tokens=max_tokens, **request_fields)
    assert count_tokens(reply.text) == reply.token_count <= max_tokens
    assert {item.message.conversation_id for item in reply.recent} <= {"now"}
    assert "now" not in {item.message.conversation_id for item in reply.related}
    for section in (reply.recent, reply.related):
        assert [item.message.ts.seconds for item in section] == sorted(item.message.ts.seconds for item in section)
        for item in section:
            whole = stored[item.message.message_id].content
            shown = item.message.content
            assert whole.startswith(shown)
            assert (shown == whole) is not item.truncated
            assert not item.truncated or shown[-1] in '.!。"e'
    if len(reply.recent) + len(reply.related) < len(stored):
        assert reply.truncated


def test_smallest_limit_admits_a_message(vector_server: Server, user: str) -> None:
    token = write(vector_server, [new_message(user, "m", "Tea. " + "Coffee is not tea. " * 30, 1)])
    reply = build(vector_server, user, turns=[turn("tea")], max_tokens=100, at_least=token)
    assert reply.related[0].message.content.startswith("Tea.")
    assert (reply.related[0].truncated, reply.truncated) == (True, True)
    assert reply.token_count <= 100


def test_every_invalid_field_is_reported(vector_server: Server, user: str) -> None:
    wrong = {
        "turns": [r.Turn(text=" ")],
        "conversation_id": "c" * 129,
        "max_tokens": 99,
        "time_zone": "Nowhere",
        "exclude_conversation_ids": ["ok", "\n"],
    }
    with pytest.raises(grpc.RpcError) as refused:
        build(vector_server, user, **wrong)
    assert sorted(refusal(refused.value).fields) == [
        "conversation_id", "exclude_conversation_ids[1]", "max_tokens", "time_zone", "turns[0].role", "turns[0].text",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, "turns"),
        ({"conversation_id": "c", "max_tokens": 32_001}, "max_tokens"),
        ({"conversation_id": "c", "max_tokens": -1}, "max_tokens"),
        ({"conversation_id": "c", "at_least": "forged"}, "at_least"),
        ({"conversation_id": "c", "exclude_conversation_ids": list("abcdefghijklmnop")}, "exclude_conversation_ids"),
    ],
)
def test_request_with_one_invalid_field_is_rejected(
    vector_server: Server, user: str, wrong: dict[str, object], field: str
) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        build(vector_server, user, **wrong)
    assert refusal(refused.value).fields == [field]


def test_context_requires_a_bound_user(vector_server: Server) -> None:
    with grpc.insecure_channel(vector_server.target) as channel, pytest.raises(grpc.RpcError) as refused:
        RecallServiceStub(channel).BuildContext(r.BuildContextRequest(conversation_id="c"))
    assert refusal(refused.value).reason == "USER_NOT_BOUND"


def test_client_returns_the_service_response(vector_server: Server, user: str) -> None:
    token = write(vector_server, conversation(user))
    with Client(vector_server.target) as client:
        turns: list[Turn] = [{"role": "user", "text": "Kochi"}]
        reply = client.build_context(turns, user_id=user, conversation_id="now", at_least=token)
    assert reply == build(vector_server, user, turns=[turn("Kochi")], conversation_id="now")
