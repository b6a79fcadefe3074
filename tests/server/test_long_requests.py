"""Tests that large requests are counted first and parsed in chunks without blocking other requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.server.api.parsing import MAX_READ_BYTES, RequestParser
from nomemory.server.faults import Fault
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

MANY = 20_001
PIECE = 65_536
WRITES = RequestParser(i.WriteMessagesRequest.DESCRIPTOR, is_write=True)
READS = RequestParser(q.ListMessagesRequest.DESCRIPTOR, is_write=False)


def refused(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code(), refusal(error.value).reason


def parsed(parse: Callable[[bytes], object], raw: bytes) -> object | None:
    try:
        return parse(raw)
    except (DecodeError, Fault):
        return None


def written(raw: bytes) -> object:
    return asyncio.run(WRITES.parse(raw))


def test_filter_with_too_many_metadata_entries_is_rejected(server: Server, user: str) -> None:
    message_filter = m.Filter(metadata={f"k{n}": "v" for n in range(MANY)})
    request = q.ListMessagesRequest(user_id=user, filter=message_filter)
    assert refused(lambda: server.query.ListMessages(request)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    few = q.ListMessagesRequest(user_id=user, filter=m.Filter(metadata={str(n): "\0" for n in range(1_001)}))
    with pytest.raises(grpc.RpcError) as error:
        server.query.ListMessages(few)
    assert refusal(error.value).descriptions == ["must have at most 4 entries"], "excess entries are not parsed"


def test_field_mask_with_too_many_paths_is_rejected(server: Server, user: str) -> None:
    request = q.ListMessagesRequest(user_id=user)
    request.return_fields.paths.extend(["content"] * 101)
    assert refused(lambda: server.query.ListMessages(request)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


def test_empty_batch_is_rejected(server: Server, user: str) -> None:
    nothing = i.WriteMessagesRequest(messages=[m.ChatMessage()] * 40_000)
    assert refused(lambda: server.ingest.WriteMessages(nothing)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    ids = q.BatchGetMessagesRequest(user_id=user, message_ids=[""] * 40_000)
    assert refused(lambda: server.query.BatchGetMessages(ids)) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


def test_oversized_read_request_is_rejected(server: Server, user: str) -> None:
    request = q.LexicalSearchRequest(user_id=user, query_text="x" * MAX_READ_BYTES)
    rejection = refused(lambda: server.query.LexicalSearch(request))
    assert rejection == (grpc.StatusCode.RESOURCE_EXHAUSTED, "REQUEST_TOO_LARGE")
    short = q.LexicalSearchRequest(user_id=user, query_text="x" * (MAX_READ_BYTES // 2))
    rejection = refused(lambda: server.query.LexicalSearch(short))
    assert rejection == (grpc.StatusCode.INVALID_ARGUMENT, "QUERY_TOO_COMPLEX")


def test_too_long_message_is_reported(server: Server, user: str) -> None:
    long = new_message(user, "m1", "x" * 1_000_000, ts=1)
    with pytest.raises(grpc.RpcError) as error:
        server.ingest.WriteMessages(i.WriteMessagesRequest(messages=[new_message(user, "m0", "x", ts=1), long]))
    assert set(refusal(error.value).fields) == {"messages[1].content"}


@given(
    st.lists(
        st.builds(
            m.ChatMessage,
            user_id=st.text(max_size=5),
            content=st.text(max_size=50).map(lambda text: text * 400),
            metadata=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
            embedding=st.lists(st.floats(width=32, allow_nan=False), max_size=20),
        ),
        max_size=12,
    ),
    st.text(max_size=5),
    st.booleans(),
)
def test_parsed_chunks_equal_the_request(messages: list[m.ChatMessage], request_id: str, replace: bool) -> None:  # noqa: FBT001 - drawn
    request = i.WriteMessagesRequest(messages=[*messages, m.ChatMessage(content="x" * PIECE)] * 2)
    request.request_id, request.replace = request_id, replace
    assert written(request.SerializeToString()) == request


@given(st.binary(min_size=1, max_size=200), st.integers(0, 3))
def test_malformed_request_is_rejected(damage: bytes, whole: int) -> None:
    request = i.WriteMessagesRequest(messages=[m.ChatMessage(content="x" * PIECE)] * (whole + 1))
    raw = request.SerializeToString() + damage
    expected, actual = parsed(i.WriteMessagesRequest.FromString, raw), parsed(written, raw)
    assert actual == expected or actual is None, "the parser may be stricter but never returns another message"


@pytest.mark.parametrize("tail", [b"\x0b" * 9, b"\x80" * 100_000, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a"])
def test_hidden_entries_are_counted_and_rejected(tail: bytes) -> None:
    raw = tail + b"\x0a\x00" * 100_000
    with pytest.raises(Fault):
        written(raw)


def test_parsing_a_large_request_does_not_block_other_tasks() -> None:
    raw = i.WriteMessagesRequest(messages=[m.ChatMessage(content="x" * PIECE)] * 50).SerializeToString()

    async def turns() -> int:
        parsing, count = asyncio.ensure_future(WRITES.parse(raw)), 0
        while not parsing.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert asyncio.run(turns()) >= 50


def test_filter_fields_are_validated() -> None:
    raw = q.ListMessagesRequest(filter=m.Filter(metadata={f"{n:09}": "" for n in range(MANY)})).SerializeToString()
    with pytest.raises(Fault) as refused_by:
        asyncio.run(READS.parse(raw))
    assert [violation.field for violation in refused_by.value.violations] == ["metadata"]


def test_total_entries_are_limited_and_counting_does_not_block_other_tasks() -> None:
    tiny = b"\x1a\x00" * (MANY - 1)
    message = b"\x0a" + bytes([len(tiny) & 0x7F | 0x80, len(tiny) >> 7 & 0x7F | 0x80, len(tiny) >> 14]) + tiny

    async def longest_turn_s() -> float:
        parsing, longest_s = asyncio.ensure_future(WRITES.parse(message * 400)), 0.0
        while not parsing.done():
            began = time.perf_counter()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.perf_counter() - began)
        with pytest.raises(Fault, match="in total"):
            parsing.result()
        return longest_s

    assert asyncio.run(longest_turn_s()) < 1.0
