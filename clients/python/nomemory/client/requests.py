"""The requests of the contract, made from plain Python values. Both clients send what these functions build."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, Unpack

from google.protobuf.field_mask_pb2 import FieldMask

from nomemory.client.messages import Moment, RoleName, Writable, as_message, role_number, timestamp
from nomemory.client.options import Narrowing, RecallOptions, Turn
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2

BATCH_MESSAGES: Final = 1_000
BATCH_BYTES: Final = 4_000_000  # well below what a server takes in one request


class Listing(Protocol):
    """A request that can continue from a cursor."""

    cursor: str


class Page(Protocol):
    """A reply with the cursor of the next page; an empty cursor is the end."""

    @property
    def next_cursor(self) -> str:
        """Return the cursor of the next page."""


def list_messages(  # noqa: PLR0913 - a parameter for each option
    user_id: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    role: RoleName | None = None,
    conversation_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    page_size: int = 0,
    cursor: str = "",
    return_fields: Sequence[str] | None = None,
    at_least: str = "",
    oldest_first: bool = False,
) -> query_service_pb2.ListMessagesRequest:
    """Build a read by time."""
    return query_service_pb2.ListMessagesRequest(
        user_id=user_id,
        filter=_filter(since, until, role, conversation_id, metadata),
        page_size=page_size,
        cursor=cursor,
        return_fields=_mask(return_fields),
        at_least=at_least,
        order=query_service_pb2.LIST_ORDER_OLDEST_FIRST if oldest_first else query_service_pb2.LIST_ORDER_UNSPECIFIED,
    )


def lexical_search(  # noqa: PLR0913 - a parameter for each option
    user_id: str,
    query: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    role: RoleName | None = None,
    conversation_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    page_size: int = 0,
    cursor: str = "",
    return_fields: Sequence[str] | None = None,
    at_least: str = "",
    snippet_chars: int | None = None,
) -> query_service_pb2.LexicalSearchRequest:
    """Build a search for words."""
    return query_service_pb2.LexicalSearchRequest(
        user_id=user_id,
        query_text=query,
        filter=_filter(since, until, role, conversation_id, metadata),
        page_size=page_size,
        cursor=cursor,
        return_fields=_mask(return_fields),
        at_least=at_least,
        highlight=None if snippet_chars is None else query_service_pb2.HighlightOptions(snippet_chars=snippet_chars),
    )


def semantic_search(  # noqa: PLR0913 - a parameter for each option
    user_id: str,
    query: str | Sequence[float],
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    role: RoleName | None = None,
    conversation_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    top_k: int = 0,
    min_score: float | None = None,
    return_fields: Sequence[str] | None = None,
    at_least: str = "",
) -> query_service_pb2.SemanticSearchRequest:
    """Build a search for meaning: of a text, or of a vector of the caller's own."""
    request = query_service_pb2.SemanticSearchRequest(
        user_id=user_id,
        filter=_filter(since, until, role, conversation_id, metadata),
        top_k=top_k,
        min_score=min_score,
        return_fields=_mask(return_fields),
        at_least=at_least,
    )
    if isinstance(query, str):
        request.query_text = query
    else:
        request.query_embedding.values.extend(query)
        request.query_embedding.SetInParent()
    return request


def hybrid_search(  # noqa: PLR0913 - a parameter for each option
    user_id: str,
    question: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    role: RoleName | None = None,
    conversation_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    top_k: int = 0,
    explain: bool = False,
    embedding: Sequence[float] | None = None,
    return_fields: Sequence[str] | None = None,
    at_least: str = "",
) -> query_service_pb2.HybridSearchRequest:
    """Build a search for the messages that answer a question."""
    return query_service_pb2.HybridSearchRequest(
        user_id=user_id,
        query_text=question,
        query_embedding=_embedding(embedding),
        filter=_filter(since, until, role, conversation_id, metadata),
        top_k=top_k,
        explain=explain,
        return_fields=_mask(return_fields),
        at_least=at_least,
    )


