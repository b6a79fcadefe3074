"""The requests of the contract, made from plain Python values. Both clients send what these functions build."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, TypedDict, Unpack

from google.protobuf.field_mask_pb2 import FieldMask

from nomemory.client.messages import RoleName, Writable, as_message, role_number, timestamp
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2

BATCH_MESSAGES: Final = 1_000
BATCH_BYTES: Final = 4_000_000  # well below what a server takes in one request


class Narrowing(TypedDict, total=False):
    """What a read is narrowed to. Absent or None: not at all.

    `since` is inclusive, `until` exclusive; both need a time zone.
    """

    since: datetime | None
    until: datetime | None
    role: RoleName | None
    conversation_id: str | None


class Reading(TypedDict, total=False):
    """What every read takes: the fields to return (all by default), and a write token whose write must be seen."""

    return_fields: Sequence[str]
    at_least: str


class Paging(TypedDict, total=False):
    """How a listing is cut: 1 to 500 messages a page (50 by default), from a `next_cursor` on."""

    page_size: int
    cursor: str


class ListOptions(Narrowing, Reading, Paging, total=False):
    """The options of `list_messages`."""


class LexicalOptions(ListOptions, total=False):
    """The options of `lexical_search`. `snippet_chars` (1 to 1,000; 0: the server's default) asks for highlights."""

    snippet_chars: int | None


class SemanticOptions(Narrowing, Reading, total=False):
    """The options of `semantic_search`: at most `top_k` messages (20 by default), of at least `min_score`."""

    top_k: int
    min_score: float | None


class HybridOptions(Narrowing, Reading, total=False):
    """The options of `hybrid_search`: at most `top_k` messages (20 by default), each explained if `explain` is set.

    `embedding` is the caller's own vector of the question.
    """

    top_k: int
    explain: bool
    embedding: Sequence[float] | None


class NeighborOptions(TypedDict, total=False):
    """The options of `neighbors`: how many messages before (20 by default) and after (none by default)."""

    before: int | None
    after: int | None
    return_fields: Sequence[str]


class RecallOptions(Narrowing, total=False):
    """Where a recall starts, and with what: `now` needs a time zone, `time_zone` is an IANA name.

    `question_embedding` is the caller's own vector of the question, of the server's dimension.
    """

    now: datetime | None
    time_zone: str
    skill: str
    question_embedding: Sequence[float] | None


def list_messages(user_id: str, **options: Unpack[ListOptions]) -> query_service_pb2.ListMessagesRequest:
    """Build a read by time."""
    return query_service_pb2.ListMessagesRequest(
        user_id=user_id,
        filter=_filter(options),
        page_size=options.get("page_size", 0),
        cursor=options.get("cursor", ""),
        return_fields=_mask(options.get("return_fields")),
        at_least=options.get("at_least", ""),
    )


def lexical_search(
    user_id: str, query: str, **options: Unpack[LexicalOptions]
) -> query_service_pb2.LexicalSearchRequest:
    """Build a search for words."""
    snippet_chars = options.get("snippet_chars")
    return query_service_pb2.LexicalSearchRequest(
        user_id=user_id,
        query_text=query,
        filter=_filter(options),
        page_size=options.get("page_size", 0),
        cursor=options.get("cursor", ""),
        return_fields=_mask(options.get("return_fields")),
        at_least=options.get("at_least", ""),
        highlight=None if snippet_chars is None else query_service_pb2.HighlightOptions(snippet_chars=snippet_chars),
    )


def semantic_search(
    user_id: str, query: str | Sequence[float], **options: Unpack[SemanticOptions]
) -> query_service_pb2.SemanticSearchRequest:
    """Build a search for meaning: of a text, or of a vector of the caller's own."""
    request = query_service_pb2.SemanticSearchRequest(
        user_id=user_id,
        filter=_filter(options),
        top_k=options.get("top_k", 0),
        min_score=options.get("min_score"),
        return_fields=_mask(options.get("return_fields")),
        at_least=options.get("at_least", ""),
    )
    if isinstance(query, str):
        request.query_text = query
    else:
        request.query_embedding.values.extend(query)
        request.query_embedding.SetInParent()
    return request


def hybrid_search(
    user_id: str, question: str, **options: Unpack[HybridOptions]
) -> query_service_pb2.HybridSearchRequest:
    """Build a search for what answers a question."""
    return query_service_pb2.HybridSearchRequest(
        user_id=user_id,
        query_text=question,
        query_embedding=_embedding(options.get("embedding")),
        filter=_filter(options),
        top_k=options.get("top_k", 0),
        explain=options.get("explain", False),
        return_fields=_mask(options.get("return_fields")),
        at_least=options.get("at_least", ""),
    )


def neighbors(
    user_id: str, message_id: str, **options: Unpack[NeighborOptions]
) -> query_service_pb2.GetNeighborsRequest:
    """Build a read of the messages around one."""
    return query_service_pb2.GetNeighborsRequest(
        user_id=user_id,
        message_id=message_id,
        before=options.get("before"),
        after=options.get("after"),
        return_fields=_mask(options.get("return_fields")),
    )


def batch_get(
    user_id: str, message_ids: Iterable[str], return_fields: Sequence[str] | None = None
) -> query_service_pb2.BatchGetMessagesRequest:
    """Build a look-up by ids."""
    return query_service_pb2.BatchGetMessagesRequest(
        user_id=user_id, message_ids=message_ids, return_fields=_mask(return_fields)
    )


def write(
    messages: Iterable[Writable], *, replace: bool = False, request_id: str = ""
) -> ingest_service_pb2.WriteMessagesRequest:
    """Build a write. Messages without ids get a request id, so that a retry does not store them twice."""
    batch = [as_message(message) for message in messages]
    return ingest_service_pb2.WriteMessagesRequest(
        messages=batch, replace=replace, request_id=request_id or _request_id(batch)
    )


def import_batches(
    messages: Iterable[Writable], *, replace: bool = False
) -> Iterator[ingest_service_pb2.ImportMessagesRequest]:
    """Cut a stream of any length into requests that a server takes, lazily."""
    for batch in _batches(map(as_message, messages)):
        yield ingest_service_pb2.ImportMessagesRequest(messages=batch, replace=replace, request_id=_request_id(batch))


def delete(user_id: str, message_ids: Iterable[str]) -> ingest_service_pb2.DeleteMessagesRequest:
    """Build a deletion."""
    return ingest_service_pb2.DeleteMessagesRequest(user_id=user_id, message_ids=message_ids)


def recall(
    question: str, *, include_trace: bool = False, **options: Unpack[RecallOptions]
) -> recall_service_pb2.RecallRequest:
    """Build a recall. Whose it is travels in metadata, never in the request."""
    now = options.get("now")
    context = recall_service_pb2.RecallContext(
        role_pref=_filter(options).role,
        time_zone=options.get("time_zone", ""),
        now=timestamp("now", now) if now else None,
    )
    if options.get("since") is not None or options.get("until") is not None:
        context.time_range.CopyFrom(_filter(options).time_range)
    return recall_service_pb2.RecallRequest(
        question=question,
        context=context,
        skill=options.get("skill", ""),
        include_trace=include_trace,
        question_embedding=_embedding(options.get("question_embedding")),
    )


def stream_recall(question: str, **options: Unpack[RecallOptions]) -> recall_service_pb2.StreamRecallRequest:
    """Build a recall whose steps are shown."""
    return recall_service_pb2.StreamRecallRequest(recall=recall(question, **options))


def bound_to(user_id: str | None) -> tuple[tuple[str, str | bytes], ...]:
    """Return the metadata that names the user of a recall; nothing where the credentials themselves do.

    Text metadata is ASCII and is trimmed on its way; any other id travels as bytes.
    """
    if user_id is None:
        return ()
    if user_id.isascii() and user_id.isprintable() and user_id == user_id.strip():
        return (("x-user-id", user_id),)
    return (("x-user-id-bin", user_id.encode()),)


def status(user_id: str = "") -> ingest_service_pb2.GetIndexStatusRequest:
    """Build a question for the state of the log and the indexes, of one user or (empty) of all."""
    return ingest_service_pb2.GetIndexStatusRequest(user_id=user_id)


def _batches(messages: Iterable[message_pb2.ChatMessage]) -> Iterator[list[message_pb2.ChatMessage]]:
    batch: list[message_pb2.ChatMessage] = []
    size = 0
    for message in messages:
        length = message.ByteSize()
        if batch and (len(batch) == BATCH_MESSAGES or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


def _request_id(batch: Sequence[message_pb2.ChatMessage]) -> str:
    return "" if all(message.message_id for message in batch) else uuid.uuid4().hex


def _filter(narrowing: Narrowing) -> message_pb2.Filter:
    narrowed = message_pb2.Filter(conversation_id=narrowing.get("conversation_id") or "")
    since, until, role = narrowing.get("since"), narrowing.get("until"), narrowing.get("role")
    if since is not None:
        narrowed.time_range.since.CopyFrom(timestamp("since", since))
    if until is not None:
        narrowed.time_range.until.CopyFrom(timestamp("until", until))
    if role is not None:
        narrowed.role = role_number(role)
    return narrowed


def _embedding(values: Sequence[float] | None) -> query_service_pb2.Embedding | None:
    return None if values is None else query_service_pb2.Embedding(values=values)


def _mask(fields: Sequence[str] | None) -> FieldMask | None:
    return None if fields is None else FieldMask(paths=fields)
