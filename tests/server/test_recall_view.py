"""Tests for memory views over gRPC: order, superseded statements and attribution."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import grpc
import pytest
from hybrid.hybrid_requests import ask
from hypothesis import given
from hypothesis import strategies as st
from recall.synthesis.independent_check import check

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import recall_service_pb2 as r
from nomemory.v1.recall_service_pb2_grpc import RecallServiceStub

if TYPE_CHECKING:
    from running_server import Server

NOW = datetime(2026, 5, 1, tzinfo=UTC)
QUERY = (1.0, 0.1, 0.0, 0.0)
BEES, STUDIO = (1.0, 0.0, 0.0, 0.0), (0.95, 0.3, 0.0, 0.0)


@dataclass(frozen=True)
class UserRecalls:
    """Runs recalls for one user."""

    server: Server
    user: str
    stub: RecallServiceStub

    def write(self, messages: Sequence[m.ChatMessage]) -> None:
        """Write messages, and wait until they are searchable."""
        request = i.WriteMessagesRequest(messages=messages)
        token = self.server.ingest.WriteMessages(request).write_token
        ask(self.server, self.user, "x", token)

    def recall(self, question: str, vector: Sequence[float] = QUERY) -> r.RecallResponse:
        """Run a recall with a question embedding; with an empty one, only lexically."""
        request = r.RecallRequest(question=question)
        if vector:
            request.question_embedding.values.extend(vector)
        request.context.now.FromDatetime(NOW)
        reply: r.RecallResponse = self.stub.Recall(request, metadata=(("x-user-id", self.user),))
        return reply


@pytest.fixture
def asking(vector_server: Server, user: str) -> Iterator[UserRecalls]:
    with grpc.insecure_channel(vector_server.target) as channel:
        yield UserRecalls(vector_server, user, RecallServiceStub(channel))


def embedded_message(
    user: str,
    message_id: str,
    content: str,
    days_ago: float,
    numbers: Sequence[float],
    role: m.Role.ValueType = m.ROLE_USER,
) -> m.ChatMessage:
    message = new_message(user, message_id, content, (NOW - timedelta(days=days_ago)).timestamp(), role)
    message.embedding.extend(numbers)
    return message


def chatter(user: str) -> list[m.ChatMessage]:
    lines = ["The tram was full.", "Soup again.", "今天风很大", "我去看了场电影", "A parcel came.", "Nice light today."]
    return [
        embedded_message(user, f"far{n}", line, 60 + n, (0.05 * n, 1.0, 0.4, 1.0 - 0.2 * n), m.ROLE_USER)
        for n, line in enumerate(lines)
    ]


def statements(reply: r.RecallResponse) -> list[r.Statement]:
    view = reply.memory_view
    return [*view.preferences, *view.profile, *view.constraints]


def cited(statement: r.Statement) -> str:
    return statement.citations[0].message_id


def test_superseding_statements_are_first_and_referenced_by_the_superseded(asking: UserRecalls) -> None:
    old = embedded_message(asking.user, "old", "My studio is above the bakery in Mill Lane.", 40, STUDIO)
    new = embedded_message(
        asking.user, "new", "My studio is no longer in Mill Lane: it is above the ferry office.", 4, STUDIO
    )
    asking.write([*chatter(asking.user), old, new])
    view_statements = statements(asking.recall("Where is my studio?"))
    assert [cited(item) for item in view_statements][:2] == ["new", "old"]
    assert {cited(item): item.superseded_by for item in view_statements} | {"new": "", "old": "new"} == {
        cited(item): item.superseded_by for item in view_statements
    }


def test_chinese_statements_are_superseded(asking: UserRecalls) -> None:
    old = embedded_message(asking.user, "old", "我的画室在磨坊巷的面包店楼上", 40, STUDIO)
    new = embedded_message(asking.user, "new", "我的画室从磨坊巷搬到渡口边上了", 4, STUDIO)
    asking.write([*chatter(asking.user), old, new])
    superseding_ids = {
        cited(statement): statement.superseded_by for statement in statements(asking.recall("我的画室在哪里？"))
    }
    assert (superseding_ids["old"], superseding_ids["new"]) == ("new", "")


def test_unanswered_question_has_an_empty_view_and_the_nearest_messages_as_evidence(asking: UserRecalls) -> None:
    asking.write(chatter(asking.user))
    reply = asking.recall("Which anthem did the mayor sing?")
    assert reply.verdict == r.VERDICT_INSUFFICIENT
    assert statements(reply) == []
    assert {item.message.message_id for item in reply.evidence} <= {f"far{n}" for n in range(6)}
    assert reply.evidence


def test_a_day_without_messages_is_reported(asking: UserRecalls) -> None:
    asking.write(chatter(asking.user))
    reply = asking.recall("What did I say about the light on 3 January 2020?")
    (empty,) = reply.limits.empty_time_ranges
    assert empty.since.ToDatetime(UTC) == datetime(2020, 1, 3, tzinfo=UTC)
    assert empty.until.ToDatetime(UTC) == datetime(2020, 1, 4, tzinfo=UTC)
    assert r.NOTE_CODE_TIME_RANGE_EMPTY in {note.code for note in reply.limits.notes}
    assert not asking.recall("What did I say about the light?").limits.empty_time_ranges


def test_weak_lexical_matches_have_the_verdict_possible(asking: UserRecalls) -> None:
    asking.write(chatter(asking.user))
    reply = asking.recall("Which soup did the mayor of the harbour serve to the visiting choir?", ())
    assert reply.verdict == r.VERDICT_POSSIBLE
    assert {cited(statement) for statement in statements(reply)} <= {item.message.message_id for item in reply.evidence}
    assert statements(reply)


def test_a_user_without_messages_gets_an_insufficient_verdict(asking: UserRecalls) -> None:
    reply = asking.recall("Where is my studio?")
    assert (reply.verdict, statements(reply), list(reply.evidence)) == (r.VERDICT_INSUFFICIENT, [], [])


def test_both_sides_of_a_possible_contradiction_are_in_the_view(asking: UserRecalls) -> None:
    never = embedded_message(asking.user, "never", "I have never kept bees.", 40, BEES)
    bees = embedded_message(asking.user, "bees", "The bees I keep behind the shed swarmed.", 4, BEES)
    asking.write([*chatter(asking.user), never, bees])
    reply = asking.recall("Do I keep bees?")
    assert reply.verdict == r.VERDICT_CONFLICTING
    (conflict,) = reply.conflicts
    assert (cited(conflict.earlier), cited(conflict.later), conflict.possible) == ("never", "bees", True)
    assert conflict.earlier in statements(reply)
    assert conflict.later in statements(reply)
    assert not conflict.earlier.superseded_by


@pytest.mark.parametrize(
    ("content", "role", "attribution"),
    [
        ("My bees winter in the orchard.", m.ROLE_USER, r.ATTRIBUTION_USER),
        ("You could winter the bees in the orchard.", m.ROLE_ASSISTANT, r.ATTRIBUTION_OTHER),
        ("The user keeps bees in the orchard.", m.ROLE_SYSTEM, r.ATTRIBUTION_OTHER),
        ("My neighbour wrote:\n\nThe bees can winter in the orchard.", m.ROLE_USER, r.ATTRIBUTION_QUOTED),
        ("> The bees can winter in the orchard.", m.ROLE_USER, r.ATTRIBUTION_QUOTED),
        ("转发养蜂群的通知：\n\n蜜蜂 bees 在果园过冬。", m.ROLE_USER, r.ATTRIBUTION_QUOTED),
    ],
)
def test_statements_state_the_attribution_of_their_quotes(
    asking: UserRecalls, content: str, role: m.Role.ValueType, attribution: r.Attribution.ValueType
) -> None:
    asking.write([embedded_message(asking.user, "bees", content, 4, BEES, role)])
    (statement,) = statements(asking.recall("Where do the bees winter?"))
    assert statement.attribution == attribution


def test_user_assertions_are_quoted_before_assistant_echoes_and_questions(
    asking: UserRecalls,
) -> None:
    echoes = [
        embedded_message(
            asking.user, f"echo{n}", "The bees winter in the orchard, you said.", 3 + n, BEES, m.ROLE_ASSISTANT
        )
        for n in range(4)
    ]
    asks = [embedded_message(asking.user, f"ask{n}", "where do the bees winter", 8 + n, BEES) for n in range(4)]
    user_message = embedded_message(asking.user, "own", "My bees winter in the orchard.", 40, STUDIO)
    asking.write([*echoes, *asks, user_message])
    reply = asking.recall("Where do the bees winter?")
    assert reply.evidence[0].message.message_id == "own"
    assert "own" in {cited(statement) for statement in statements(reply)}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "I keep bees.",
                    "I have never kept bees.",
                    "My bees moved.",
                    "how are bees kept",
                    "我养蜜蜂",
                    "🐝 bees",
                ]
            ),
            st.integers(1, 30),
            st.sampled_from([m.ROLE_USER, m.ROLE_ASSISTANT]),
            st.sampled_from([BEES, STUDIO, (0.0, 1.0, 0.0, 0.0)]),
        ),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from(["Do I keep bees?", "我养蜜蜂吗？", "Where are the bees?"]),
)
def test_arbitrary_views_cite_messages_and_order_superseding_statements_first(
    asking: UserRecalls, drawn: list[tuple[str, int, m.Role.ValueType, Sequence[float]]], question: str
) -> None:
    fresh_user = UserRecalls(asking.server, f"user-{uuid.uuid4()}", asking.stub)
    messages = [
        embedded_message(fresh_user.user, f"m{n}", content, days, numbers, role)
        for n, (content, days, role, numbers) in enumerate(drawn)
    ]
    fresh_user.write(messages)
    reply = fresh_user.recall(question)
    assert check(reply, {message.message_id: message for message in messages}) == []
    view_statements = statements(reply)
    assert bool(view_statements) is (reply.verdict != r.VERDICT_INSUFFICIENT)
    assert reply.evidence
    for index, statement in enumerate(view_statements):
        before = {c.message_id for newer in view_statements[:index] for c in newer.citations}
        assert statement.superseded_by in {"", *before}
    assert (reply.verdict == r.VERDICT_CONFLICTING) is bool(reply.conflicts)
    assert all(conflict.possible for conflict in reply.conflicts)
