"""Build API requests from Python values. The methods of the clients have the same parameters and docstrings."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, Unpack

from google.protobuf.field_mask_pb2 import FieldMask

from nomemory.client.messages import (
    ChatAPIMessage,
    FilterOptions,
    ReadOptions,
    RoleName,
    TimeLike,
    Turn,
    Writable,
    to_chat_message,
    to_role_value,
    to_timestamp,
)
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

BATCH_MESSAGES: Final = 1_000
BATCH_BYTES: Final = 4_000_000  # well below the server's maximum request size
_Options = ParamSpec("_Options")


def list_messages(
    user_id: str,
    *,
    page_size: int = 0,
    cursor: str = "",
    oldest_first: bool = False,
    **options: Unpack[ReadOptions],
) -> query_service_pb2.ListMessagesRequest:
    """List messages by time, newest first by default, in pages of 1 to 500 messages (default: 50).

    To get the next page, set `cursor` to `next_cursor` of the response.
    """
    return query_service_pb2.ListMessagesRequest(
        user_id=user_id,
        page_size=page_size,
        cursor=cursor,
        **_build_read_options(**options),
        order=query_service_pb2.LIST_ORDER_OLDEST_FIRST if oldest_first else query_service_pb2.LIST_ORDER_UNSPECIFIED,
    )


def lexical_search(
    user_id: str,
    query: str,
    *,
    page_size: int = 0,
    cursor: str = "",
    snippet_chars: int | None = None,
    **options: Unpack[ReadOptions],
) -> query_service_pb2.LexicalSearchRequest:
    """Search for words and "phrases", best match first.

    To get the next page, set `cursor` to `next_cursor` of the response.

    If `snippet_chars` is set, the response has highlights of at most this length (1 to 1,000; 0: the server's default).
    """
    return query_service_pb2.LexicalSearchRequest(
        user_id=user_id,
        query_text=query,
        page_size=page_size,
        cursor=cursor,
        **_build_read_options(**options),
        highlight=None if snippet_chars is None else query_service_pb2.HighlightOptions(snippet_chars=snippet_chars),
    )


def semantic_search(
    user_id: str,
    query: str | Sequence[float],
    *,
    top_k: int = 0,
    min_score: float | None = None,
    **options: Unpack[ReadOptions],
) -> query_service_pb2.SemanticSearchRequest:
    """Search for messages that are semantically similar to a text or a vector.

    The response has at most `top_k` messages (default: 20), all with a score of at least `min_score`.
    """
    request = query_service_pb2.SemanticSearchRequest(
        user_id=user_id,
        top_k=top_k,
        min_score=min_score,
        **_build_read_options(**options),
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
    include_relations: bool = False,
    embedding: Sequence[float] | None = None,
    **options: Unpack[ReadOptions],
) -> query_service_pb2.HybridSearchRequest:
    """Search for messages that answer a question, best match first.

    The ranking combines lexical and semantic search, and considers the speaker and neighboring messages. The response
    has at most `top_k` messages (default: 20). `explain` adds the components of the scores, and `include_relations`
    adds pairs of related messages. `embedding` is a vector of the question that the caller has computed.
    """
    return query_service_pb2.HybridSearchRequest(
        user_id=user_id,
        query_text=question,
        query_embedding=_build_embedding(embedding),
        top_k=top_k,
        explain=explain,
        include_relations=include_relations,
        **_build_read_options(**options),
    )


def neighbors(
    user_id: str,
    message_id: str,
    *,
    before: int | None = None,
    after: int | None = None,
    return_fields: Sequence[str] | None = None,
) -> query_service_pb2.GetNeighborsRequest:
    """Return the messages around a message, oldest first.

    The default is 20 messages before the message and none after it.
    """
    return query_service_pb2.GetNeighborsRequest(
        user_id=user_id, message_id=message_id, before=before, after=after, return_fields=_build_mask(return_fields)
    )


def batch_get(
    user_id: str, message_ids: Iterable[str], *, return_fields: Sequence[str] | None = None
) -> query_service_pb2.BatchGetMessagesRequest:
    """Return up to 500 messages by id, in the order of `message_ids`."""
    return query_service_pb2.BatchGetMessagesRequest(
        user_id=user_id, message_ids=message_ids, return_fields=_build_mask(return_fields)
    )


def count_messages(
    user_id: str, *, at_least: str = "", **filters: Unpack[FilterOptions]
) -> query_service_pb2.CountMessagesRequest:
    """Count a user's messages that match the filters.

    If `at_least` is set, the count includes the write with this token.
    """
    return query_service_pb2.CountMessagesRequest(user_id=user_id, filter=_build_filter(**filters), at_least=at_least)


def list_conversations(
    user_id: str, *, page_size: int = 0, cursor: str = "", at_least: str = ""
) -> query_service_pb2.ListConversationsRequest:
    """List a user's conversations, most recently active first, in pages of 1 to 500 (default: 50)."""
    return query_service_pb2.ListConversationsRequest(
        user_id=user_id, page_size=page_size, cursor=cursor, at_least=at_least
    )


def list_users(*, page_size: int = 0, cursor: str = "") -> query_service_pb2.ListUsersRequest:
    """List the users who have messages, by id, in pages of 1 to 500 (default: 50).

    The call requires the scope `admin`.
    """
    return query_service_pb2.ListUsersRequest(page_size=page_size, cursor=cursor)


def export_messages(
    user_id: str, *, cursor: str = "", **filters: Unpack[FilterOptions]
) -> query_service_pb2.ExportMessagesRequest:
    """Export all messages of a user, oldest first, in batches that `import_messages` accepts.

    To resume after a batch, pass the cursor of that batch. The cursor of the last batch is empty. The call has the
    timeout `import_timeout`.
    """
    return query_service_pb2.ExportMessagesRequest(user_id=user_id, filter=_build_filter(**filters), cursor=cursor)


def write(
    messages: Iterable[Writable], *, replace: bool = False, request_id: str = ""
) -> ingest_service_pb2.WriteMessagesRequest:
    """Store up to 1,000 messages atomically.

    If a message has no id, the batch gets a request id, so that a retry does not store the message twice.
    """
    batch = [to_chat_message(message) for message in messages]
    return ingest_service_pb2.WriteMessagesRequest(
        messages=batch, replace=replace, request_id=request_id or _create_request_id(batch)
    )


def add(
    user_id: str,
    messages: str | ChatAPIMessage | Iterable[ChatAPIMessage],
    *,
    conversation_id: str = "",
    request_id: str = "",
) -> ingest_service_pb2.WriteMessagesRequest:
    """Store new messages atomically.

    `messages` is a text that the user wrote, one message, or up to 1,000 messages, oldest first. A message is
    `{"role": "user", "content": "…"}` with optional fields of `chat_message`, such as `ts`. The response has the
    message ids in `results`. Pass the `write_token` of the response to a later read as `at_least`, so that the read
    includes the messages.
    """
    if isinstance(messages, str):
        messages = {"role": "user", "content": messages}
    new_messages: Iterable[Any] = [messages] if isinstance(messages, Mapping) else messages
    batch = [
        to_chat_message({"conversation_id": conversation_id, **message}, user_id=user_id) for message in new_messages
    ]
    return write(batch, request_id=request_id)


def import_batches(
    messages: Iterable[Writable], *, replace: bool = False
) -> Iterator[ingest_service_pb2.ImportMessagesRequest]:
    """Split messages lazily into import requests within the server's limits."""
    for batch in _split_batches(map(to_chat_message, messages)):
        yield ingest_service_pb2.ImportMessagesRequest(
            messages=batch, replace=replace, request_id=_create_request_id(batch)
        )


def delete(user_id: str, message_ids: Iterable[str]) -> ingest_service_pb2.DeleteMessagesRequest:
    """Delete up to 1,000 messages of a user."""
    return ingest_service_pb2.DeleteMessagesRequest(user_id=user_id, message_ids=message_ids)


def delete_matching(user_id: str, **filters: Unpack[FilterOptions]) -> ingest_service_pb2.DeleteMessagesRequest:
    """Delete the messages of a user that match all filters. At least one filter is required."""
    return ingest_service_pb2.DeleteMessagesRequest(user_id=user_id, filter=_build_filter(**filters))


def erase_user(user_id: str) -> ingest_service_pb2.EraseUserRequest:
    """Erase all data of a user. The receipt in the response lists where data of the user remains, and until when."""
    return ingest_service_pb2.EraseUserRequest(user_id=user_id)


def status(user_id: str = "") -> ingest_service_pb2.GetIndexStatusRequest:
    """Return the status of the message log and the indexes, for one user or, without `user_id`, for all users."""
    return ingest_service_pb2.GetIndexStatusRequest(user_id=user_id)


def server_info() -> server_service_pb2.GetServerInfoRequest:
    """Return the server's version, features, embedding model and limits."""
    return server_service_pb2.GetServerInfoRequest()


def recall(  # noqa: PLR0913 - a parameter for each option
    question: str = "",
    *,
    user_id: str | None = None,  # noqa: ARG001 - sent as metadata: see `build_user_metadata`
    since: TimeLike | None = None,
    until: TimeLike | None = None,
    role: RoleName | None = None,
    now: TimeLike | None = None,
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
    """Answer a question from stored messages.

    `user_id` is required with an API key; a user token already determines the user.

    The search starts with the filters `since`, `until` and `role`, and may drop them. `time_zone` is the IANA name of
    the user's time zone. `question_embedding` is a vector of the question that the caller has computed; it must have
    the server's dimension. `conversation_id` limits the recall to one conversation; conversations in
    `exclude_conversation_ids` are not read. `turns` are the latest turns of the current conversation, oldest first, at
    most 20. If there are turns, the question may be empty. `at_least` is a write token: the recall waits until searches
    include this write. `evidence_messages` is the maximum number of messages in the evidence, 1 to 50 (0: the server's
    default).
    """
    context = recall_service_pb2.RecallContext(
        time_range=_build_time_range(since, until),
        preferred_role=_parse_role(role),
        time_zone=time_zone,
        now=None if now is None else to_timestamp("now", now),
        conversation_id=conversation_id or "",
        exclude_conversation_ids=exclude_conversation_ids or (),
        turns=_build_turns(turns),
    )
    return recall_service_pb2.RecallRequest(
        question=question,
        context=context,
        skill=skill,
        budget=recall_service_pb2.RecallBudget(max_evidence_messages=evidence_messages) if evidence_messages else None,
        include_trace=include_trace,
        question_embedding=_build_embedding(question_embedding),
        at_least=at_least,
    )


def build_context(
    turns: Sequence[Turn] = (),
    *,
    user_id: str | None = None,  # noqa: ARG001 - sent as metadata: see `build_user_metadata`
    conversation_id: str = "",
    max_tokens: int = 0,
    now: TimeLike | None = None,
    time_zone: str = "",
    at_least: str = "",
    exclude_conversation_ids: Sequence[str] = (),
) -> recall_service_pb2.BuildContextRequest:
    """Select messages for a prompt.

    The field `text` of the response has at most `max_tokens` estimated tokens (0: 2,000).

    The response has the latest messages of the conversation `conversation_id`, and related messages of other
    conversations. `turns` are the latest turns of the current conversation, oldest first, at most 20. At least one of
    `turns` and `conversation_id` is required. `user_id` is required with an API key; a user token already determines
    the user.
    """
    return recall_service_pb2.BuildContextRequest(
        turns=_build_turns(turns),
        conversation_id=conversation_id,
        max_tokens=max_tokens,
        now=None if now is None else to_timestamp("now", now),
        time_zone=time_zone,
        at_least=at_least,
        exclude_conversation_ids=exclude_conversation_ids,
    )


def _build_stream_requests(
    build: Callable[_Options, recall_service_pb2.RecallRequest],
) -> Callable[_Options, recall_service_pb2.StreamRecallRequest]:
    @wraps(build)
    def build_stream_request(
        *args: _Options.args, **options: _Options.kwargs
    ) -> recall_service_pb2.StreamRecallRequest:
        request = build(*args, **options)
        request.ClearField("include_trace")  # the only field that a stream does not have
        return recall_service_pb2.StreamRecallRequest.FromString(request.SerializeToString())

    return build_stream_request


stream_recall = _build_stream_requests(recall)
"""Run a recall; yield each step and then the result. Closing the iterator cancels the recall."""


def build_user_metadata(user_id: str | None) -> tuple[tuple[str, str | bytes], ...]:
    """Return gRPC metadata with the user id of a recall; empty if the user id is None.

    gRPC allows only printable ASCII in text metadata, and trims white space. A user id that gRPC would reject or change
    is sent as binary metadata.
    """
    if user_id is None:
        return ()
    if user_id.isascii() and user_id.isprintable() and user_id == user_id.strip():
        return (("x-user-id", user_id),)
    return (("x-user-id-bin", user_id.encode()),)


def _split_batches(messages: Iterable[message_pb2.ChatMessage]) -> Iterator[list[message_pb2.ChatMessage]]:
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


def _create_request_id(batch: Sequence[message_pb2.ChatMessage]) -> str:
    return "" if all(message.message_id for message in batch) else uuid.uuid4().hex


def _build_read_options(
    *, return_fields: Sequence[str] | None = None, at_least: str = "", **filters: Unpack[FilterOptions]
) -> Any:  # noqa: ANN401 - fields of a request
    return {"filter": _build_filter(**filters), "return_fields": _build_mask(return_fields), "at_least": at_least}


def _build_filter(
    since: TimeLike | None = None,
    until: TimeLike | None = None,
    role: RoleName | None = None,
    conversation_id: str | None = None,
    metadata: Mapping[str, str] | None = None,
    exclude_conversation_ids: Sequence[str] | None = None,
) -> message_pb2.Filter:
    return message_pb2.Filter(
        time_range=_build_time_range(since, until),
        role=_parse_role(role),
        conversation_id=conversation_id or "",
        metadata=metadata or {},
        exclude_conversation_ids=exclude_conversation_ids or (),
    )


def _build_time_range(since: TimeLike | None, until: TimeLike | None) -> message_pb2.TimeRange | None:
    if since is None and until is None:
        return None
    return message_pb2.TimeRange(
        since=None if since is None else to_timestamp("since", since),
        until=None if until is None else to_timestamp("until", until),
    )


def _build_turns(turns: Sequence[Turn]) -> list[recall_service_pb2.Turn]:
    return [recall_service_pb2.Turn(role=to_role_value(turn["role"]), text=turn["text"]) for turn in turns]


def _parse_role(name: RoleName | None) -> message_pb2.Role.ValueType:
    return message_pb2.ROLE_UNSPECIFIED if name is None else to_role_value(name)


def _build_embedding(values: Sequence[float] | None) -> query_service_pb2.Embedding | None:
    return None if values is None else query_service_pb2.Embedding(values=values)


def _build_mask(fields: Sequence[str] | None) -> FieldMask | None:
    return None if fields is None else FieldMask(paths=fields)
