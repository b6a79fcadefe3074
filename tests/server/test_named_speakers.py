"""Tests that sender names are removed from the text of a semantic search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

TALK = [
    ("Caroline", "Hi Melanie! How are you today?"),
    ("Melanie", "Hey Caroline! Good to see you."),
    ("Melanie", "I finally signed up for that pottery class on Mondays."),
    ("Caroline", "Thanks, Melanie! See you soon, Melanie."),
]


def write(server: Server, user: str, talk: list[tuple[str, str]]) -> str:
    messages = [new_message(user, f"m{n}", text, ts=n, name=name) for n, (name, text) in enumerate(talk)]
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages)).write_token


Scored = list[tuple[str, float]]


def nearest(server: Server, user: str, text: str, token: str, before: int = 100) -> Scored:
    request = q.SemanticSearchRequest(user_id=user, query_text=text, at_least=token, filter=m.Filter())
    request.filter.time_range.until.FromSeconds(before)
    response = server.query.SemanticSearch(request, timeout=30)
    return [(item.message.message_id, item.score) for item in response.items]


@pytest.mark.parametrize("name", ["Melanie", "Mel", "melanie"])
def test_sender_name_in_a_question_does_not_match_greetings(server: Server, user: str, name: str) -> None:
    token = write(server, user, TALK)
    nearest_ids = nearest(server, user, f"Which class did {name} sign up for?", token)
    assert nearest_ids == nearest(server, user, "Which class did sign up for?", token)
    assert nearest_ids[0][0] == "m2"


@pytest.mark.parametrize("speakers", ["Melanie", ""], ids=["who speaks", "of nobody who speaks"])
def test_query_that_is_only_a_name_is_searched_unchanged(server: Server, user: str, speakers: str) -> None:
    token = write(server, user, [(speakers, text) for _, text in TALK])
    assert nearest(server, user, "Melanie", token)[-1][0] == "m2"


def test_name_without_earlier_messages_is_not_a_sender(server: Server, user: str) -> None:
    write(server, user, TALK)
    token = write(server, user, [*TALK, ("Nadia", "I am new here.")])
    question, bare = "Did Melanie and Nadia meet?", "Did and meet?"
    assert nearest(server, user, question, token, before=4) == nearest(server, user, "Did and Nadia meet?", token, 4)
    assert nearest(server, user, question, token) == nearest(server, user, bare, token)
