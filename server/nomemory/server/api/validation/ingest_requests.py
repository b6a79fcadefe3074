"""Validation of IngestService requests, and their conversion to the types of the message log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from nomemory.server.api.validation.checker import FieldChecker, collect_violations
from nomemory.server.faults import Reason, Violation
from nomemory.server.message import ID_MAX_CHARS, Message, Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.settings import Settings
from nomemory.server.store.results import OnConflict
from nomemory.v1 import ingest_service_pb2 as pb
from nomemory.v1 import message_pb2

_DELETE_BATCH_MAX: Final = 1000
"""Maximum number of ids in a DeleteMessagesRequest."""
_NAME_MAX_CHARS: Final = 128
"""Maximum length of an author's name in characters."""
_METADATA_MAX_ENTRIES: Final = 32
"""Maximum number of metadata entries of a message."""
_RETRACTS_MAX: Final = 32
"""Maximum number of messages that one message can retract."""

_MESSAGES_PER_YIELD = 32
"""Number of messages to validate before the event loop runs other tasks. Their validation takes about 0.5 ms."""


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """A message of an import that the server does not store.

    The field paths in `violations` are relative to the message.
    """

    position: int
    message_id: str
    reason: Reason.ValueType
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """The validated messages of a write or of one import batch.

    The message log assigns ids to messages without an id.

    Attributes:
        on_conflict: the policy for a message whose id exists in the message log with different content.
        request_id: the key that makes retries of the request idempotent; empty if the request has none.
        positions: the index of each message in its import request; empty for a write.
        rejected: the invalid messages of an import batch; empty for a write.
    """

    messages: list[Message]
    on_conflict: OnConflict
    request_id: str
    positions: list[int] = field(default_factory=list)
    rejected: list[RejectedMessage] = field(default_factory=list)


async def decode_write(request: pb.WriteMessagesRequest, settings: Settings, dimension: int) -> WriteBatch:
    """Validate a WriteMessagesRequest. The function yields to the event loop while it validates many messages.

    Raises:
        Fault: INVALID_FIELD, with the violations of all messages.
    """
    with collect_violations(settings) as checker:
        _check_batch(checker, request)
        arrived_us = _get_now_us()
        messages = [
            _check_message(checker, f"messages[{position}].", chat, dimension, arrived_us + position)
            async for position, chat in _iterate_with_yields(request.messages[: settings.limits.max_batch_messages])
        ]
        return WriteBatch(messages, OnConflict.REPLACE if request.replace else OnConflict.REFUSE, request.request_id)


async def decode_import(request: pb.ImportMessagesRequest, settings: Settings, dimension: int) -> WriteBatch:
    """Validate each message of an import batch. The function yields to the event loop while it validates many messages.

    Raises:
        Fault: INVALID_FIELD, the batch is empty or too large, or its `request_id` is invalid.
    """
    with collect_violations(settings) as checker:
        _check_batch(checker, request)
    batch = WriteBatch([], OnConflict.REPLACE if request.replace else OnConflict.SKIP, request.request_id)
    arrived_us = _get_now_us()
    async for position, chat in _iterate_with_yields(request.messages):
        message_checker = FieldChecker(settings)
        message = _check_message(message_checker, "", chat, dimension, arrived_us + position)
        if message_checker.violations:
            shown_id = chat.message_id[:ID_MAX_CHARS]
            reason = Reason.ERROR_REASON_INVALID_FIELD
            batch.rejected.append(RejectedMessage(position, shown_id, reason, tuple(message_checker.violations)))
        else:
            batch.messages.append(message)
            batch.positions.append(position)
    return batch


def decode_delete(request: pb.DeleteMessagesRequest, settings: Settings) -> Filter | None:
    """Validate a DeleteMessagesRequest, and return its filter, or None if the request lists message ids.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        checker.check_user_id("user_id", request.user_id)
        if request.message_ids or not request.HasField("filter"):
            checker.check_identifiers("message_ids", request.message_ids, maximum=_DELETE_BATCH_MAX)
        if request.HasField("filter"):
            return _check_delete_filter(checker, request)
        if not request.message_ids:
            checker.add_violation("filter", "must be set if message_ids is empty")
        return None


def decode_user(user_id: str, settings: Settings, *, required: bool) -> str:
    """Validate the `user_id` of a request that has no other fields.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        return checker.check_user_id("user_id", user_id, required=required)


