"""Requests of the IngestService, checked once and turned into what the log takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from nomemory.server.api.validation.checker import Checker, checking
from nomemory.server.faults import Reason, Violation
from nomemory.server.message import ID_MAX_CHARS, Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.settings import Settings
from nomemory.server.store.results import OnConflict
from nomemory.v1 import ingest_service_pb2 as pb
from nomemory.v1 import message_pb2

_DELETE_BATCH_MAX: Final = 1000
"""Maximum ids in one DeleteMessages."""
_NAME_MAX_CHARS: Final = 128
"""Longest name of a speaker."""
_METADATA_MAX_ENTRIES: Final = 32
"""Maximum metadata entries of a message."""
_RETRACTS_MAX: Final = 32
"""Maximum messages that a message retracts."""

_AT_ONCE = 32
"""How many messages are checked before other calls run: about half a millisecond."""


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message of an import that is not stored. `violations` name fields without the position in the batch."""

    position: int
    message_id: str
    reason: Reason.ValueType
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of a batch to store; those without an id get theirs from the log.

    Of an import also their positions in the batch, and those refused.
    """

    messages: list[Message]
    on_conflict: OnConflict
    request_id: str
    positions: list[int] = field(default_factory=list)
    refused: list[RefusedMessage] = field(default_factory=list)


async def decode_write(request: pb.WriteMessagesRequest, settings: Settings, dimension: int) -> Batch:
    """Check a WriteMessagesRequest. Other calls run in between.

    Raises:
        Fault: INVALID_FIELD with every violation of every message.
    """
    with checking(settings) as check:
        _check_batch(check, request)
        arrived_us = _now_us()
        messages = [
            _message(check, f"messages[{position}].", chat, dimension, arrived_us + position)
            async for position, chat in _in_turns(request.messages[: settings.limits.max_batch_messages])
        ]
        return Batch(messages, OnConflict.REPLACE if request.replace else OnConflict.REFUSE, request.request_id)


async def decode_import(request: pb.ImportMessagesRequest, settings: Settings, dimension: int) -> Batch:
    """Check a batch of an import, message by message. Other calls run in between.

    Raises:
        Fault: INVALID_FIELD if the batch itself is bad: empty, too long, or with a bad request_id.
    """
    with checking(settings) as check:
        _check_batch(check, request)
    batch = Batch([], OnConflict.REPLACE if request.replace else OnConflict.SKIP, request.request_id)
    arrived_us = _now_us()
    async for position, chat in _in_turns(request.messages):
        alone = Checker(settings)
        message = _message(alone, "", chat, dimension, arrived_us + position)
        if alone.violations:
            shown_id = chat.message_id[:ID_MAX_CHARS]
            reason = Reason.ERROR_REASON_INVALID_FIELD
            batch.refused.append(RefusedMessage(position, shown_id, reason, tuple(alone.violations)))
        else:
            batch.messages.append(message)
            batch.positions.append(position)
    return batch


def decode_delete(request: pb.DeleteMessagesRequest, settings: Settings) -> Filter | None:
    """Check a DeleteMessagesRequest. Return the filter; None where it names messages by their ids.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        check.user("user_id", request.user_id)
        if request.message_ids or not request.HasField("filter"):
            check.identifiers("message_ids", request.message_ids, most=_DELETE_BATCH_MAX)
        if request.HasField("filter"):
            return _matching(check, request)
        if not request.message_ids:
            check.refuse("filter", "must be set where message_ids is empty")
        return None


def decode_user(user_id: str, settings: Settings, *, required: bool) -> str:
    """Check the user of a request that has no other field.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        return check.user("user_id", user_id, required=required)


async def _in_turns(
    messages: Sequence[message_pb2.ChatMessage],
) -> AsyncIterator[tuple[int, message_pb2.ChatMessage]]:
    for position, chat in enumerate(messages):
        if position and not position % _AT_ONCE:
            await asyncio.sleep(0)
        yield position, chat


def _check_batch(check: Checker, request: pb.WriteMessagesRequest | pb.ImportMessagesRequest) -> None:
    check.entries("messages", request.messages, most=check.settings.limits.max_batch_messages)
    check.identifier("request_id", request.request_id, required=False)


def _matching(check: Checker, request: pb.DeleteMessagesRequest) -> Filter:
    """Check the filter of a deletion, which names no ids beside it."""
    if request.message_ids:
        check.refuse("message_ids", "must be empty where filter is set")
        check.refuse("filter", "must not be set where message_ids is not empty")
    before = len(check.violations)
    narrowed = check.narrowed("filter", request.filter)
    if narrowed == EVERYTHING and len(check.violations) == before:
        check.refuse("filter", "must set something: EraseUser deletes everything of a user")
    return narrowed


def _now_us() -> int:
    return time.time_ns() // 1_000


def _message(check: Checker, at: str, chat: message_pb2.ChatMessage, dimension: int, arrived_us: int) -> Message:
    """Check a message. One without a time has that at which it arrived: a microsecond for each keeps their order."""
    is_undated = not chat.HasField("ts")
    ts_us = arrived_us if is_undated else check.timestamp(f"{at}ts", chat.ts)
    return Message(
        user_id=check.user(f"{at}user_id", chat.user_id),
        message_id=check.identifier(f"{at}message_id", chat.message_id, required=False),
        ts_us=ts_us,
        role=check.role(f"{at}role", chat.role, required=True) or Role.USER,
        content=_content(check, f"{at}content", chat.content),
        name=check.text(f"{at}name", chat.name, most=_NAME_MAX_CHARS),
        conversation_id=check.identifier(f"{at}conversation_id", chat.conversation_id, required=False),
        metadata=check.metadata(f"{at}metadata", chat.metadata, most=_METADATA_MAX_ENTRIES),
        embedding=check.vector(f"{at}embedding", chat.embedding, dimension) if chat.embedding else None,
        expire_us=_expire_us(check, f"{at}expire_ts", chat, ts_us),
        is_undated=is_undated,
        retracts=_retracts(check, f"{at}retracts", chat) if chat.retracts else (),
    )


def _retracts(check: Checker, field: str, chat: message_pb2.ChatMessage) -> tuple[str, ...]:
    ids = tuple(chat.retracts)
    check.identifiers(field, ids, most=_RETRACTS_MAX)
    if len(set(ids)) < len(ids):
        check.refuse(field, "must not name a message twice")
    if chat.message_id and chat.message_id in ids:
        check.refuse(field, "must not name the message itself")
    return ids


def _expire_us(check: Checker, field: str, chat: message_pb2.ChatMessage, ts_us: int) -> int | None:
    if not chat.HasField("expire_ts"):
        return None
    before = len(check.violations)
    expire_us = check.timestamp(field, chat.expire_ts)
    if len(check.violations) == before and expire_us <= ts_us:
        check.refuse(field, "must be after ts")
    return expire_us


def _content(check: Checker, field: str, content: str) -> str:
    limit = check.settings.limits.max_content_bytes
    if not content.strip():
        check.refuse(field, "must not be blank")
    if len(content.encode()) > limit:
        check.refuse(field, f"must be at most {limit} bytes of UTF-8")
    return check.text(field, content, most=limit)
