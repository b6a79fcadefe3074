"""Helpers for the tests of counting, listing and exporting: writes, complete listings, exports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

OLDEST, NEWEST = q.LIST_ORDER_OLDEST_FIRST, q.LIST_ORDER_NEWEST_FIRST


def write(server: Server, messages: list[m.ChatMessage], *, replace: bool = False) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, replace=replace)).write_token


def delete(server: Server, user: str, message_ids: list[str]) -> None:
    server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=message_ids))


def count(server: Server, user: str, message_filter: m.Filter | None = None) -> int:
    return server.query.CountMessages(q.CountMessagesRequest(user_id=user, filter=message_filter)).count


def export(server: Server, user: str, cursor: str = "") -> list[q.ExportMessagesResponse]:
    return list(server.query.ExportMessages(q.ExportMessagesRequest(user_id=user, cursor=cursor)))


def exported(batches: list[q.ExportMessagesResponse]) -> list[m.ChatMessage]:
    return [message for batch in batches for message in batch.messages]


def listed_users(server: Server, size: int) -> Iterator[list[q.UserSummary]]:
    cursor, more = "", True
    while more:
        page = server.query.ListUsers(q.ListUsersRequest(page_size=size, cursor=cursor))
        yield list(page.users)
        cursor, more = page.next_cursor, bool(page.next_cursor)


def conversation_pages(server: Server, user: str, size: int) -> Iterator[list[q.Conversation]]:
    cursor, more = "", True
    while more:
        page = server.query.ListConversations(q.ListConversationsRequest(user_id=user, page_size=size, cursor=cursor))
        yield list(page.conversations)
        cursor, more = page.next_cursor, bool(page.next_cursor)
