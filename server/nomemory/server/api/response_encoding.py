"""Encoding of responses that list messages, without decoding stored messages.

A response that lists messages contains them in field 1, and the message log stores encoded ChatMessages. The encoder
concatenates the length-delimited messages with the other encoded fields of the response. Decoding and re-encoding the
messages would take most of the time of a request. Messages are decoded only if a field mask excludes some of their
fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.validation.checker import Mask
from nomemory.server.message import LoggedMessage
from nomemory.server.search.hybrid.hit import HybridHit
from nomemory.server.search.hybrid.related_messages import Relation
from nomemory.server.search.ranked import RankedMessage
from nomemory.server.store.results import ConversationSummary
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_FIELD_1_BYTES = b"\x0a"  # (1 << 3) | 2: field 1, length-delimited
_FIELD_2_FLOAT = b"\x15"  # (2 << 3) | 5: field 2, 32 bits
_ALL_FIELDS = tuple(message_pb2.ChatMessage.DESCRIPTOR.fields_by_name)


def encode_listing_reply(wires: Iterable[bytes], mask: Mask, rest: ProtoMessage) -> bytes:
    """Return an encoded response with the messages in field 1 and the fields of `rest`."""
    payloads = wires if mask is None else [_apply_mask(wire, mask) for wire in wires]
    framed = [part for payload in payloads for part in (_encode_header(len(payload)), payload)]
    return b"".join([*framed, rest.SerializeToString()])


def encode_semantic_reply(items: Sequence[RankedMessage], mask: Mask, rest: ProtoMessage) -> bytes:
    """Return an encoded response with SemanticItems in field 1 and the fields of `rest`."""
    return b"".join(_encode_scored_item(item.message, item.score, mask) for item in items) + rest.SerializeToString()


def encode_hybrid_reply(items: Sequence[HybridHit], mask: Mask, rest: ProtoMessage, *, explain: bool) -> bytes:
    """Return an encoded response with HybridItems in field 1 and the fields of `rest`."""
    framed = [
        _encode_scored_item(item.message, item.score, mask, _encode_explanation(item) if explain else b"")
        for item in items
    ]
    return b"".join(framed) + rest.SerializeToString()


def encode_conversation(summary: ConversationSummary) -> pb.Conversation:
    """Encode a conversation summary as a protobuf message."""
    encoded = pb.Conversation(conversation_id=summary.conversation_id, message_count=summary.messages)
    encoded.first_ts.FromMicroseconds(summary.first_us)
    encoded.last_ts.FromMicroseconds(summary.last_us)
    return encoded


def _encode_scored_item(message: LoggedMessage, score: float, mask: Mask, other_fields: bytes = b"") -> bytes:
    """Return a SemanticItem or HybridItem, encoded as field 1 of its response."""
    encoded_score = _FIELD_2_FLOAT + struct.pack("<f", score)
    return _encode_frame(_encode_frame(_apply_mask(message.wire, mask)) + encoded_score + other_fields)


def _encode_explanation(item: HybridHit) -> bytes:
    components = [pb.ScoreComponent(name=name, value=value) for name, value in item.components.items() if value]
    explanation = pb.ScoreExplanation(
        semantic_score=item.semantic_score,
        lexical_score=item.lexical_score,
        coverage=item.coverage,
        semantic_z_score=item.semantic_z_score,
        components=components,
    )
    return pb.HybridItem(explanation=explanation).SerializeToString()


def encode_relation(relation: Relation) -> pb.MessageRelation:
    """Encode a relation between two messages as a protobuf message."""
    return pb.MessageRelation(
        earlier_message_id=relation.earlier_id,
        later_message_id=relation.later_id,
        semantic_z_score=relation.z_score,
        shared_terms=relation.shared_terms,
    )


def _apply_mask(wire: bytes, mask: Mask) -> bytes:
    if mask is None:
        return wire
    chat = message_pb2.ChatMessage.FromString(wire)
    for field in _ALL_FIELDS:
        if field not in mask:
            chat.ClearField(field)  # type: ignore[arg-type]  # the stub expects literals
    return chat.SerializeToString()


def _encode_frame(payload: bytes) -> bytes:
    return _encode_header(len(payload)) + payload


@lru_cache(4096)
def _encode_header(length: int) -> bytes:
    """Return the tag and the length prefix of field 1. The result is cached because message sizes repeat."""
    return _FIELD_1_BYTES + _encode_varint(length)


def _encode_varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - each byte holds seven bits
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
