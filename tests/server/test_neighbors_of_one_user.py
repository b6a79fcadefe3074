"""Tests that neighbors are messages of one user, even with equal times of other users."""

from __future__ import annotations

from chat_messages import ids, new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from running_server import Server


def test_neighbors_are_messages_of_the_same_user(server: Server, user: str) -> None:
    names = [user[:-1], user, f"{user}z"]  # the others' ids sort before and after the user's
    messages = [new_message(name, f"m{n}", "hello", ts=n) for name in names for n in range(5)]
    server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages))
    response = server.query.GetNeighbors(
        q.GetNeighborsRequest(user_id=user, message_id="m2", before=20, after=20)
    ).items
    assert ids(response) == ["m0", "m1", "m2", "m3", "m4"]
    assert {message.user_id for message in response} == {user}
