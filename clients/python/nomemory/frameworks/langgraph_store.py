"""A store of LangGraph over the messages of one user: to search, and to keep what was said.

How the namespaces of a LangGraph store stand for a user's conversations.

A message as the value of a store's item.
"""

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
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    validate_op_namespace,
)

from nomemory.client import Client, chat_message, tool_results
from nomemory.client.messages import Narrowing
from nomemory.frameworks.tools import LastWrite
from nomemory.v1 import message_pb2

Namespace = tuple[str, ...]


class Namespaces:
    """The root, for messages without a conversation, and below it a label for each conversation."""

    def __init__(self, root: Namespace) -> None:
        self._root = root

    def of(self, conversation_id: str) -> Namespace:
        """Return the namespace of a conversation; empty: of none."""
        return (*self._root, conversation_id) if conversation_id else self._root

    def conversation(self, namespace: Namespace) -> str:
        """Return the conversation that a namespace stands for; empty: none.

        Raises:
            InvalidNamespaceError: it is not one of this store's.
        """
        below = namespace[len(self._root) :]
        if namespace[: len(self._root)] != self._root or len(below) > 1:
            raise InvalidNamespaceError(f"namespaces of this store are {self._root} and one label more: {namespace}")
        return below[0] if below else ""

    def searched(self, prefix: Namespace) -> str:
        """Return the conversation to search; empty: all of them.

        Raises:
            InvalidNamespaceError: nothing of this store begins with the prefix.
        """
        return "" if prefix == self._root[: len(prefix)] else self.conversation(prefix)

    def matching(self, conversation_ids: Iterable[str], op: ListNamespacesOp) -> list[Namespace]:
        """Return the namespaces of conversations that an operation asks for, in order."""
        everything = map(self.of, conversation_ids)
        found = {
            one[: op.max_depth] for one in everything if all(_fits(one, each) for each in op.match_conditions or ())
        }
        return sorted(found)[op.offset : op.offset + op.limit]


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    wanted = condition.path
    if len(namespace) < len(wanted):
        return False
    part = namespace[: len(wanted)] if condition.match_type == "prefix" else namespace[len(namespace) - len(wanted) :]
    return all(label in {"*", one} for label, one in zip(wanted, part, strict=True))


FIELDS: Final = frozenset({"content", "role", "name", "said_at"})


class NotAMessageError(ValueError):
    """A store of messages was asked to do what messages cannot do."""


def value_of(message: message_pb2.ChatMessage) -> dict[str, Any]:
    """Return a message as a value: `content`, whole, `role`, `said_at`, and `name` where it has one."""
    shown = tool_results.message(message)
    return {name: one for name, one in shown.items() if name in FIELDS} | {"content": message.content}


def new_message(value: Mapping[str, Any], stored: message_pb2.ChatMessage | None) -> message_pb2.ChatMessage:
    """Return the message that a value describes, still without ids; without `role` the user's.

    Without `said_at` it was said when the message was whose place it takes, or now. What a value does not show of that
    message (its metadata, when it expires) stays.

    Raises:
        NotAMessageError: it has no text as `content`, or fields that a message has not.
        ValueError: as `chat_message`.
    """
    strange = value.keys() - FIELDS
    if strange or not isinstance(value.get("content"), str):
        raise NotAMessageError(
            f"this store keeps what was said: a value has `content`, a text, and perhaps {sorted(FIELDS - {'content'})}"
        )
    before = stored or message_pb2.ChatMessage()
    return chat_message(
        user_id="",
        content=value["content"],
        role=value.get("role", "user"),
        name=value.get("name", ""),
        ts=value.get("said_at"),
        metadata=before.metadata,
        expire_ts=before.expire_ts.ToDatetime(tzinfo=UTC) if before.HasField("expire_ts") else None,
    )


def narrowing(conditions: Mapping[str, Any]) -> Narrowing:
    """Return the filter that conditions stand for: `role` is one, `said_at` is from (`$gte`) or before (`$lt`) a time.

    Raises:
        NotAMessageError: it is another condition.
    """
    found: Narrowing = {}
    for field, wanted in conditions.items():
        for operator, value in (wanted if isinstance(wanted, Mapping) else {"$eq": wanted}).items():
            found |= _narrowed(field, operator, value)
    return found


