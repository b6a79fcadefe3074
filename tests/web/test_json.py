"""JSON is what protobuf maps messages to: its own `json_format` reads what is written, and writes what is read."""

from __future__ import annotations

import asyncio
import json
import math
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

from nomemory.server.faults import Fault, Violation
from nomemory.server.settings.serving import HttpSettings
from nomemory.server.web.bindings import in_turn
from nomemory.server.web.transcoding import decode, encode, parse
from nomemory.v1 import query_service_pb2


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
    """Make messages of a type in which each field may be set."""
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
        one = st.sampled_from(sorted(field.enum_type.values_by_number)) if field.enum_type else SCALARS[field.cpp_type]
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(one, max_size=3)))
        else:
            setattr(message, field.name, draw(one))


def as_bytes(message: ProtoMessage) -> bytes:
    return message.SerializeToString(deterministic=True)  # in which NaN is NaN


@pytest.mark.parametrize("of", TYPES, ids=lambda of: of.DESCRIPTOR.name)
@settings(max_examples=12)
@given(data=st.data())
def test_messages_become_the_json_of_protobuf_and_back(of: type[ProtoMessage], data: st.DataObject) -> None:
    message = data.draw(messages(of.DESCRIPTOR))  # type: ignore[arg-type]  # the descriptors of upb
    written = encode(message)
    assert as_bytes(json_format.Parse(written, of())) == as_bytes(message)
    for names in (False, True):
        found, violations = of(), list[Violation]()
        text = json_format.MessageToJson(message, preserving_proto_field_name=names)
        decode(found, parse(text.encode(), 10**6, 10**6), violations)
        assert not violations
        assert as_bytes(found) == as_bytes(message)


def test_a_zero_with_a_sign_is_kept() -> None:
    message = query_service_pb2.HybridSearchResponse(sufficiency=-0.0)
    assert as_bytes(json_format.Parse(encode(message), type(message)())) == as_bytes(message) != b""


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
KEYS = TEXT | st.sampled_from(["messages", "user_id", "ts", "metadata", "embedding", "role"])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(ANYTHING)
def test_any_json_is_read_or_refused(value: object) -> None:
    of = METHODS["WriteMessages"].request_type
    violations: list[Violation] = []
    decode(of(), json.loads(json.dumps(value)), violations)
    assert all(one.field and one.description for one in violations)


@given(st.binary(max_size=40))
def test_any_bytes_are_json_or_refused(raw: bytes) -> None:
    try:
        parse(raw, 10**6, 10**6)
    except Fault as fault:
        assert fault.reason  # noqa: PT017 - it need not be refused


def test_a_whole_batch_with_its_vectors_fits() -> None:
    limits = HttpSettings()
    message = {"metadata": dict.fromkeys(map(str, range(40)), ""), "embedding": [0.5] * 1024}
    raw = json.dumps({"messages": [message] * 1000}).encode()
    assert parse(raw, limits.json_values_max, limits.json_numbers_max) == json.loads(raw)


def test_a_long_text_is_read_in_a_thread() -> None:
    def here(_raw: bytes) -> bytes:
        return str(get_ident()).encode()

    assert asyncio.run(in_turn(b"short", here)) == here(b"")
    assert asyncio.run(in_turn(bytes(1_000_000), here)) != here(b"")