def neighbors(
    user_id: str,
    message_id: str,
    *,
    before: int | None = None,
    after: int | None = None,
    return_fields: Sequence[str] | None = None,
) -> query_service_pb2.GetNeighborsRequest:
    """Build a read of the messages around one."""
    return query_service_pb2.GetNeighborsRequest(
        user_id=user_id, message_id=message_id, before=before, after=after, return_fields=_mask(return_fields)
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
    """Cut a stream of any length into requests within the server's limits, lazily."""
    for batch in _batches(map(as_message, messages)):
        yield ingest_service_pb2.ImportMessagesRequest(messages=batch, replace=replace, request_id=_request_id(batch))


def delete(user_id: str, message_ids: Iterable[str]) -> ingest_service_pb2.DeleteMessagesRequest:
    """Build a deletion."""
    return ingest_service_pb2.DeleteMessagesRequest(user_id=user_id, message_ids=message_ids)


def delete_matching(
    user_id: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    role: RoleName | None = None,
    conversation_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> ingest_service_pb2.DeleteMessagesRequest:
    """Build a deletion of whatever a filter admits."""
    return ingest_service_pb2.DeleteMessagesRequest(
        user_id=user_id, filter=_filter(since, until, role, conversation_id, metadata)
    )


def erase_user(user_id: str) -> ingest_service_pb2.EraseUserRequest:
    """Build the erasure of a user."""
    return ingest_service_pb2.EraseUserRequest(user_id=user_id)


def recall(  # noqa: PLR0913 - a parameter for each option
    question: str = "",
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    role: RoleName | None = None,
    now: Moment | None = None,
    time_zone: str = "",
    skill: str = "",
    question_embedding: Sequence[float] | None = None,
    conversation_id: str | None = None,
    turns: Sequence[Turn] = (),
    at_least: str = "",
    evidence_messages: int = 0,
    include_trace: bool = False,
) -> recall_service_pb2.RecallRequest:
    """Build a recall. Its user travels in metadata, never in the request."""
    context = recall_service_pb2.RecallContext(
        time_range=_time_range(since, until),
        role_pref=_role(role),
        time_zone=time_zone,
        now=None if now is None else timestamp("now", now),
        conversation_id=conversation_id or "",
        turns=[recall_service_pb2.Turn(role=role_number(turn["role"]), text=turn["text"]) for turn in turns],
    )
    return recall_service_pb2.RecallRequest(
        question=question,
        context=context,
        skill=skill,
        budget=recall_service_pb2.RecallBudget(evidence_messages=evidence_messages) if evidence_messages else None,
        include_trace=include_trace,
        question_embedding=_embedding(question_embedding),
        at_least=at_least,
    )


def stream_recall(question: str = "", **options: Unpack[RecallOptions]) -> recall_service_pb2.StreamRecallRequest:
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
    """Build a request for the state of the log and the indexes, of one user or, if empty, of all."""
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


def message_filter(**narrowing: Unpack[Narrowing]) -> message_pb2.Filter:
    """Build a filter."""
    return list_messages("", **narrowing).filter


def _filter(
    since: Moment | None,
    until: Moment | None,
    role: RoleName | None,
    conversation_id: str | None,
    metadata: Mapping[str, str] | None,
) -> message_pb2.Filter:
    return message_pb2.Filter(
        time_range=_time_range(since, until),
        role=_role(role),
        conversation_id=conversation_id or "",
        metadata=metadata or {},
    )


def _time_range(since: Moment | None, until: Moment | None) -> message_pb2.TimeRange | None:
    if since is None and until is None:
        return None
    return message_pb2.TimeRange(
        since=None if since is None else timestamp("since", since),
        until=None if until is None else timestamp("until", until),
    )


def _role(name: RoleName | None) -> message_pb2.Role.ValueType:
    return message_pb2.ROLE_UNSPECIFIED if name is None else role_number(name)


def _embedding(values: Sequence[float] | None) -> query_service_pb2.Embedding | None:
    return None if values is None else query_service_pb2.Embedding(values=values)


def _mask(fields: Sequence[str] | None) -> FieldMask | None:
    return None if fields is None else FieldMask(paths=fields)
