"""Tests for `conversation_topic`, which adapts the semantic ranking to the current conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hybrid.hybrid_requests import EAST, ask, write
from hypothesis import assume, given
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.server.embedding.vector import serialize_vector
from nomemory.server.search.hybrid.conversation_topic import add_topic
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from nomemory.server.embedding.vector import Vector
    from running_server import Server

MARATHON = "What went badly in my runs for the marathon, and what should I practise?"
PIANO = "What went badly in my nocturne, and what should I practise?"
NEXT_STEP = "Which part went badly, and what should I practise?"


def normalize(numbers: list[float]) -> Vector:
    return serialize_vector((np.array(numbers) / np.linalg.norm(numbers)).tolist())


def compute_cosine(first: Vector, second: Vector) -> float:
    return float(np.frombuffer(first, "<f4") @ np.frombuffer(second, "<f4"))


vectors = (
    st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3)
    .filter(lambda v: np.linalg.norm(v) > 0.1)
    .map(normalize)
)


@given(query=vectors, topic=vectors)
def test_similar_topic_moves_the_query_towards_it_and_another_topic_does_not(query: Vector, topic: Vector) -> None:
    cosine = compute_cosine(query, topic)
    assume(abs(cosine - 0.65) > 1e-6)
    combined = add_topic(query, topic)
    if cosine < 0.65:
        assert combined == query
        return
    assert np.linalg.norm(np.frombuffer(combined, "<f4")) == pytest.approx(1, abs=1e-6)
    assert compute_cosine(combined, topic) >= cosine - 1e-6
    assert compute_cosine(combined, query) >= 0.97


@pytest.fixture(scope="module")
def hobbies(server: Server) -> str:
    """The write token of a user with messages about two hobbies."""
    texts = [
        "I ran 30 kilometres on Sunday, the knee held, and the last five were too fast.",
        "My coach wants two slow runs and one interval session every week until the race.",
        "The left hand of the nocturne is still uneven, the teacher says to play it alone and slowly.",
        "At the recital I will play the nocturne second, after the mazurka.",
        "The dentist moved the appointment to May.",
        "We painted the kitchen yellow.",
    ]
    return write(server, [new_message("hobbies", f"m{n}", text, n * 86_400) for n, text in enumerate(texts)])


def compute_lead_of_piano(answer: q.HybridSearchResponse) -> float:
    """Return by how much the best message about the piano ranks above the best message about running."""
    scores = {item.message.message_id: item.score for item in answer.items}
    return max(scores["m2"], scores["m3"]) - max(scores["m0"], scores["m1"])


def test_messages_on_the_topic_of_the_conversation_rank_higher(server: Server, hobbies: str) -> None:
    plain, running, playing = (
        compute_lead_of_piano(ask(server, "hobbies", NEXT_STEP, hobbies, conversation_topic=topic))
        for topic in ("", MARATHON, PIANO)
    )
    assert running < plain < playing


def test_unrelated_topic_changes_nothing(server: Server, hobbies: str) -> None:
    plain = ask(server, "hobbies", NEXT_STEP, hobbies)
    assert ask(server, "hobbies", NEXT_STEP, conversation_topic="When is the birthday of my sister?") == plain


def test_blank_topic_and_a_topic_beside_a_vector_change_nothing(
    server: Server, vector_server: Server, hobbies: str
) -> None:
    plain = ask(server, "hobbies", NEXT_STEP, hobbies, explain=True)
    assert ask(server, "hobbies", NEXT_STEP, explain=True, conversation_topic=" ") == plain
    token = write(vector_server, [new_message("hobbies", "near", "tea", embedding=EAST)])
    vector = q.Embedding(values=EAST)
    of_vector = ask(vector_server, "hobbies", NEXT_STEP, token, query_embedding=vector)
    assert of_vector.items
    assert of_vector == ask(vector_server, "hobbies", NEXT_STEP, query_embedding=vector, conversation_topic=PIANO)
