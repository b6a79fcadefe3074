"""The requests that tell what a server holds: counts, conversations, users, exports. Both clients send them."""

from __future__ import annotations

from typing import TypedDict, Unpack

from nomemory.client import requests
from nomemory.client.options import Narrowing
from nomemory.v1 import query_service_pb2


class CountOptions(Narrowing, total=False):
    """The options of `count_messages`. `at_least` is a write token whose write must be counted."""

    at_least: str


class ConversationOptions(TypedDict, total=False):
    """The options of `list_conversations`: 1 to 500 conversations a page (50 by default), from a `next_cursor` on.

    `at_least` is a write token whose write must be seen.
    """

    page_size: int
    cursor: str
    at_least: str


class UserOptions(TypedDict, total=False):
    """The options of `list_users`: 1 to 500 users a page (50 by default), from a `next_cursor` on."""

    page_size: int
    cursor: str


class ExportOptions(Narrowing, total=False):
    """The options of `export_messages`. `cursor` is the `next_cursor` of the latest batch that arrived."""

    cursor: str


def count_messages(
    user_id: str, *, at_least: str = "", **narrowing: Unpack[Narrowing]
) -> query_service_pb2.CountMessagesRequest:
    """Build a count."""
    return query_service_pb2.CountMessagesRequest(
        user_id=user_id, filter=requests.message_filter(**narrowing), at_least=at_least
    )


def list_conversations(
    user_id: str, *, page_size: int = 0, cursor: str = "", at_least: str = ""
) -> query_service_pb2.ListConversationsRequest:
    """Build a listing of conversations."""
    return query_service_pb2.ListConversationsRequest(
        user_id=user_id, page_size=page_size, cursor=cursor, at_least=at_least
    )


def list_users(*, page_size: int = 0, cursor: str = "") -> query_service_pb2.ListUsersRequest:
    """Build a listing of users."""
    return query_service_pb2.ListUsersRequest(page_size=page_size, cursor=cursor)


def export_messages(
    user_id: str, *, cursor: str = "", **narrowing: Unpack[Narrowing]
) -> query_service_pb2.ExportMessagesRequest:
    """Build an export."""
    return query_service_pb2.ExportMessagesRequest(
        user_id=user_id, filter=requests.message_filter(**narrowing), cursor=cursor
    )
