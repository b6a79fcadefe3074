"""Requests of the IngestService, checked once and turned into what the log takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from nomemory.server.faults import Reason, Violation
from nomemory.server.log.protocol import OnConflict
from nomemory.server.message import Message, Role
from nomemory.server.message_id import derived_id, fresh_id
from nomemory.server.rpc.checker import Checker
from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as pb
from nomemory.v1 import message_pb2

_AT_ONCE = 32
"""How many messages are checked before other calls run: about half a millisecond."""


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """A checked batch."""

    messages: list[Message]
    on_conflict: OnConflict


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message of an import that is not stored. `violations` name fields without the position in the batch."""

    position: int
    message_id: str
    reason: Reason.ValueType
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """A batch of an import: the messages to store, their positions in the batch, and those refused."""

    messages: list[Message]
    positions: list[int]
    refused: list[RefusedMessage]
    on_conflict: OnConflict


@dataclass(frozen=True, slots=True)
class DeleteBatch:
    """A checked DeleteMessagesRequest."""

    user_id: str
    message_ids: list[str]


async def decode_write(request: pb.WriteMessagesRequest, settings: Settings, dimension: int) -> WriteBatch:
    """Check a WriteMessagesRequest. Messages without an id get one. Other calls run in between.

    Raises:
        Fault: INVALID_FIELD with every violation of every message.
    """
    check = Checker(settings)
    name_id = _id_maker(check, request.messages, request.request_id)
    messages = [
        _message(check, f"messages[{position}].", chat, dimension, partial(name_id, chat.user_id, position))
        async for position, chat in _in_turns(request.messages[: settings.limits.write_batch_max])
    ]
    check.done()
    return WriteBatch(messages, OnConflict.REPLACE if request.replace else OnConflict.REFUSE)


async def decode_import(request: pb.ImportMessagesRequest, settings: Settings, dimension: int) -> ImportBatch:
    """Check a batch of an import, message by message. Other calls run in between.

    Raises:
        Fault: INVALID_FIELD if the batch itself is bad: empty, too long, or with a bad request_id.
    """
    check = Checker(settings)
    name_id = _id_maker(check, request.messages, request.request_id)
    check.done()
    batch = ImportBatch([], [], [], OnConflict.REPLACE if request.replace else OnConflict.SKIP)
    async for position, chat in _in_turns(request.messages):
        alone = Checker(settings)
        message = _message(alone, "", chat, dimension, partial(name_id, chat.user_id, position))
        if alone.violations:
            shown_id = chat.message_id[: settings.limits.id_max_chars]
            reason = Reason.ERROR_REASON_INVALID_FIELD
            batch.refused.append(RefusedMessage(position, shown_id, reason, tuple(alone.violations)))
        else:
            batch.messages.append(message)
            batch.positions.append(position)
    return batch


def decode_delete(request: pb.DeleteMessagesRequest, settings: Settings) -> DeleteBatch:
    """Check a DeleteMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    check.entries("message_ids", request.message_ids, most=settings.limits.delete_batch_max)
    for position, message_id in enumerate(request.message_ids[: settings.limits.delete_batch_max]):
        check.identifier(f"message_ids[{position}]", message_id, required=True)
    check.done()
    return DeleteBatch(user_id, list(request.message_ids))


def decode_status(request: pb.GetIndexStatusRequest, settings: Settings) -> str | None:
    """Check a GetIndexStatusRequest. Return the user, or None for all.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id, required=False)
    check.done()
    return user_id or None


async def _in_turns(
    messages: Sequence[message_pb2.ChatMessage],
) -> AsyncIterator[tuple[int, message_pb2.ChatMessage]]:
    for position, chat in enumerate(messages):
        if position and not position % _AT_ONCE:
            await asyncio.sleep(0)
        yield position, chat


def _id_maker(
    check: Checker, messages: Sequence[message_pb2.ChatMessage], request_id: str
) -> Callable[[str, int], str]:
    check.entries("messages", messages, most=check.settings.limits.write_batch_max)
    check.identifier("request_id", request_id, required=False)
    if request_id:
        return lambda user_id, position: derived_id(request_id, user_id, position)
    return lambda _user_id, _position: fresh_id()


def _message(
    check: Checker, at: str, chat: message_pb2.ChatMessage, dimension: int, own_id: Callable[[], str]
) -> Message:
    if not chat.HasField("ts"):
        check.refuse(f"{at}ts", "must be set")
    return Message(
        user_id=check.user(f"{at}user_id", chat.user_id),
        message_id=check.identifier(f"{at}message_id", chat.message_id, required=False) or own_id(),
        ts_us=check.timestamp(f"{at}ts", chat.ts),
        role=check.role(f"{at}role", chat.role, required=True) or Role.USER,
        content=_content(check, f"{at}content", chat.content),
        name=check.text(f"{at}name", chat.name, most=check.settings.limits.name_max_chars),
        conversation_id=check.identifier(f"{at}conversation_id", chat.conversation_id, required=False),
        metadata=check.metadata(f"{at}metadata", chat.metadata),
        embedding=check.vector(f"{at}embedding", chat.embedding, dimension) if chat.embedding else None,
    )


def _content(check: Checker, field: str, content: str) -> str:
    limit = check.settings.limits.content_max_bytes
    if not content.strip():
        check.refuse(field, "must not be blank")
    if len(content.encode()) > limit:
        check.refuse(field, f"must be at most {limit} bytes of UTF-8")
    return check.text(field, content, most=limit)