async def _iterate_with_yields(
    messages: Sequence[message_pb2.ChatMessage],
) -> AsyncIterator[tuple[int, message_pb2.ChatMessage]]:
    for position, chat in enumerate(messages):
        if position and not position % _MESSAGES_PER_YIELD:
            await asyncio.sleep(0)
        yield position, chat


def _check_batch(checker: FieldChecker, request: pb.WriteMessagesRequest | pb.ImportMessagesRequest) -> None:
    checker.check_list_length("messages", request.messages, maximum=checker.settings.limits.max_batch_messages)
    checker.check_identifier("request_id", request.request_id, required=False)


def _check_delete_filter(checker: FieldChecker, request: pb.DeleteMessagesRequest) -> Filter:
    """Validate that a deletion has either message ids or a filter, and that the filter is valid."""
    if request.message_ids:
        checker.add_violation("message_ids", "must be empty if filter is set")
        checker.add_violation("filter", "must not be set if message_ids is not empty")
    previous_violations = len(checker.violations)
    message_filter = checker.check_filter("filter", request.filter)
    if message_filter == EVERYTHING and len(checker.violations) == previous_violations:
        checker.add_violation("filter", "must set a condition; to delete all messages of a user, call EraseUser")
    return message_filter


def _get_now_us() -> int:
    return time.time_ns() // 1_000


def _check_message(
    checker: FieldChecker, prefix: str, chat: message_pb2.ChatMessage, dimension: int, arrived_us: int
) -> Message:
    """Validate a message.

    A message without a time gets its arrival time, which increases by a microsecond from one message of a batch to the
    next.
    """
    is_undated = not chat.HasField("ts")
    ts_us = arrived_us if is_undated else checker.check_timestamp(f"{prefix}ts", chat.ts)
    return Message(
        user_id=checker.check_user_id(f"{prefix}user_id", chat.user_id),
        message_id=checker.check_identifier(f"{prefix}message_id", chat.message_id, required=False),
        ts_us=ts_us,
        role=checker.check_role(f"{prefix}role", chat.role, required=True) or Role.USER,
        content=_check_content(checker, f"{prefix}content", chat.content),
        name=checker.check_text(f"{prefix}name", chat.name, maximum=_NAME_MAX_CHARS),
        conversation_id=checker.check_identifier(f"{prefix}conversation_id", chat.conversation_id, required=False),
        metadata=checker.check_metadata(f"{prefix}metadata", chat.metadata, maximum=_METADATA_MAX_ENTRIES),
        embedding=checker.check_vector(f"{prefix}embedding", chat.embedding, dimension) if chat.embedding else None,
        expire_us=_check_expire_ts(checker, f"{prefix}expire_ts", chat, ts_us),
        is_undated=is_undated,
        retracts=_check_retracts(checker, f"{prefix}retracts", chat) if chat.retracts else (),
    )


def _check_retracts(checker: FieldChecker, field: str, chat: message_pb2.ChatMessage) -> tuple[str, ...]:
    ids = tuple(chat.retracts)
    checker.check_identifiers(field, ids, maximum=_RETRACTS_MAX)
    if len(set(ids)) < len(ids):
        checker.add_violation(field, "must not contain duplicate ids")
    if chat.message_id and chat.message_id in ids:
        checker.add_violation(field, "must not contain the id of the message itself")
    return ids


def _check_expire_ts(checker: FieldChecker, field: str, chat: message_pb2.ChatMessage, ts_us: int) -> int | None:
    if not chat.HasField("expire_ts"):
        return None
    previous_violations = len(checker.violations)
    expire_us = checker.check_timestamp(field, chat.expire_ts)
    if len(checker.violations) == previous_violations and expire_us <= ts_us:
        checker.add_violation(field, "must be after ts")
    return expire_us


def _check_content(checker: FieldChecker, field: str, content: str) -> str:
    limit = checker.settings.limits.max_content_bytes
    if not content.strip():
        checker.add_violation(field, "must not be blank")
    if len(content.encode()) > limit:
        checker.add_violation(field, f"must be at most {limit} bytes of UTF-8")
    return checker.check_text(field, content, maximum=limit)