def _narrowed(field: str, operator: str, value: Any) -> Narrowing:  # noqa: ANN401 - what a caller compares with
    match field, operator:
        case "role", "$eq":
            return {"role": value}
        case "said_at", "$gte":
            return {"since": value}
        case "said_at", "$lt":
            return {"until": value}
    raise NotAMessageError(f"there is no filter {field} {operator}: there are role, and said_at with $gte and $lt")


_PAGE: Final = 500


class MemoryStore(BaseStore):
    """The messages of one user. An item is a message: its key is the id, its value has `content`, `role` and `said_at`.

    Messages without a conversation have the namespace of the constructor; others have one label more, the id of the
    conversation. A store keeps what was said, so a value with other fields than a message has is refused, as are a
    `ttl` and a choice of fields to index. Deleting an item deletes the message.

    Args:
        client: makes the calls; the caller closes it.
        user_id: whose messages. No namespace leads to another user's.
        namespace: what the namespaces of all items begin with.
    """

    def __init__(self, client: Client, user_id: str, namespace: Namespace = ("memories",)) -> None:
        self._client = client
        self._user_id = user_id
        self._namespaces = Namespaces(namespace)
        self._written = LastWrite()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry operations out, one after another.

        Raises:
            ValueError: one asks for what messages cannot do; those before it have been carried out.
            NoMemoryError: a call did not succeed.
        """
        return [self._one(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _one(self, op: Op) -> Result:
        validate_op_namespace(op)
        if isinstance(op, GetOp):
            found = self._found(op.key)
            return self._item(found) if self._is_at(found, op.namespace) else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        self._change(op)
        return None

    def _found(self, key: str) -> message_pb2.ChatMessage | None:
        found = self._client.batch_get(self._user_id, [key]).items
        return found[0] if found else None

    def _is_at(self, message: message_pb2.ChatMessage | None, namespace: Namespace) -> bool:
        conversation_id = self._namespaces.conversation(namespace)
        return message is not None and message.conversation_id == conversation_id

    def _change(self, op: PutOp) -> None:
        stored = self._found(op.key)
        if op.value is None:
            self._delete(op, stored)
        else:
            self._put(op, stored, op.value)

    def _put(self, op: PutOp, stored: message_pb2.ChatMessage | None, value: Mapping[str, Any]) -> None:
        if op.index is not None or op.ttl is not None:
            raise NotAMessageError("a message is indexed whole and does not expire by use: leave index and ttl out")
        if stored is not None and not self._is_at(stored, op.namespace):
            raise NotAMessageError(f"the key {op.key} is that of a message in another namespace")
        said = new_message(value, stored)
        said.user_id, said.message_id = self._user_id, op.key
        said.conversation_id = self._namespaces.conversation(op.namespace)
        self._written.token = self._client.write([said], replace=True).write_token

    def _delete(self, op: PutOp, stored: message_pb2.ChatMessage | None) -> None:
        if self._is_at(stored, op.namespace):
            self._client.delete(self._user_id, [op.key])

    def _search(self, op: SearchOp) -> list[SearchItem]:
        options = narrowing(op.filter or {})
        if conversation_id := self._namespaces.searched(op.namespace_prefix):
            options["conversation_id"] = conversation_id
        end = op.offset + op.limit
        if op.query:
            search = partial(self._client.hybrid_search, self._user_id, op.query, top_k=end, **options)
            found = self._written.found_by(lambda token: search(at_least=token))
            return [self._search_item(one.message, one.score) for one in found.items[op.offset :]]
        newest = self._client.iter_messages(self._user_id, page_size=min(end, _PAGE), **options)
        return [self._search_item(one, None) for one in islice(newest, op.offset, end)]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        counts = {one.conversation_id: one.message_count for one in self._client.iter_conversations(self._user_id)}
        without = [""] if self._client.count_messages(self._user_id) > sum(counts.values()) else []
        return self._namespaces.matching([*without, *counts], op)

    def _item(self, message: message_pb2.ChatMessage | None) -> Item | None:
        return None if message is None else Item(**self._fields(message))

    def _search_item(self, message: message_pb2.ChatMessage, score: float | None) -> SearchItem:
        return SearchItem(**self._fields(message), score=score)

    def _fields(self, message: message_pb2.ChatMessage) -> dict[str, Any]:
        said_at: datetime = message.ts.ToDatetime(tzinfo=UTC)
        namespace = self._namespaces.of(message.conversation_id)
        return {
            "namespace": namespace,
            "key": message.message_id,
            "value": value_of(message),
            "created_at": said_at,
            "updated_at": said_at,
        }
