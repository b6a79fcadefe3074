"""Tests for the relations between results, compared with brute force and over a real server."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hybrid.hybrid_requests import DAY, ask, result_ids, write
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.server.message import LoggedMessage
from nomemory.server.search.hybrid.related_messages import (
    MAX_COMPARED,
    MIN_Z_SCORE,
    ComparedMessage,
    Relation,
    find_relations,
)
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

ANN, BOB = (1, "Ann"), (1, "Bob")
UNITS = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda some: math.hypot(*some) > 0.1)


def related(number: int, speaker: tuple[int, str], terms: Sequence[str], ts_us: int) -> ComparedMessage:
    return ComparedMessage(LoggedMessage("u", f"m{number}", ts_us, number, b""), speaker, frozenset(terms))


def unit(numbers: Sequence[float]) -> list[float]:
    return [number / math.hypot(*numbers) for number in numbers]


def packed(vectors: dict[str, list[float]]) -> dict[str, bytes]:
    return {message_id: np.array(numbers, dtype="<f4").tobytes() for message_id, numbers in vectors.items()}


def find_relations_by_brute_force(some: Sequence[ComparedMessage], vectors: dict[str, list[float]]) -> list[Relation]:
    """Compute the relations by brute force."""
    compared = sorted(
        (item for item in some if item.message.message_id in vectors),
        key=lambda item: (item.message.ts_us, item.message.message_id),
    )

    def cosine(first: ComparedMessage, other: ComparedMessage) -> float:
        pairs = zip(vectors[first.message.message_id], vectors[other.message.message_id], strict=True)
        return sum(a * b for a, b in pairs)

    def weight(terms: frozenset[str]) -> float:
        counts = [sum(term in item.terms for item in some) for term in terms]
        return sum(math.log(1 + (len(some) - count + 0.5) / (count + 0.5)) for count in counts)

    pairs = []
    for index, message in enumerate(compared):
        for other in compared[index + 1 :]:
            usual = [cosine(message, third) for third in compared if third is not message]
            near = (cosine(message, other) - fmean(usual)) / max(pstdev(usual), 1e-9)
            least = min(weight(message.terms), weight(other.terms))
            shared = weight(message.terms & other.terms) / least if least else 0.0
            if message.speaker == other.speaker:
                pairs.append(Relation(message.message.message_id, other.message.message_id, near, shared))
    return pairs


@given(
    st.lists(
        st.tuples(st.sampled_from([ANN, BOB]), st.sets(st.sampled_from("abcde")), st.integers(0, 5), st.none() | UNITS),
        min_size=3,
        max_size=9,
    )
)
def test_related_pairs_equal_a_brute_force_computation(
    drawn: list[tuple[tuple[int, str], set[str], int, list[float] | None]],
) -> None:
    some = [related(n, speaker, sorted(terms), ts) for n, (speaker, terms, ts, _) in enumerate(drawn)]
    vectors = {f"m{n}": unit(numbers) for n, (*_, numbers) in enumerate(drawn) if numbers}
    pairs = find_relations(some, packed(vectors))
    if len(vectors) < 3:
        assert pairs == []
        return
    expected = {(item.earlier_id, item.later_id): item for item in find_relations_by_brute_force(some, vectors)}
    got = {(item.earlier_id, item.later_id): item for item in pairs}
    flat = {
        pair
        for pair, item in expected.items()
        if abs(item.z_score) > 1e3 or abs(item.z_score - MIN_Z_SCORE) < 1e-2 or spread(pair[0], vectors) < 1e-4
    }
    assert got.keys() - flat == {pair for pair, item in expected.items() if item.z_score >= MIN_Z_SCORE} - flat
    for pair in got.keys() - flat:
        assert got[pair].z_score == pytest.approx(expected[pair].z_score, rel=0.02, abs=0.02)
        assert got[pair].shared_terms == pytest.approx(expected[pair].shared_terms)


def spread(message_id: str, vectors: dict[str, list[float]]) -> float:
    """Return the spread of a message's cosines; if they are equal, rounding decides."""
    own_vector = vectors[message_id]
    return pstdev(
        sum(a * b for a, b in zip(own_vector, other, strict=True))
        for name, other in vectors.items()
        if name != message_id
    )


