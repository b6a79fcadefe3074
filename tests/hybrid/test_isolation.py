"""Tests that writes and deletions of other users do not change the results of a user."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from hybrid.hybrid_requests import EAST, MINUTE, SMALL_TALK, ask, delete, result_ids, write
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

QUESTIONS = (
    "What did Ann say about the film?",
    "周末想做什么？",
    "Did you have noodles for lunch? And what did Bob buy in 2020?",
    "bicycle tyre",
)
Line = tuple[str, int, str, str, float | None]

lines = st.lists(
    st.tuples(
        st.sampled_from([*SMALL_TALK, "Ann bought a film about Lisbon", "火锅 noodles", "2020"]),
        st.integers(0, 30),
        st.sampled_from(["", "Ann", "Bob", "Zoe"]),
        st.sampled_from(["", "c1", "c2"]),
        st.one_of(st.none(), st.floats(-1, 1, width=32)),
    ),
    min_size=1,
    max_size=25,
)


def messages(user: str, talk: list[Line], mark: str) -> list[m.ChatMessage]:
    return [
        new_message(
            user, f"{mark}{n}", text, at * MINUTE, name=name, conversation_id=conversation,
            embedding=() if angle is None else (1.0, angle, 0.0, 0.0),
        )
        for n, (text, at, name, conversation, angle) in enumerate(talk)
    ]  # fmt: skip


def answers(server: Server, user: str, token: str) -> list[q.HybridSearchResponse]:
    vector = q.Embedding(values=EAST)
    return [
        ask(server, user, question, token, top_k=200, explain=True, query_embedding=embedding)
        for question in QUESTIONS
        for embedding in (None, vector)
    ]


@given(mine=lines, theirs=lines, gone=st.integers(0, 25))
@settings(max_examples=12)
def test_messages_of_other_users_do_not_change_results(
    vector_server: Server, mine: list[Line], theirs: list[Line], gone: int
) -> None:
    user = f"user-{uuid.uuid4().hex[:12]}"
    before = answers(vector_server, user, write(vector_server, messages(user, mine, "m")))
    other = messages(f"{user}-other", theirs, "m")
    assert answers(vector_server, user, write(vector_server, other)) == before
    token = delete(vector_server, f"{user}-other", *[f"m{n}" for n in range(gone + 1)])
    assert answers(vector_server, user, token) == before
    contents = {f"m{n}": text for n, (text, *_) in enumerate(mine)}
    assert all(contents[item.message.message_id] == item.message.content for entry in before for item in entry.items)


def test_neighbors_of_another_user_are_never_returned(vector_server: Server, user: str) -> None:
    """Both users have the same conversation, message ids and times."""
    mine = [new_message(user, f"m{n}", f"mine {n} tea", n * MINUTE, conversation_id="c") for n in range(0, 20, 2)]
    theirs = [new_message(f"{user}-2", f"m{n}", f"theirs {n} tea", n * MINUTE, conversation_id="c") for n in range(21)]
    write(vector_server, theirs)
    answer = ask(vector_server, user, "tea mine", write(vector_server, mine), top_k=200, explain=True)
    assert set(result_ids(answer)) == {entry.message_id for entry in mine}
    assert {item.message.user_id for item in answer.items} == {user}
    assert not any(item.message.content.startswith("theirs") for item in answer.items)


def test_equal_messages_give_equal_results_for_every_user(vector_server: Server, user: str) -> None:
    talk: list[Line] = [(text, n, "Ann", "c1", n / 10) for n, text in enumerate(SMALL_TALK)]
    both = []
    for owner in (user, f"{user}-2"):
        token = write(vector_server, messages(owner, talk, "m"))
        both.append(
            [[(i.message.message_id, i.score) for i in answer.items] for answer in answers(vector_server, owner, token)]
        )
    assert both[0] == both[1]
