"""Tests for counts, users and listings in either order, and for invalid requests."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from server.lifecycle import (
    NEWEST,
    OLDEST,
    count,
    delete,
    export,
    listed_users,
    write,
)
from server.test_filtered_reads import RandomMessage, as_filter, conversations, filter_strategy, matching, stored

from chat_messages import ids, new_message
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from running_server import Server

pytestmark = pytest.mark.both_logs


@given(conversation=conversations, filter_values=filter_strategy)
def test_count_equals_brute_force_count(
    vector_server: Server, conversation: list[RandomMessage], filter_values: dict[str, Any]
) -> None:
    user = f"user-{uuid.uuid4().hex}"
    token = stored(vector_server, user, conversation)
    request = q.CountMessagesRequest(user_id=user, filter=as_filter(filter_values), at_least=token)
    assert vector_server.query.CountMessages(request).count == len(matching(conversation, filter_values))


def test_a_count_is_exact_after_every_write(vector_server: Server, user: str) -> None:
    write(
        vector_server,
        [new_message(f"{user}-other", "m1", "x"), new_message(user, "m1", "x"), new_message(user, "m2", "x")],
    )
    assert count(vector_server, user) == 2
    write(vector_server, [new_message(user, "m2", "y")], replace=True)
    assert count(vector_server, user) == 2
    delete(vector_server, user, ["m1"])
    assert count(vector_server, user) == 1
    assert count(vector_server, f"{user}-nobody") == 0


@given(conversation=conversations, filter_values=filter_strategy, size=st.integers(1, 4))
def test_oldest_first_reverses_newest_first(
    vector_server: Server, conversation: list[RandomMessage], filter_values: dict[str, Any], size: int
) -> None:
    user = f"user-{uuid.uuid4().hex}"
    token = stored(vector_server, user, conversation)
    walked: dict[q.ListOrder.ValueType, list[str]] = {OLDEST: [], NEWEST: []}
    for order in walked:
        cursor, more = "", True
        while more:
            page = vector_server.query.ListMessages(
                q.ListMessagesRequest(
                    user_id=user,
                    filter=as_filter(filter_values),
                    page_size=size,
                    cursor=cursor,
                    at_least=token,
                    order=order,
                )
            )
            walked[order] += ids(page.items)
            cursor, more = page.next_cursor, bool(page.next_cursor)
    assert walked[NEWEST] == [item.message_id for item in matching(conversation, filter_values)]
    assert walked[OLDEST] == walked[NEWEST][::-1]


def test_cursor_is_bound_to_the_order(vector_server: Server, user: str) -> None:
    write(vector_server, [new_message(user, f"m{n}", "x", ts=n) for n in range(4)])

    def page(order: q.ListOrder.ValueType, cursor: str = "") -> q.ListMessagesResponse:
        return vector_server.query.ListMessages(
            q.ListMessagesRequest(user_id=user, page_size=2, cursor=cursor, order=order)
        )

    unsaid, newest, oldest = page(q.LIST_ORDER_UNSPECIFIED), page(NEWEST), page(OLDEST)
    assert ids(unsaid.items) == ids(newest.items) == ["m3", "m2"]
    assert ids(page(NEWEST, unsaid.next_cursor).items) == ["m1", "m0"]
    for order, cursor in ((NEWEST, oldest.next_cursor), (OLDEST, newest.next_cursor)):
        with pytest.raises(grpc.RpcError) as error:
            page(order, cursor)
        assert refusal(error.value).reason == "CURSOR_OTHER_QUERY"


def test_writes_between_pages_do_not_affect_an_oldest_first_listing(vector_server: Server, user: str) -> None:
    write(vector_server, [new_message(user, f"m{n}", "x", ts=n) for n in range(9)])
    message_ids, cursor, more = list[str](), "", True
    while more:
        page = vector_server.query.ListMessages(
            q.ListMessagesRequest(user_id=user, page_size=2, cursor=cursor, order=OLDEST)
        )
        message_ids, cursor, more = message_ids + ids(page.items), page.next_cursor, bool(page.next_cursor)
        write(vector_server, [new_message(user, f"late{len(message_ids)}-{n}", "x", ts=n) for n in range(20)])
        write(vector_server, [new_message(user, "m7", "y", ts=8)], replace=True)
        delete(vector_server, user, ["m4"])
    assert message_ids == ["m0", "m1", "m2", "m3", "m5", "m6", "m8"]


def test_users_are_listed_by_id_with_their_counts(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    names = ["Zoe", "ann", "ann ", "bob", "é", "中", "😀"]
    with start(own_settings) as server:
        for n, name in enumerate(names):
            write(server, [new_message(name, f"m{k}", "x") for k in range(n + 1)])
        write(server, [new_message("gone", "m0", "x")])
        delete(server, "gone", ["m0"])
        for size in (1, 2, 3, 7, 8):
            pages = list(listed_users(server, size))
            assert [(item.user_id, item.message_count) for page in pages for item in page] == [
                (name, n + 1) for n, name in enumerate(names)
            ]
            assert all(len(page) == size for page in pages[:-1])


def test_user_added_during_a_listing_is_listed_after_the_cursor(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    with start(own_settings) as server:
        write(server, [new_message(name, "m", "x") for name in ("b", "d", "f")])
        listed_ids = []
        for page in listed_users(server, 2):
            listed_ids += [item.user_id for item in page]
            write(server, [new_message(name, "m", "x") for name in ("a", "e")])
        assert listed_ids == ["b", "d", "e", "f"]


REFUSED: list[tuple[str, Message, list[str]]] = [
    ("CountMessages", q.CountMessagesRequest(filter=m.Filter(role=9)), ["user_id", "filter.role"]),  # type: ignore[arg-type]
    ("ListConversations", q.ListConversationsRequest(page_size=501), ["user_id", "page_size"]),
    ("ListConversations", q.ListConversationsRequest(user_id="u", cursor="c_no"), ["cursor"]),
    ("ListConversations", q.ListConversationsRequest(user_id="u", at_least="w_no"), ["at_least"]),
    ("CountMessages", q.CountMessagesRequest(user_id="u", at_least="w_no"), ["at_least"]),
    ("ListUsers", q.ListUsersRequest(page_size=-1), ["page_size"]),
    ("ListUsers", q.ListUsersRequest(cursor="c_no"), ["cursor"]),
    ("ExportMessages", q.ExportMessagesRequest(user_id=" ", filter=m.Filter(role=9)), ["user_id", "filter.role"]),  # type: ignore[arg-type]
    ("ExportMessages", q.ExportMessagesRequest(user_id="u", cursor="c_no"), ["cursor"]),
    ("ListMessages", q.ListMessagesRequest(page_size=-1, order=3), ["user_id", "page_size", "order"]),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("method", "request_", "fields"), REFUSED)
def test_invalid_request_reports_every_violation(
    vector_server: Server, method: str, request_: Message, fields: list[str]
) -> None:
    call = getattr(vector_server.query, method)
    with pytest.raises(grpc.RpcError) as error:
        list(call(request_) if method == "ExportMessages" else [call(request_)])
    assert refusal(error.value).code is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal(error.value).fields == fields


def test_cursor_is_bound_to_its_method_and_user(small_batches: Server, user: str) -> None:
    for n in range(4):
        write(small_batches, [new_message(user, f"m{n}", "x", ts=n, conversation_id=f"c{n}")])
    query = small_batches.query
    listed = query.ListConversations(q.ListConversationsRequest(user_id=user, page_size=1)).next_cursor
    begun = next(query.ExportMessages(q.ExportMessagesRequest(user_id=user))).next_cursor
    oldest = query.ListMessages(q.ListMessagesRequest(user_id=user, page_size=1, order=OLDEST)).next_cursor
    attempts: list[tuple[Callable[[], object], str]] = [
        (lambda: query.ListConversations(q.ListConversationsRequest(user_id="x", cursor=listed)), "OTHER_USER"),
        (lambda: query.ListConversations(q.ListConversationsRequest(user_id=user, cursor=begun)), "OTHER_QUERY"),
        (lambda: export(small_batches, "x", begun), "OTHER_USER"),
        (lambda: export(small_batches, user, oldest), "OTHER_QUERY"),
        (lambda: query.ListUsers(q.ListUsersRequest(cursor=listed)), "OTHER_USER"),
    ]
    for attempt, reason in attempts:
        with pytest.raises(grpc.RpcError) as error:
            attempt()
        assert refusal(error.value).reason == f"CURSOR_{reason}"