def test_fewer_than_three_vectors_yield_no_distance_baseline() -> None:
    some = [related(n, ANN, "a", n) for n in range(5)]
    assert find_relations(some, packed({"m0": unit([1, 0, 0, 0]), "m1": unit([1, 0, 0, 0])})) == []
    assert find_relations([], {}) == []


def vectored(
    user: str,
    message_id: str,
    content: str,
    ts: float,
    numbers: tuple[float, ...],
    **fields: Any,  # noqa: ANN401 - any field
) -> m.ChatMessage:
    message = new_message(user, message_id, content, ts, **fields)
    message.embedding.extend(numbers)
    return message


def talk(user: str) -> list[m.ChatMessage]:
    far = [
        vectored(user, f"far{n}", f"A lamp, number {n}, stands in the hall.", n * DAY, (0.1 * n, 1.0, 0.3, 1.0 - n / 9))
        for n in range(8)
    ]
    return [
        *far,
        vectored(user, "old", "The lamp for the studio comes from Turin.", 20 * DAY, (1.0, 0.0, 0.0, 0.0)),
        vectored(user, "new", "The studio lamp: not Turin, it comes from Bergen.", 30 * DAY, (1.0, 0.05, 0.0, 0.0)),
        vectored(
            user, "echo", "The studio lamp comes from Turin.", 31 * DAY, (1.0, 0.02, 0.0, 0.0), role=m.ROLE_ASSISTANT
        ),
    ]


def pairs(answer: q.HybridSearchResponse) -> list[tuple[str, str]]:
    return [(relation.earlier_message_id, relation.later_message_id) for relation in answer.relations]


def test_messages_of_one_speaker_on_one_topic_are_related(vector_server: Server, user: str) -> None:
    token = write(vector_server, talk(user))
    question: dict[str, Any] = {"query_embedding": q.Embedding(values=(1.0, 0.1, 0.0, 0.0)), "top_k": MAX_COMPARED}
    plain = ask(vector_server, user, "Which lamp is in the studio?", token, **question)
    answer = ask(vector_server, user, "Which lamp is in the studio?", token, include_relations=True, **question)
    assert result_ids(answer) == result_ids(plain)
    assert not plain.relations
    assert ("old", "new") in pairs(answer)
    assert not [pair for pair in pairs(answer) if "echo" in pair]
    assert {item for pair in pairs(answer) for item in pair} <= set(result_ids(answer))
    relation = next(item for item in answer.relations if item.earlier_message_id == "old")
    assert relation.semantic_z_score >= MIN_Z_SCORE
    assert 0 < relation.shared_terms <= 1


def test_messages_of_another_user_are_never_related(vector_server: Server, user: str) -> None:
    token = write(vector_server, [*talk(user), *talk(f"{user}-other")])
    vector = q.Embedding(values=(1.0, 0.1, 0.0, 0.0))
    first = ask(vector_server, user, "Which lamp?", token, include_relations=True, query_embedding=vector)
    alone = f"{user}-alone"
    second = ask(
        vector_server,
        alone,
        "Which lamp?",
        write(vector_server, talk(alone)),
        include_relations=True,
        query_embedding=vector,
    )
    assert pairs(first) == pairs(second)
    assert [relation.semantic_z_score for relation in first.relations] == [
        relation.semantic_z_score for relation in second.relations
    ]


def test_no_relations_without_vectors(vector_server: Server, user: str) -> None:
    plain = [new_message(user, f"m{n}", f"A lamp, number {n}, stands in the hall.", n) for n in range(6)]
    answer = ask(vector_server, user, "Which lamp?", write(vector_server, plain), include_relations=True)
    assert result_ids(answer)
    assert not answer.relations
