"""The requests of the contract, made from plain Python values. What they take is what the clients' methods take."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, Unpack

from google.protobuf.field_mask_pb2 import FieldMask

from nomemory.client.messages import (
    Moment,
    Narrowing,
    Reading,
    RoleName,
    Spoken,
    Turn,
    Writable,
    as_message,
    role_number,
    timestamp,
)
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

BATCH_MESSAGES: Final = 1_000
BATCH_BYTES: Final = 4_000_000  # well below what a server takes in one request
_Options = ParamSpec("_Options")


def list_messages(
    user_id: str,
    *,
    page_size: int = 0,
    cursor: str = "",
    oldest_first: bool = False,
    **reading: Unpack[Reading],
) -> query_service_pb2.ListMessagesRequest:
    """Read a page by time, newest first unless `oldest_first` is set: 1 to 500 messages (50 by default).

    `cursor` is the `next_cursor` of the page before.
    """
    return query_service_pb2.ListMessagesRequest(
        user_id=user_id,
        page_size=page_size,
        cursor=cursor,
        **_read(**reading),
        order=query_service_pb2.LIST_ORDER_OLDEST_FIRST if oldest_first else query_service_pb2.LIST_ORDER_UNSPECIFIED,
    )


def lexical_search(
    user_id: str,
    query: str,
    *,
    page_size: int = 0,
    cursor: str = "",
    snippet_chars: int | None = None,
    **reading: Unpack[Reading],
) -> query_service_pb2.LexicalSearchRequest:
    """Find words and "phrases": one page, best first, with the options of `list_messages`.

    `snippet_chars` (1 to 1,000; 0: the server's default) asks for highlights.
    """
    return query_service_pb2.LexicalSearchRequest(
        user_id=user_id,
        query_text=query,
        page_size=page_size,
        cursor=cursor,
        **_read(**reading),
        highlight=None if snippet_chars is None else query_service_pb2.HighlightOptions(snippet_chars=snippet_chars),
    )


def semantic_search(
    user_id: str,
    query: str | Sequence[float],
    *,
    top_k: int = 0,
    min_score: float | None = None,
    **reading: Unpack[Reading],
) -> query_service_pb2.SemanticSearchRequest:
    """Find messages near a text in meaning, or near a vector of the caller's own.

    At most `top_k` messages (20 by default), of at least `min_score`.
    """
    request = query_service_pb2.SemanticSearchRequest(
        user_id=user_id,
        top_k=top_k,
        min_score=min_score,
        **_read(**reading),
    )
    if isinstance(query, str):
        request.query_text = query
    else:
        request.query_embedding.values.extend(query)
        request.query_embedding.SetInParent()
    return request


def hybrid_search(
    user_id: str,
    question: str,
    *,
    top_k: int = 0,
    explain: bool = False,
    embedding: Sequence[float] | None = None,
    **reading: Unpack[Reading],
) -> query_service_pb2.HybridSearchRequest:
    """Find the messages that answer a question, best first: by words, meaning, speaker and surroundings.

    At most `top_k` messages (20 by default), each explained if `explain` is set. `embedding` is the caller's own vector
    of the question.
    """
    return query_service_pb2.HybridSearchRequest(
        user_id=user_id,
        query_text=question,
        query_embedding=_embedding(embedding),
        top_k=top_k,
        explain=explain,
        **_read(**reading),
    )


def neighbors(
    user_id: str,
    message_id: str,
    *,
    before: int | None = None,
    after: int | None = None,
    return_fields: Sequence[str] | None = None,
) -> query_service_pb2.GetNeighborsRequest:
    """Read the messages around one of them, oldest first: 20 before it and none after it by default."""
    return query_service_pb2.GetNeighborsRequest(
        user_id=user_id, message_id=message_id, before=before, after=after, return_fields=_mask(return_fields)
    )


def batch_get(
    user_id: str, message_ids: Iterable[str], *, return_fields: Sequence[str] | None = None
) -> query_service_pb2.BatchGetMessagesRequest:
    """Look up up to 500 ids, in the given order."""
    return query_service_pb2.BatchGetMessagesRequest(
        user_id=user_id, message_ids=message_ids, return_fields=_mask(return_fields)
    )


def count_messages(
    user_id: str, *, at_least: str = "", **narrowing: Unpack[Narrowing]
) -> query_service_pb2.CountMessagesRequest:
    """Count a user's messages, or those that a filter admits. `at_least` is a write token."""
    return query_service_pb2.CountMessagesRequest(user_id=user_id, filter=_filter(**narrowing), at_least=at_least)


def list_conversations(
    user_id: str, *, page_size: int = 0, cursor: str = "", at_least: str = ""
) -> query_service_pb2.ListConversationsRequest:
    """Read a page of a user's conversations, the one with the latest message first: 1 to 500 (50 by default)."""
    return query_service_pb2.ListConversationsRequest(
        user_id=user_id, page_size=page_size, cursor=cursor, at_least=at_least
    )


def list_users(*, page_size: int = 0, cursor: str = "") -> query_service_pb2.ListUsersRequest:
    """Read a page of the users who have messages, by their ids: 1 to 500 (default: 50). It needs the scope `admin`."""
    return query_service_pb2.ListUsersRequest(page_size=page_size, cursor=cursor)


def export_messages(
    user_id: str, *, cursor: str = "", **narrowing: Unpack[Narrowing]
) -> query_service_pb2.ExportMessagesRequest:
    """Read all messages of a user, oldest first, in batches that an import takes.

    Each batch has a cursor to resume with; that of the last one is empty. The whole export may take as long as an
    import. Closing the iterator stops it.
    """
    return query_service_pb2.ExportMessagesRequest(user_id=user_id, filter=_filter(**narrowing), cursor=cursor)


def write(
    messages: Iterable[Writable], *, replace: bool = False, request_id: str = ""
) -> ingest_service_pb2.WriteMessagesRequest:
    """Store up to 1,000 messages, all or nothing: dictionaries, or what `chat_message` makes.

    A batch with a message that has no id gets a request id, so that a retry does not store it twice.
    """
    batch = [as_message(message) for message in messages]
    return ingest_service_pb2.WriteMessagesRequest(
        messages=batch, replace=replace, request_id=request_id or _request_id(batch)
    )


def add(
    user_id: str, messages: str | Spoken | Iterable[Spoken], *, conversation_id: str = "", request_id: str = ""
) -> ingest_service_pb2.WriteMessagesRequest:
    """Store what was said just now: a text of the user's, a message, or up to 1,000 as chat APIs have them.

    They stand oldest first. A message is `{"role": "user", "content": "…"}`, and may have what `chat_message` takes,
    such as the `ts` of what was said before. The reply has an id for each in `results`, and the `write_token` with
    which a read finds them.
    """
    one: object = {"role": "user", "content": messages} if isinstance(messages, str) else messages
    said: Iterable[Any] = [one] if isinstance(one, Mapping) else messages
    batch = [as_message({"conversation_id": conversation_id, **each}, user_id=user_id) for each in said]
    return write(batch, request_id=request_id)


def import_batches(
    messages: Iterable[Writable], *, replace: bool = False
) -> Iterator[ingest_service_pb2.ImportMessagesRequest]:
    """Cut a stream of any length into requests within the server's limits, lazily."""
    for batch in _batches(map(as_message, messages)):
        yield ingest_service_pb2.ImportMessagesRequest(messages=batch, replace=replace, request_id=_request_id(batch))


def delete(user_id: str, message_ids: Iterable[str]) -> ingest_service_pb2.DeleteMessagesRequest:
    """Delete up to 1,000 messages of a user."""
    return ingest_service_pb2.DeleteMessagesRequest(user_id=user_id, message_ids=message_ids)


def delete_matching(user_id: str, **narrowing: Unpack[Narrowing]) -> ingest_service_pb2.DeleteMessagesRequest:
    """Delete all messages of a user for which everything holds that is set; something must be."""
    return ingest_service_pb2.DeleteMessagesRequest(user_id=user_id, filter=_filter(**narrowing))


def erase_user(user_id: str) -> ingest_service_pb2.EraseUserRequest:
    """Delete everything of a user. The receipt says what still holds bytes of it."""
    return ingest_service_pb2.EraseUserRequest(user_id=user_id)


def status(user_id: str = "") -> ingest_service_pb2.GetIndexStatusRequest:
    """Return how far the log and the indexes are, for one user or, if empty, for all."""
    return ingest_service_pb2.GetIndexStatusRequest(user_id=user_id)


def server_info() -> server_service_pb2.GetServerInfoRequest:
    """Ask what the server is: its version, its embedding model, what it can do and how much it takes."""
    return server_service_pb2.GetServerInfoRequest()


def recall(  # noqa: PLR0913 - a parameter for each option
    question: str = "",
    *,
    user_id: str | None = None,  # noqa: ARG001 - it travels as metadata: see `bound_to`
    since: Moment | None = None,
    until: Moment | None = None,
    role: RoleName | None = None,
    now: Moment | None = None,
    time_zone: str = "",
    skill: str = "",
    question_embedding: Sequence[float] | None = None,
    conversation_id: str | None = None,
    exclude_conversation_ids: Sequence[str] | None = None,
    turns: Sequence[Turn] = (),
    at_least: str = "",
    evidence_messages: int = 0,
    include_trace: bool = False,
) -> recall_service_pb2.RecallRequest:
    """Answer a question from what was said. `user_id` is for services; a user's own token names its user.

    The recall begins at `since`, `until` and `role`, and may go beyond them. Times need a time zone; `time_zone` is an
    IANA name. `question_embedding` is the caller's own vector of the question, of the server's dimension.

    `conversation_id` confines the recall to one conversation; nothing of `exclude_conversation_ids` is read. `turns`
    are the last turns of the conversation in progress, oldest first, at most 20; with them the question may be empty.
    `at_least` is a write token: the recall waits until that write can be found. `evidence_messages` is how many
    messages the evidence may have, at most 50; 0: as many as the server gives by default.
    """
    context = recall_service_pb2.RecallContext(
        time_range=_time_range(since, until),
        preferred_role=_role(role),
        time_zone=time_zone,
        now=None if now is None else timestamp("now", now),
        conversation_id=conversation_id or "",
        exclude_conversation_ids=exclude_conversation_ids or (),
        turns=_turns(turns),
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


def build_context(
    turns: Sequence[Turn] = (),
    *,
    user_id: str | None = None,  # noqa: ARG001 - it travels as metadata: see `bound_to`
    conversation_id: str = "",
    max_tokens: int = 0,
    now: Moment | None = None,
    time_zone: str = "",
    at_least: str = "",
    exclude_conversation_ids: Sequence[str] = (),
) -> recall_service_pb2.BuildContextRequest:
    """Select the messages for a prompt: `text` of the reply is at most `max_tokens` long (0: 2,000), by an estimate.

    `turns` are the latest turns of the running conversation, oldest first, at most 20. Messages of other conversations
    that relate to them are returned, and the latest messages of the conversation `conversation_id`; one of the two is
    needed. `user_id` is for services; a user's own token names its user.
    """
    return recall_service_pb2.BuildContextRequest(
        turns=_turns(turns),
        conversation_id=conversation_id,
        max_tokens=max_tokens,
        now=None if now is None else timestamp("now", now),
        time_zone=time_zone,
        at_least=at_least,
        exclude_conversation_ids=exclude_conversation_ids,
    )


def _streamed(
    build: Callable[_Options, recall_service_pb2.RecallRequest],
) -> Callable[_Options, recall_service_pb2.StreamRecallRequest]:
    @wraps(build)
    def streamed(*args: _Options.args, **options: _Options.kwargs) -> recall_service_pb2.StreamRecallRequest:
        return recall_service_pb2.StreamRecallRequest(recall=build(*args, **options))

    return streamed


stream_recall = _streamed(recall)
"""The same, but yield each step as it happens, then the result. Closing the iterator cancels the recall."""


def bound_to(user_id: str | None) -> tuple[tuple[str, str | bytes], ...]:
    """Return the metadata that names the user of a recall; nothing where the credentials themselves do.

    Text metadata is ASCII and is trimmed on its way; any other id travels as bytes.
    """
    if user_id is None:
        return ()
    if user_id.isascii() and user_id.isprintable() and user_id == user_id.strip():
        return (("x-user-id", user_id),)
    return (("x-user-id-bin", user_id.encode()),)


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


def _read(*, return_fields: Sequence[str] | None = None, at_least: str = "", **narrowing: Unpack[Narrowing]) -> Any:  # noqa: ANN401 - fields of a request
    return {"filter": _filter(**narrowing), "return_fields": _mask(return_fields), "at_least": at_least}


def _filter(
    since: Moment | None = None,
    until: Moment | None = None,
    role: RoleName | None = None,
    conversation_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    exclude_conversation_ids: Sequence[str] | None = None,
) -> message_pb2.Filter:
    return message_pb2.Filter(
        time_range=_time_range(since, until),
        role=_role(role),
        conversation_id=conversation_id or "",
        metadata=metadata or {},
        exclude_conversation_ids=exclude_conversation_ids or (),
    )


def _time_range(since: Moment | None, until: Moment | None) -> message_pb2.TimeRange | None:
    if since is None and until is None:
        return None
    return message_pb2.TimeRange(
        since=None if since is None else timestamp("since", since),
        until=None if until is None else timestamp("until", until),
    )


def _turns(turns: Sequence[Turn]) -> list[recall_service_pb2.Turn]:
    return [recall_service_pb2.Turn(role=role_number(turn["role"]), text=turn["text"]) for turn in turns]


def _role(name: RoleName | None) -> message_pb2.Role.ValueType:
    return message_pb2.ROLE_UNSPECIFIED if name is None else role_number(name)


def _embedding(values: Sequence[float] | None) -> query_service_pb2.Embedding | None:
    return None if values is None else query_service_pb2.Embedding(values=values)


def _mask(fields: Sequence[str] | None) -> FieldMask | None:
    return None if fields is None else FieldMask(paths=fields)
