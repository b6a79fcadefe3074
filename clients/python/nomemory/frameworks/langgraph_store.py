"""LangGraph adapter: a store for the messages of one user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from nomemory.client import Client
from nomemory.frameworks.langgraph_items import UnsupportedOperationError, to_filter_options, to_item_value, to_message
from nomemory.frameworks.langgraph_namespaces import ConversationNamespaces, Namespace
from nomemory.frameworks.tools import LastWrite
from nomemory.v1 import message_pb2

_PAGE: Final = 500


class MemoryStore(BaseStore):
    """A LangGraph store that stores items as messages of one user.

    The key of an item is the message id. The value of an item has `content`, `role`, `said_at` and `name`. Values with
    any other field are rejected, as are the operation options `ttl` and `index`. The namespace of a message is the root
    namespace, followed by the conversation id if the message has one. Deleting an item deletes the message.

    Args:
        client: the client for all calls, which the caller must close.
        user_id: the user who owns the messages. A namespace cannot select another user.
        namespace: the root namespace of all items.
    """

    def __init__(self, client: Client, user_id: str, namespace: Namespace = ("memories",)) -> None:
        self._client = client
        self._user_id = user_id
        self._namespaces = ConversationNamespaces(namespace)
        self._last_write = LastWrite()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute store operations in order.

        Raises:
            ValueError: an operation is not supported. All operations before it have been executed.
            NoMemoryError: a call failed.
        """
        return [self._execute_operation(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute store operations in order in another thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _execute_operation(self, op: Op) -> Result:
        validate_op_namespace(op)
        if isinstance(op, GetOp):
            message = self._get_message(op.key)
            return self._to_item(message) if self._is_in_namespace(message, op.namespace) else None
        if isinstance(op, SearchOp):
            return self._search_items(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        self._write_item(op)
        return None

    def _get_message(self, key: str) -> message_pb2.ChatMessage | None:
        messages = self._client.batch_get(self._user_id, [key]).items
        return messages[0] if messages else None

    def _is_in_namespace(self, message: message_pb2.ChatMessage | None, namespace: Namespace) -> bool:
        conversation_id = self._namespaces.parse_conversation_id(namespace)
        return message is not None and message.conversation_id == conversation_id

    def _write_item(self, op: PutOp) -> None:
        stored = self._get_message(op.key)
        if op.value is None:
            self._delete_message(op, stored)
        else:
            self._put_message(op, stored, op.value)

    def _put_message(self, op: PutOp, stored: message_pb2.ChatMessage | None, value: Mapping[str, Any]) -> None:
        if op.index is not None or op.ttl is not None:
            raise UnsupportedOperationError("`index` and `ttl` are not supported")
        if stored is not None and not self._is_in_namespace(stored, op.namespace):
            raise UnsupportedOperationError(f"key {op.key} already exists in another namespace; use another key")
        message = to_message(value, stored)
        message.user_id, message.message_id = self._user_id, op.key
        message.conversation_id = self._namespaces.parse_conversation_id(op.namespace)
        self._last_write.token = self._client.write([message], replace=True).write_token

    def _delete_message(self, op: PutOp, stored: message_pb2.ChatMessage | None) -> None:
        if self._is_in_namespace(stored, op.namespace):
            self._client.delete(self._user_id, [op.key])

    def _search_items(self, op: SearchOp) -> list[SearchItem]:
        options = to_filter_options(op.filter or {})
        if conversation_id := self._namespaces.find_searched_conversation(op.namespace_prefix):
            options["conversation_id"] = conversation_id
        end = op.offset + op.limit
        if op.query:
            search = partial(self._client.hybrid_search, self._user_id, op.query, top_k=end, **options)
            response = self._last_write.read_after_write(lambda token: search(at_least=token))
            return [self._to_search_item(item.message, item.score) for item in response.items[op.offset :]]
        newest = self._client.iter_messages(self._user_id, page_size=min(end, _PAGE), **options)
        return [self._to_search_item(item, None) for item in islice(newest, op.offset, end)]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        counts = {
            conversation.conversation_id: conversation.message_count
            for conversation in self._client.iter_conversations(self._user_id)
        }
        no_conversation = [""] if self._client.count_messages(self._user_id) > sum(counts.values()) else []
        return self._namespaces.list_matching_namespaces([*no_conversation, *counts], op)

    def _to_item(self, message: message_pb2.ChatMessage | None) -> Item | None:
        return None if message is None else Item(**self._build_item_fields(message))

    def _to_search_item(self, message: message_pb2.ChatMessage, score: float | None) -> SearchItem:
        return SearchItem(**self._build_item_fields(message), score=score)

    def _build_item_fields(self, message: message_pb2.ChatMessage) -> dict[str, Any]:
        said_at: datetime = message.ts.ToDatetime(tzinfo=UTC)
        namespace = self._namespaces.build_namespace(message.conversation_id)
        return {
            "namespace": namespace,
            "key": message.message_id,
            "value": to_item_value(message),
            "created_at": said_at,
            "updated_at": said_at,
        }
