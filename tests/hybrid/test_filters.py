"""Tests for filters, and for the exclusion of messages after the time of a question."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hybrid.hybrid_requests import DAY, EAST, SMALL_TALK, ask, chat, delete, result_ids, until, write

from chat_messages import new_message
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

FILTERS = {
    "nothing": m.Filter(),
    "since": until(40 * DAY, since=3600),
    "until": until(1800),
    "both": until(2400.000001, since=600),
    "an empty range": until(600, since=600),
    "role": m.Filter(role=m.ROLE_ASSISTANT),
    "conversation": m.Filter(conversation_id="c1"),
    "metadata": m.Filter(metadata={"app": "a1"}),
    "metadata that all must hold": m.Filter(metadata={"app": "a1", "kind": "k2"}),
    "no such metadata": m.Filter(metadata={"app": "a1", "kind": ""}),
    "no such conversation": m.Filter(conversation_id="c9"),
    "two conversations excluded": m.Filter(exclude_conversation_ids=["c1", "c3"]),
    "a conversation excluded that has no message": m.Filter(exclude_conversation_ids=["c9"]),
    "a conversation wanted and excluded": m.Filter(conversation_id="c1", exclude_conversation_ids=["c1"]),
    "all": m.Filter(
        role=m.ROLE_USER, conversation_id="c2", metadata={"kind": "k1"}, time_range=until(3600, since=60).time_range
    ),
}


def admits(message_filter: m.Filter, message: m.ChatMessage) -> bool:
    span, ts = message_filter.time_range, message.ts.ToMicroseconds()
    return (
        (not span.HasField("since") or ts >= span.since.ToMicroseconds())
        and (not span.HasField("until") or ts < span.until.ToMicroseconds())
        and message_filter.role in {m.ROLE_UNSPECIFIED, message.role}
        and message_filter.conversation_id in {"", message.conversation_id}
        and message.conversation_id not in message_filter.exclude_conversation_ids
        and dict(message_filter.metadata).items() <= dict(message.metadata).items()
    )


@pytest.mark.parametrize("name", FILTERS)
def test_search_returns_exactly_the_matches_that_pass_the_filter(vector_server: Server, user: str, name: str) -> None:
    rng = random.Random(name)  # noqa: S311 - any texts will do
    messages = [
        new_message(
            user, f"m{n:03}", " ".join(rng.sample(("tea", "milk", "honey", "mint", "sugar", "lemon"), 3)),
            ts=n * 40, role=rng.choice((m.ROLE_USER, m.ROLE_ASSISTANT, m.ROLE_SYSTEM)), conversation_id=f"c{n % 4}",
            metadata={"app": f"a{n % 3}", "kind": f"k{n % 5}"} if n % 7 else {},
            embedding=(1.0, rng.random(), 0.0, 0.0) if n % 3 == 0 else (),
        )
        for n in range(120)
    ]  # fmt: skip
    token = write(vector_server, messages)
    admitted = [message for message in messages if admits(FILTERS[name], message)]
    by_words = ask(vector_server, user, "tea", token, filter=FILTERS[name], top_k=200)
    assert set(result_ids(by_words)) == {item.message_id for item in admitted if "tea" in item.content}
    vector = q.Embedding(values=EAST)
    by_both = ask(vector_server, user, "tea", token, filter=FILTERS[name], top_k=200, query_embedding=vector)
    assert set(result_ids(by_both)) == {item.message_id for item in admitted if "tea" in item.content or item.embedding}


def test_until_after_the_last_message_has_no_effect(vector_server: Server, user: str) -> None:
    """A message at the exclusive end is omitted; an end one microsecond later admits it."""
    messages = [new_message(user, f"m{n}", f"tea {n}", ts=n * 60, embedding=(1.0, n / 10, 0.0, 0.0)) for n in range(6)]
    token = write(vector_server, messages)
    vector = q.Embedding(values=EAST)
    endless = ask(vector_server, user, "tea", token, query_embedding=vector, explain=True)
    for seconds in (300.000001, 40 * DAY, 300 * 365 * DAY):
        ended = ask(vector_server, user, "tea", token, query_embedding=vector, explain=True, filter=until(seconds))
        assert ended.items == endless.items
    at_the_latest = ask(vector_server, user, "tea", token, query_embedding=vector, filter=until(300))
    assert sorted(result_ids(at_the_latest)) == [f"m{n}" for n in range(5)]


def everything(server: Server, user: str, message_filter: m.Filter, token: str = "") -> list[q.HybridSearchResponse]:
    """Run many kinds of searches; clear `index_lagging`, which may differ."""
    questions = ["What did Ann say about the film?", "tea", "爬山", "What did Zoe buy?", "bicycle mushrooms 周末"]
    answers = [
        ask(server, user, question, token, filter=message_filter, explain=True, top_k=200, query_embedding=embedding)
        for question in questions
        for embedding in (None, q.Embedding(values=EAST))
    ]
    for answer in answers:
        answer.ClearField("index_lagging")
    return answers


def test_later_messages_do_not_change_answers_for_an_earlier_time(vector_server: Server, user: str) -> None:
    talk = chat(user, 40, name="Ann", conversation_id="c")
    for n, item in enumerate(talk[::3]):
        item.embedding.extend((1.0, n / 10, 0.0, 0.0))
    before = everything(vector_server, user, until(40 * 60), write(vector_server, talk))
    assert any(answer.items for answer in before)
    assert {item.speaker_matched for item in before} == {False}
    later = [
        new_message(user, f"later{n}", f"{SMALL_TALK[n % 10]} tea film", 40 * 60 + n, name="Zoe", embedding=EAST)
        for n in range(60)
    ]
    assert everything(vector_server, user, until(40 * 60), write(vector_server, later)) == before
    assert everything(vector_server, user, m.Filter()) != before
    token = delete(vector_server, user, *[item.message_id for item in later[:30]])
    assert everything(vector_server, user, until(40 * 60), token) == before


def test_relative_times_are_resolved_from_the_end_of_the_filter_range(vector_server: Server, user: str) -> None:
    days = [new_message(user, f"day{n:02}", "I went to the market", n * DAY + 3600) for n in range(28)]
    token = write(vector_server, days)
    answer = ask(vector_server, user, "When was I at the market yesterday?", token, filter=until(11 * DAY), top_k=200)
    assert len(answer.items) == 11
    assert result_ids(answer)[0] == "day10"


def test_messages_of_a_day_that_a_question_names_are_found_and_an_empty_day_is_reported(
    vector_server: Server, user: str
) -> None:
    days = [new_message(user, f"day{n:02}", "I went to the market", n * DAY + 3600) for n in range(28) if n != 20]
    token = write(vector_server, days)
    message_filter = until(40 * DAY)
    answer = ask(vector_server, user, "What did I do at the market on 1970-01-13?", token, filter=message_filter)
    assert result_ids(answer)[0] == "day12"
    assert not answer.empty_time_ranges
    empty = ask(vector_server, user, "What did I do at the market on 1970-01-21?", token, filter=message_filter)
    assert [period.since.seconds for period in empty.empty_time_ranges] == [20 * DAY]
    nobody = ask(vector_server, f"{user}-without-messages", "What did I do on 1970-01-21?", filter=message_filter)
    assert [period.since.seconds for period in nobody.empty_time_ranges] == [20 * DAY]


def test_neighbors_of_a_match_are_not_results(vector_server: Server, user: str) -> None:
    talk = chat(user, 21, name="Ann", conversation_id="c")
    talk[10].content = "The ferry to Naxos leaves at nine"
    token = write(vector_server, talk)
    answer = ask(vector_server, user, "ferry Naxos", token, top_k=200)
    assert result_ids(answer) == ["talk00010"]
    named = ask(vector_server, user, "What did Ann say of the ferry?", top_k=200)
    assert "talk00010" in result_ids(named)
    role = ask(vector_server, user, "ferry Naxos", top_k=200, filter=m.Filter(role=m.ROLE_ASSISTANT))
    assert not role.items


@pytest.mark.parametrize("name", ["Ann", "小明", "A", "  ", "🙂", "Ann (work)", "a.b*c["])
def test_sender_affects_ranking_but_does_not_match(vector_server: Server, user: str, name: str) -> None:
    messages = [
        new_message(user, "hers", "I was at the harbour", 5, name=name),
        new_message(user, "his", "I was at the harbour", 9 * DAY, name="Bob"),
        new_message(user, "beside", "Nice weather", 6, name=name),
    ]
    token = write(vector_server, messages)
    answer = ask(vector_server, user, f"When was {name} at the harbour?", token)
    assert set(result_ids(answer)) - {"beside"} == {"hers", "his"}
    if name.strip():
        assert result_ids(answer)[0] == "hers"
