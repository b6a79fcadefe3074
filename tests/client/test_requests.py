"""Tests for the conversion of plain values to requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nomemory.client import requests
from nomemory.client.channel import build_channel_options, is_loopback
from nomemory.client.messages import NewMessage, chat_message, to_role_name, to_role_value, to_timestamp
from nomemory.v1 import message_pb2, recall_service_pb2

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def new_message(message_id: str = "m", content: str = "你好", user_id: str = "ann") -> message_pb2.ChatMessage:
    return chat_message(user_id=user_id, ts=NOON, role="user", content=content, message_id=message_id)


def test_message_is_built_from_plain_values() -> None:
    message = chat_message(
        user_id="ann",
        ts=NOON,
        role="assistant",
        content="吃了吗？",
        message_id="m1",
        name="Bo",
        conversation_id="c1",
        metadata={"k": "v"},
        embedding=[0.5, -0.5],
    )
    assert message == message_pb2.ChatMessage(
        user_id="ann",
        ts=to_timestamp("ts", NOON),
        role=message_pb2.ROLE_ASSISTANT,
        content="吃了吗？",
        message_id="m1",
        name="Bo",
        conversation_id="c1",
        metadata={"k": "v"},
        embedding=[0.5, -0.5],
    )


def test_dictionary_is_accepted_as_a_message() -> None:
    described: NewMessage = {"user_id": "ann", "ts": NOON, "role": "user", "content": "你好", "message_id": "m"}
    assert list(requests.write([described, new_message()]).messages) == [new_message(), new_message()]
    (batch,) = requests.import_batches([described])
    assert list(batch.messages) == [new_message()]


def test_add_accepts_chat_api_messages() -> None:
    parts = [{"type": "text", "text": "Be"}, {"type": "input_text", "text": "brief."}]
    request = requests.add(
        "ann",
        [
            {"role": "developer", "content": parts},
            {"role": "user", "content": "你好", "ts": NOON, "message_id": "m", "conversation_id": "other"},
        ],
        conversation_id="c1",
    )
    assert list(request.messages) == [
        chat_message(user_id="ann", role="system", content="Be\nbrief.", conversation_id="c1"),
        chat_message(user_id="ann", role="user", content="你好", ts=NOON, message_id="m", conversation_id="other"),
    ]
    assert not request.messages[0].HasField("ts"), "the server sets the receipt time"
    assert request.request_id, "a retry stores it once"
    assert list(requests.add("ann", {"role": "user", "content": "你好"}).messages) == list(
        requests.add("ann", "你好").messages
    )
    assert list(requests.add("ann", "你好").messages) == [chat_message(user_id="ann", role="user", content="你好")]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"role": "poet", "content": "hi"}, "role must be one of user"),
        ({"content": "hi"}, "role must be one of user"),
        ({"role": "user"}, "content"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "tool_calls"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "image_url"),
        ({"role": "user", "content": "hi", "user_id": "bob"}, "user_id"),
    ],
)
def test_messages_that_cannot_be_added_are_reported(message: dict[str, Any], why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=why):
        requests.add("ann", [message])


def test_unknown_message_field_is_rejected() -> None:
    misspelt: Any = {"user_id": "ann", "ts": NOON, "role": "user", "content": "hi", "conversationId": "c"}
    with pytest.raises(TypeError, match="conversationId"):
        requests.write([misspelt])


def test_naive_datetime_is_rejected() -> None:
    naive = NOON.replace(tzinfo=None)
    with pytest.raises(ValueError, match="ts has no time zone"):
        chat_message(user_id="ann", ts=naive, role="user", content="hi")
    with pytest.raises(ValueError, match="since has no time zone"):
        requests.list_messages("ann", since=naive)
    with pytest.raises(ValueError, match="until has no time zone"):
        requests.semantic_search("ann", "tea", until=naive)


@pytest.mark.parametrize(
    "text",
    ["2024-05-01T12:00:00Z", "2024-05-01T20:00:00+08:00", "2024-05-01t12:00:00.000000z", "2024-05-01 12:00:00.0Z"],
)
def test_rfc_3339_text_is_accepted_as_a_time(text: str) -> None:
    written = chat_message(user_id="ann", ts=text, role="user", content="hi")
    listed = requests.list_messages("ann", since=text, until=text)
    request = requests.recall("tea?", since=text, until=text, now=text)
    noon = to_timestamp("ts", NOON)
    assert written.ts == noon
    for span in (listed.filter.time_range, request.context.time_range):
        assert (span.since, span.until) == (noon, noon)
    assert request.context.now == noon


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01T00:00:00Z", "1714564800"])
def test_invalid_time_text_error_names_the_field(text: str) -> None:
    with pytest.raises(ValueError, match="ts must be an RFC 3339 time"):
        chat_message(user_id="ann", ts=text, role="user", content="hi")
    with pytest.raises(ValueError, match="since must be an RFC 3339 time"):
        requests.list_messages("ann", since=text)
    with pytest.raises(ValueError, match="now must be an RFC 3339 time"):
        requests.recall("tea?", now=text)


def test_time_text_without_a_time_zone_is_rejected() -> None:
    for text in ("2024-05-01T12:00:00", "2024-05-01"):
        with pytest.raises(ValueError, match="until has no time zone"):
            requests.hybrid_search("ann", "tea?", until=text)


def test_a_numeric_timestamp_is_a_type_error() -> None:
    number: Any = 1714564800
    with pytest.raises(TypeError, match="ts must be a datetime or an RFC 3339 string"):
        chat_message(user_id="ann", ts=number, role="user", content="hi")


def test_time_outside_the_calendar_in_utc_is_rejected() -> None:
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(ValueError, match="must be between the years 1 and 9999 in UTC"):
        to_timestamp("ts", early)


@given(st.datetimes(timezones=st.timezones()))
def test_time_conversion_is_exact_to_the_microsecond(moment: datetime) -> None:
    assume(1 < moment.year < 9999)
    assert to_timestamp("ts", moment).ToDatetime(tzinfo=UTC) == moment.astimezone(UTC)


def test_role_names_are_converted_in_both_directions() -> None:
    for name in ("user", "assistant", "system", "tool"):
        assert to_role_name(to_role_value(name)) == name
    with pytest.raises(ValueError, match="role must be one of"):
        to_role_value("boss")


def test_unset_options_are_not_sent() -> None:
    assert requests.list_messages("ann").ByteSize() == len(b"\x0a\x03ann\x12\x00")
    assert not requests.lexical_search("ann", "tea").HasField("highlight")
    assert not requests.semantic_search("ann", "tea").HasField("min_score")
    assert not requests.neighbors("ann", "m").HasField("before")


def test_explicit_zero_is_sent() -> None:
    assert requests.lexical_search("ann", "tea", snippet_chars=0).HasField("highlight")
    assert requests.semantic_search("ann", "tea", min_score=0.0).HasField("min_score")
    assert requests.neighbors("ann", "m", before=0).HasField("before")


def test_every_option_sets_its_request_field() -> None:
    request = requests.lexical_search(
        "ann",
        "茶",
        since=NOON,
        until=NOON + timedelta(days=1),
        role="user",
        conversation_id="c",
        metadata={"app": "phone"},
        page_size=7,
        cursor="c_1",
        return_fields=["content"],
        at_least="t_1",
        snippet_chars=80,
    )
    assert request.filter.time_range.since == to_timestamp("since", NOON)
    assert request.filter.time_range.until == to_timestamp("until", NOON + timedelta(days=1))
    assert request.filter.role == message_pb2.ROLE_USER
    assert dict(request.filter.metadata) == {"app": "phone"}
    assert (request.filter.conversation_id, request.page_size, request.cursor) == ("c", 7, "c_1")
    assert (list(request.return_fields.paths), request.at_least) == (["content"], "t_1")
    assert request.highlight.snippet_chars == 80


def test_a_semantic_query_is_a_text_or_a_vector() -> None:
    assert requests.semantic_search("ann", "tea").WhichOneof("query") == "query_text"
    assert requests.semantic_search("ann", [0.0, 1.0]).query_embedding.values == [0.0, 1.0]
    assert requests.semantic_search("ann", []).WhichOneof("query") == "query_embedding"


def test_question_embedding_is_sent() -> None:
    assert requests.hybrid_search("ann", "tea?", embedding=[0.0, 1.0]).query_embedding.values == [0.0, 1.0]
    assert requests.recall("tea?", question_embedding=[0.0, 1.0]).question_embedding.values == [0.0, 1.0]
    assert not requests.hybrid_search("ann", "tea?").HasField("query_embedding")
    assert not requests.recall("tea?").HasField("question_embedding")
    # the server reports an empty vector; the client must not omit it
    assert requests.hybrid_search("ann", "tea?", embedding=[]).HasField("query_embedding")
    assert requests.recall("tea?", question_embedding=[]).HasField("question_embedding")


def test_hybrid_search_request_has_all_options() -> None:
    request = requests.hybrid_search(
        "ann", "tea?", role="user", top_k=7, explain=True, return_fields=["content"], at_least="t_1"
    )
    assert (request.top_k, request.explain, request.at_least) == (7, True, "t_1")
    assert (request.filter.role, list(request.return_fields.paths)) == (message_pb2.ROLE_USER, ["content"])


def test_write_gets_a_request_id_only_without_message_ids() -> None:
    assert requests.write([new_message("")]).request_id
    assert requests.write([new_message("")]).request_id != requests.write([new_message("")]).request_id
    assert not requests.write([new_message("m1")]).request_id
    assert requests.write([new_message("m1")], request_id="mine").request_id == "mine"


def test_import_batches_are_limited_by_count_and_size() -> None:
    short = list(requests.import_batches(new_message(f"m{n}") for n in range(2_500)))
    assert [len(batch.messages) for batch in short] == [1_000, 1_000, 500]
    long = list(requests.import_batches(new_message(f"m{n}", "长" * 80_000) for n in range(40)))
    assert all(batch.ByteSize() <= requests.BATCH_BYTES * 1.01 for batch in long)
    assert [message.message_id for batch in long for message in batch.messages] == [f"m{n}" for n in range(40)]


def test_message_larger_than_a_batch_is_sent_alone() -> None:
    sizes = [
        len(b.messages)
        for b in requests.import_batches([new_message("a"), new_message("b", "x" * 5_000_000), new_message("c")])
    ]
    assert sizes == [1, 1, 1]


def test_empty_import_sends_no_batch() -> None:
    assert list(requests.import_batches([])) == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("127.0.0.1:7700", True),
        ("localhost:1", True),
        ("[::1]:7700", True),
        ("memory.example.com:443", False),
        ("10.0.0.1:7700", False),
    ],
)
def test_loopback_connections_use_no_proxy(target: str, expected: bool) -> None:  # noqa: FBT001 - a parameter of a table
    assert is_loopback(target) is expected
    assert (("grpc.enable_http_proxy", 0) in build_channel_options(target, 1)) is expected


def test_attempts_out_of_range_are_rejected() -> None:
    for attempts in (0, 6):
        with pytest.raises(ValueError, match="attempts must be"):
            build_channel_options("localhost:1", attempts)


def test_recall_request_has_conversation_turns_and_write_token() -> None:
    built = requests.recall(conversation_id="c", turns=[{"role": "assistant", "text": "Well?"}], at_least="w_x")
    context = recall_service_pb2.RecallContext(
        conversation_id="c", turns=[recall_service_pb2.Turn(role=message_pb2.ROLE_ASSISTANT, text="Well?")]
    )
    assert built == recall_service_pb2.RecallRequest(context=context, at_least="w_x")
    assert requests.stream_recall("tea?", at_least="w_x").at_least == "w_x"
