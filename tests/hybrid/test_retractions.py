"""Tests for the ranking of retracted messages and their retractions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from hybrid.hybrid_requests import DAY, ask, chat, delete, result_ids, until, write
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring import services
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

QUESTION = "Where is my workshop in Lisbon?"


def talk(user: str, *retracts: str) -> list[m.ChatMessage]:
    """Return small talk, a message with the answer, and a later message without words of the question."""
    return [
        *chat(user, 20, start=9 * DAY),
        new_message(user, "wrong", "My workshop is in Lisbon.", 30 * DAY),
        new_message(user, "right", "I mixed that up, sorry.", 40 * DAY, retracts=retracts),
    ]


def parts(item: q.HybridItem) -> dict[str, float]:
    return {component.name: component.value for component in item.explanation.components}


@pytest.mark.both_logs
def test_retracted_message_ranks_below_its_retraction(vector_server: Server, user: str) -> None:
    answer = ask(vector_server, user, QUESTION, write(vector_server, talk(user, "wrong")), explain=True)
    right, wrong = answer.items[:2]
    assert result_ids(answer)[:2] == ["right", "wrong"]
    assert wrong.message.retracted_by == "right"
    assert right.score == pytest.approx(wrong.score - parts(wrong)["retracted"])
    assert parts(right)["retracts"] > 0
    for item in answer.items:
        assert sum(parts(item).values()) == pytest.approx(item.score, abs=1e-5)


def test_ranking_without_retractions_is_unchanged(vector_server: Server, user: str) -> None:
    answer = ask(vector_server, user, QUESTION, write(vector_server, talk(user)), explain=True)
    assert result_ids(answer)[0] == "wrong"
    assert "right" not in result_ids(answer)
    assert not any(parts(item).keys() & {"retracts", "retracted"} for item in answer.items)


def test_retracted_message_regains_its_rank_when_the_retraction_is_deleted(vector_server: Server, user: str) -> None:
    before = ask(vector_server, user, QUESTION, write(vector_server, talk(user, "wrong")))
    after = ask(vector_server, user, QUESTION, delete(vector_server, user, "right"))
    assert (before.items[0].message.message_id, after.items[0].message.message_id) == ("right", "wrong")
    assert after.items[0].message.retracted_by == ""


def test_retracted_message_does_not_raise_the_sufficiency(vector_server: Server, user: str) -> None:
    likely = ask(vector_server, user, QUESTION, write(vector_server, talk(user))).sufficiency
    retracted = talk(user, "wrong")[-1]
    unlikely = ask(vector_server, user, QUESTION, write(vector_server, [retracted], replace=True)).sufficiency
    assert unlikely < 0.75 < likely


def test_retraction_chain_is_ordered_latest_first(vector_server: Server, user: str) -> None:
    later = [
        new_message(user, "third", "No, wait.", 50 * DAY, retracts=["right"]),
        new_message(user, "fourth", "Forget it.", 60 * DAY, retracts=["third"]),
    ]
    answer = ask(vector_server, user, QUESTION, write(vector_server, [*talk(user, "wrong"), *later]))
    assert result_ids(answer)[:4] == ["fourth", "third", "right", "wrong"]
    assert [item.message.retracted_by for item in answer.items[:4]] == ["", "fourth", "third", "right"]


def test_mutually_retracting_messages_are_still_found(vector_server: Server, user: str) -> None:
    messages = talk(user, "wrong")
    messages[-2].retracts.append("right")
    assert set(result_ids(ask(vector_server, user, QUESTION, write(vector_server, messages)))[:2]) == {"right", "wrong"}


@pytest.mark.both_logs
def test_filter_excludes_the_retraction_but_keeps_the_mark(vector_server: Server, user: str) -> None:
    token = write(vector_server, talk(user, "wrong"))
    for message_filter in (until(35 * DAY), until(35 * DAY, since=20 * DAY)):
        answer = ask(vector_server, user, QUESTION, token, filter=message_filter)
        assert "right" not in result_ids(answer)
        assert answer.items[0].message.retracted_by == "right"


def test_retractions_are_read_for_users_with_more_messages_than_the_timeline_holds(
    own_settings: Settings,
    start: Callable[[Settings], AbstractContextManager[Server]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "_TIMELINE_MAX", 10)
    monkeypatch.setattr(services, "_CANDIDATES_MAX", 10)
    with start(own_settings) as server:
        again = new_message("u", "third", "No, wait.", 90 * DAY, retracts=["right"])
        more = chat("u", 200, start=60 * DAY)
        answer = ask(server, "u", QUESTION, write(server, [*talk("u", "wrong"), again, *more[20:]]))
        assert result_ids(answer)[:3] == ["third", "right", "wrong"]


texts = ["My workshop is in Lisbon.", "Lisbon is warm.", "Sorry.", "No.", "Where is my workshop?"]
IDS = [f"m{n}" for n in range(5)]
retractions = st.lists(st.lists(st.sampled_from(IDS), max_size=2, unique=True), min_size=5, max_size=5)


@given(taken=retractions)
def test_any_retraction_graph_yields_ordered_results_whose_score_components_add_up(
    vector_server: Server, user: str, taken: list[list[str]]
) -> None:
    messages = [
        new_message(user, entry, text, n, retracts=[other for other in retracted if other != entry])
        for n, (entry, text, retracted) in enumerate(zip(IDS, texts, taken, strict=True))
    ]
    answer = ask(vector_server, user, QUESTION, write(vector_server, messages, replace=True), explain=True)
    scores = {item.message.message_id: item.score for item in answer.items}
    assert {"m0", "m1", "m4"} <= scores.keys()
    assert [item.score for item in answer.items] == sorted(scores.values(), reverse=True)
    takers = {item.message.message_id: item.message.retracted_by for item in answer.items}
    for item in answer.items:
        assert sum(parts(item).values()) == pytest.approx(item.score, abs=1e-5)
        taker = item.message.retracted_by
        if taker and takers[taker] == "":
            assert scores[taker] > item.score
