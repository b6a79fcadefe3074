"""Tests for users with more messages than the ranking timeline holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pytest
from hybrid.hybrid_requests import DAY, EAST, MINUTE, ask, chat, delete, result_ids, until, write

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring import services
from nomemory.server.search.hybrid import candidate_pool as stretch
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from running_server import Server, settings_without_embedder, started

CITIES = ("Lisbon", "Naxos", "Kyoto", "Bergen", "Quito", "Malta", "Perth", "Cusco")
THINGS = ("kayak", "harp", "loom", "sextant", "drone", "telescope", "quilt", "banjo")


def log(user: str) -> list[m.ChatMessage]:
    """Return 600 messages of small talk with eight purchases, each as a question and its answer."""
    talk = chat(user, 600)
    rng = random.Random(5)  # noqa: S311 - any order will do
    for n, item in enumerate(talk):
        item.conversation_id = f"c{n // 20}"
        item.name = ("Ann", "Bob")[n % 2]
        item.ts.FromMicroseconds(round((n // 20 * DAY + n % 20 * MINUTE) * 1e6))
    for k, (city, thing) in enumerate(zip(CITIES, THINGS, strict=True)):
        at = 20 * (3 * k + 2) + 2 * rng.randrange(9)
        talk[at].content = f"What did you bring from {city}?"
        talk[at + 1].content = f"I bought an old {thing} there, it cost {k + 2}00 euros"
    return talk


@dataclass(frozen=True)
class ServerPair:
    """Two servers with the same messages: one ranks all messages of a user, the other only candidates."""

    whole: Server
    part: Server


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPair]:
    def settings(name: str) -> Settings:
        return settings_without_embedder(tmp_path_factory.mktemp(name))

    with started(settings("whole")) as whole, rank_candidates_only(), started(settings("part")) as part:
        for server in (whole, part):
            write(server, log("other"))
            ask(server, "u", "anything", write(server, log("u")))
        yield ServerPair(whole, part)


@contextmanager
def rank_candidates_only() -> Iterator[None]:
    """Limit the complete ranking to users with at most 50 messages in this context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "_TIMELINE_MAX", 50)
        patch.setattr(services, "_CANDIDATES_MAX", 50)
        yield


@pytest.mark.parametrize("city", CITIES)
def test_full_and_partial_timelines_find_the_answer(both: ServerPair, city: str) -> None:
    question = f"What did Bob buy in {city}?"
    top = [ask(server, "u", question, top_k=3).items for server in (both.whole, both.part)]
    assert top[0][0].message.content.startswith("I bought an old")
    assert [item.message for item in top[1]][:1] == [item.message for item in top[0]][:1]
    assert len({i.message.message_id for i in top[0]} & {i.message.message_id for i in top[1]}) >= 2


@pytest.mark.parametrize(
    "message_filter",
    [m.Filter(role=m.ROLE_ASSISTANT), m.Filter(conversation_id="c5"), until(9 * DAY), until(20 * DAY, since=9 * DAY)],
    ids=["role", "conversation", "until", "both ends"],
)
def test_filter_applies_to_full_and_partial_timelines(both: ServerPair, message_filter: m.Filter) -> None:
    questions = ("bicycle tyre", "noodles and 地铁", "Did Ann buy the kayak in Lisbon?")
    for question in questions:
        of_whole = ask(both.whole, "u", question, filter=message_filter, top_k=200)
        of_part = ask(both.part, "u", question, filter=message_filter, top_k=200)
        assert set(result_ids(of_part)) <= set(result_ids(of_whole))
        assert bool(of_part.items) == bool(of_whole.items)


def test_later_messages_do_not_change_partial_results(both: ServerPair) -> None:
    questions = ["What did Bob buy in Naxos?", "bicycle", "mushrooms 周末"]
    for owner in ("first", "second"):
        write(both.part, log(owner))
    token = delete(both.part, "second", *[f"talk{n:05}" for n in range(400, 600)])
    for message_filter in (until(20 * DAY), until(20 * DAY - 5 * MINUTE), until(DAY)):
        ever = [
            ask(both.part, "first", text, token, filter=message_filter, explain=True, top_k=99) for text in questions
        ]
        then = [
            ask(both.part, "second", text, token, filter=message_filter, explain=True, top_k=99) for text in questions
        ]
        assert any(item.items for item in ever)
        for item, other in zip(ever, then, strict=True):
            assert [(i.message.message_id, i.score, i.explanation) for i in item.items] == [
                (i.message.message_id, i.score, i.explanation) for i in other.items
            ]
            assert item.sufficiency == other.sufficiency


def test_speakers_outside_the_candidates_are_still_recognized(both: ServerPair) -> None:
    talk = log("silent")
    for message in talk[:101]:
        message.name = {"Ann": "Ottoline", "Bob": "Kasimir"}[message.name]
    talk[40].content = talk[41].content = "I repaired the lighthouse"
    for server in (both.whole, both.part):
        write(server, talk)
        response = ask(server, "silent", "Did Kasimir repair the lighthouse?", write(server, talk[:1]), top_k=2)
        assert result_ids(response) == ["talk00041", "talk00040"]
        assert response.speaker_matched


def test_neighbors_of_a_match_are_not_results_in_a_partial_timeline(both: ServerPair) -> None:
    assert result_ids(ask(both.part, "u", "telescope", top_k=200)) == result_ids(
        ask(both.whole, "u", "telescope", top_k=200)
    )
    assert len(ask(both.part, "u", "telescope").items) == 1


def test_partial_timeline_answers_many_questions_and_none_without_words(both: ServerPair) -> None:
    vector = q.Embedding(values=EAST)
    text = "What is a loom? Who has a harp? Where is the quilt? Why a drone? And the banjo?"
    answer = ask(both.part, "u", text, query_embedding=vector, top_k=50)
    assert {"loom", "harp", "quilt", "drone", "banjo"} & set(" ".join(i.message.content for i in answer.items).split())
    assert not ask(both.part, "u", "？！……").items


def test_read_limit_of_long_messages_keeps_matches_searchable(
    start: Callable[[Settings], AbstractContextManager[Server]],
    own_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bytes read per ranking are limited; matches beyond the limit are still found."""
    monkeypatch.setattr(stretch, "_MAX_READ_BYTES", 100_000)
    with start(own_settings) as server:
        token = write(server, [new_message("u", f"m{n:02}", f"parcel{n} common " + "x" * 5_000, n) for n in range(80)])
        assert result_ids(ask(server, "u", "Where is parcel77?", token, top_k=5)) == ["m77"]
        assert result_ids(ask(server, "u", "parcel3", filter=until(5), top_k=5)) == ["m03"]
        assert 15 < len(ask(server, "u", "common", top_k=200).items) < 25
