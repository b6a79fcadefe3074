"""Tests for the protobuf JSON mapping of messages and the rejection of invalid JSON."""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import suppress
from threading import get_ident
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from identity.contract import METHODS

from nomemory.server.api.http.conversion_threads import ConversionThreads
from nomemory.server.api.http.json_mapping import decode_message, encode_message, parse_json
from nomemory.server.faults import Fault
from nomemory.v1 import ingest_service_pb2, query_service_pb2


def as_struct(fields: dict[str, str]) -> Struct:
    struct = Struct()
    struct.update(fields)
    return struct


TYPES = sorted({of for method in METHODS.values() for of in (method.request_type, method.reply_type)}, key=str)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
FLOATS = st.floats(-(2.0**126), 2.0**126, width=32) | st.sampled_from([math.inf, -math.inf])
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: FLOATS,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_STRING: TEXT,
}
SECONDS = st.integers(-62_135_596_800, 253_402_300_799)
NANOS = st.integers(0, 999_999_999) | st.integers(0, 999_999).map(lambda micros: micros * 1000) | st.just(0)
WELL_KNOWN: dict[str, st.SearchStrategy[Any]] = {
    "google.protobuf.Timestamp": st.builds(Timestamp, seconds=SECONDS, nanos=NANOS),
    "google.protobuf.Duration": st.builds(Duration, seconds=st.integers(0, 10**9), nanos=NANOS),
    "google.protobuf.FieldMask": st.just(FieldMask(paths=["message_id", "ts"])),
    "google.protobuf.Struct": st.dictionaries(TEXT, TEXT, max_size=2).map(as_struct),
}


@st.composite
def messages(draw: st.DrawFn, of: Descriptor, depth: int = 0) -> ProtoMessage:
    """Generate messages of a type, with any of their fields set."""
    if of.full_name in WELL_KNOWN:
        made: ProtoMessage = draw(WELL_KNOWN[of.full_name])
        return made
    message = GetMessageClass(of)()
    for field in of.fields:
        if draw(st.booleans()):
            put(draw, message, field, depth)
    return message


def put(draw: st.DrawFn, message: ProtoMessage, field: FieldDescriptor, depth: int) -> None:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        getattr(message, field.name).update(draw(st.dictionaries(TEXT, TEXT, max_size=2)))
    elif inner is not None and depth < 4:
        values = draw(st.lists(messages(inner, depth + 1), max_size=2)) if field.is_repeated else None
        if values is None:
            getattr(message, field.name).CopyFrom(draw(messages(inner, depth + 1)))
        else:
            getattr(message, field.name).extend(values)
    elif inner is None:
        strategy = (
            st.sampled_from(sorted(field.enum_type.values_by_number)) if field.enum_type else SCALARS[field.cpp_type]
        )
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(strategy, max_size=3)))
        else:
            setattr(message, field.name, draw(strategy))


def as_bytes(message: ProtoMessage) -> bytes:
    return message.SerializeToString(deterministic=True)  # where NaN equals NaN


@pytest.mark.parametrize("of", TYPES, ids=lambda of: of.DESCRIPTOR.name)
@settings(max_examples=12)
@given(data=st.data())
def test_json_round_trip_keeps_messages(of: type[ProtoMessage], data: st.DataObject) -> None:
    descriptor: Any = of.DESCRIPTOR  # the descriptors of upb have a separate type
    message = data.draw(messages(descriptor))
    assert as_bytes(decode_message(parse_json(encode_message(message)), descriptor)) == as_bytes(message)
    for names in (False, True):
        text = json_format.MessageToJson(message, preserving_proto_field_name=names)
        assert as_bytes(decode_message(parse_json(text.encode()), descriptor)) == as_bytes(message)


def test_negative_zero_is_kept() -> None:
    message = query_service_pb2.HybridSearchResponse(sufficiency=-0.0)
    assert as_bytes(json_format.Parse(encode_message(message), type(message)())) == as_bytes(message) != b""


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
KEYS = TEXT | st.sampled_from(["messages", "user_id", "ts", "metadata", "embedding", "role"])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(ANYTHING)
def test_arbitrary_json_is_decoded_or_rejected(value: object) -> None:
    document = json.loads(json.dumps(value))
    with suppress(Fault):
        decode_message(document, METHODS["WriteMessages"].descriptor.input_type)


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_parsed_or_rejected(raw: bytes) -> None:
    with suppress(Fault):
        parse_json(raw)


def test_full_batch_with_vectors_is_within_the_limits() -> None:
    message = {"metadata": dict.fromkeys(map(str, range(40)), ""), "embedding": [0.5] * 1024}
    raw = json.dumps({"messages": [message] * 1000}).encode()
    assert parse_json(raw) == json.loads(raw)


def test_short_enum_names_are_decoded_at_every_depth() -> None:
    document = {"messages": [{"role": "user"}, {"role": "ROLE_TOOL"}, {"role": 2}]}
    batch = decode_message(document, METHODS["WriteMessages"].descriptor.input_type)
    assert isinstance(batch, ingest_service_pb2.WriteMessagesRequest)
    assert [message.role for message in batch.messages] == [1, 4, 2]


def test_large_messages_are_converted_in_threads() -> None:
    threads = ConversionThreads()
    assert asyncio.run(threads.run(100, get_ident)) == get_ident()
    assert asyncio.run(threads.run(1_000_000, get_ident)) != get_ident()
