"""Replies as bytes, spliced from the messages' own bytes.

Every reply that lists messages has them in field 1. The log keeps each message as the bytes of a ChatMessage. So a
reply is the framed messages, followed by its other fields. Nothing is decoded and encoded again, which would be most
of the cost of a page. A message is built anew only if a mask leaves out some of its fields.
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
from nomemory.server.search.ranked import Ranked
from nomemory.server.store.results import ConversationSummary
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_FIELD_1_BYTES = b"\x0a"  # (1 << 3) | 2: field 1, length-delimited
_FIELD_2_FLOAT = b"\x15"  # (2 << 3) | 5: field 2, 32 bits
_ALL_FIELDS = tuple(message_pb2.ChatMessage.DESCRIPTOR.fields_by_name)


def listing_reply(wires: Iterable[bytes], mask: Mask, rest: ProtoMessage) -> bytes:
    """Return a reply with the messages in field 1. `rest` has its other fields."""
    payloads = wires if mask is None else [_masked(wire, mask) for wire in wires]
    framed = [part for payload in payloads for part in (_header(len(payload)), payload)]
    return b"".join([*framed, rest.SerializeToString()])


def semantic_reply(items: Sequence[Ranked], mask: Mask, rest: ProtoMessage) -> bytes:
    """Return a reply with SemanticItems in field 1. Each has a message in field 1 and its score in field 2."""
    return b"".join(_scored(item.message, item.score, mask) for item in items) + rest.SerializeToString()


def hybrid_reply(items: Sequence[HybridHit], mask: Mask, rest: ProtoMessage, *, explain: bool) -> bytes:
    """Return a reply with HybridItems in field 1: the fields of a SemanticItem, and an explanation if asked for."""
    framed = [_scored(item.message, item.score, mask, _explained(item) if explain else b"") for item in items]
    return b"".join(framed) + rest.SerializeToString()


def conversation(summary: ConversationSummary) -> pb.Conversation:
    """Return a conversation as the contract has it."""
    one = pb.Conversation(conversation_id=summary.conversation_id, message_count=summary.messages)
    one.first_ts.FromMicroseconds(summary.first_us)
    one.last_ts.FromMicroseconds(summary.last_us)
    return one


def _scored(message: LoggedMessage, score: float, mask: Mask, beside: bytes = b"") -> bytes:
    return _framed(_framed(_masked(message.wire, mask)) + _FIELD_2_FLOAT + struct.pack("<f", score) + beside)


def _explained(item: HybridHit) -> bytes:
    components = [pb.ScoreComponent(name=name, value=value) for name, value in item.components.items() if value]
    explanation = pb.ScoreExplanation(
        semantic_score=item.semantic_score,
        lexical_score=item.lexical_score,
        coverage=item.coverage,
        semantic_z_score=item.deviations,
        components=components,
    )
    return pb.HybridItem(explanation=explanation).SerializeToString()


def encode_relation(relation: Relation) -> pb.MessageRelation:
    """Return a relation as the contract has it."""
    return pb.MessageRelation(
        earlier_message_id=relation.earlier,
        later_message_id=relation.later,
        nearness=relation.nearness,
        shared_words=relation.shared,
    )


def _masked(wire: bytes, mask: Mask) -> bytes:
    if mask is None:
        return wire
    chat = message_pb2.ChatMessage.FromString(wire)
    for field in _ALL_FIELDS:
        if field not in mask:
            chat.ClearField(field)  # type: ignore[arg-type]  # the stub wants literals; these are the field's own names
    return chat.SerializeToString()


def _framed(payload: bytes) -> bytes:
    return _header(len(payload)) + payload


@lru_cache(4096)
def _header(length: int) -> bytes:
    """Return tag and length of field 1, by the length of the payload: most messages have one of a few hundred."""
    return _FIELD_1_BYTES + _varint(length)


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits in each byte
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
