"""Tests for the ranking with missing data: no names, no conversations, few names, or assistant evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hybrid.hybrid_requests import DAY, MINUTE, ask, chat, result_ids, write

from chat_messages import new_message
from nomemory.v1 import message_pb2 as m

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

USER, ASSISTANT = m.ROLE_USER, m.ROLE_ASSISTANT


def story(user: str, **fields: str) -> list[m.ChatMessage]:
    """Return small talk with one fact in a reply and one split over two messages."""
    talk = chat(user, 120)
    for index, text in {
        41: "Which instrument would you like to learn?",
        42: "The cello, since I was nine.",
        80: "My neighbour Aldous turned 57 on Sunday.",
        101: "Aldous drives the ferry across the fjord.",
    }.items():
        talk[index].content = text
    for message in talk:
        for field, value in fields.items():
            setattr(message, field, value)
    return talk


SHAPES: dict[str, dict[str, str]] = {
    "no names, no conversations": {},
    "one conversation holds everything": {"conversation_id": "all"},
    "no conversations": {"name": "Ann"},
    "everything": {"name": "Ann", "conversation_id": "all"},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_are_found_in_conversations_of_any_structure(vector_server: Server, user: str, shape: str) -> None:
    token = write(vector_server, story(user, **SHAPES[shape]))
    answered = ask(vector_server, user, "Which instrument did they want to learn, the cello?", token, top_k=5)
    assert result_ids(answered)[0] == "talk00042"
    halves = ask(vector_server, user, "What does the neighbour who turned 57 drive?", top_k=5)
    assert set(result_ids(halves)[:2]) == {"talk00080", "talk00101"}


@pytest.mark.parametrize(
    "question",
    ["Which tent did you recommend?", "你推荐过什么帐篷 tent？", "What have you said about the tent?", "tent?"],
)
def test_assistant_messages_rank_first_when_the_question_asks_for_them(
    vector_server: Server, user: str, question: str
) -> None:
    talk = chat(user, 60)
    talk[20].content, talk[20].role = "I need a tent for the mountains, 帐篷", USER
    talk[21].content, talk[21].role = "Take the tent with two poles, 帐篷", ASSISTANT
    token = write(vector_server, talk)
    only = ask(vector_server, user, question, token, filter=m.Filter(role=ASSISTANT))
    assert result_ids(only) == ["talk00021"]
    both = ask(vector_server, user, question)
    assert set(result_ids(both)) == {"talk00020", "talk00021"}
    if "you" in question or "你" in question:
        assert result_ids(both)[0] == "talk00021"


@pytest.mark.parametrize("question", ["你答应过我什么 promise？", "你之前答应给我买什么来着？ promise"])
def test_promise_of_the_assistant_ranks_first_for_questions_about_it(
    vector_server: Server, user: str, question: str
) -> None:
    talk = chat(user, 40)
    talk[11].content = "I promise: 我答应你，下周提醒你买票。"
    token = write(vector_server, talk)
    assert result_ids(ask(vector_server, user, question, token, top_k=1)) == ["talk00011"]


def test_user_messages_rank_first_if_no_message_has_a_sender_name(vector_server: Server, user: str) -> None:
    messages = [
        new_message(user, "user", "peanuts make me ill", 5),
        new_message(user, "assistant", "peanuts make me ill", 9e5),
    ]
    messages[1].role = ASSISTANT
    token = write(vector_server, [*chat(user, 30, start=2 * DAY), *messages])
    assert result_ids(ask(vector_server, user, "What makes me ill? Peanuts?", token))[0] == "user"


def test_single_named_sender_is_preferred_and_hides_no_other_message(vector_server: Server, user: str) -> None:
    """A single sender name boosts its message and does not exclude the others."""
    talk = chat(user, 200, conversation_id="c")
    talk[60].content = "The key is under the flowerpot"
    talk[150].content, talk[150].name = "The key opens the cellar", "Oswin"
    token = write(vector_server, talk)
    anybody = ask(vector_server, user, "Where is the key, under a flowerpot?", token)
    assert result_ids(anybody)[0] == "talk00060"
    assert not anybody.speaker_matched
    named = ask(vector_server, user, "What did Oswin say of the key?")
    assert result_ids(named)[0] == "talk00150"
    assert "talk00060" in result_ids(named)
    assert not named.speaker_matched


def test_swapping_the_person_lowers_the_sufficiency(vector_server: Server, user: str) -> None:
    talk = chat(user, 80, conversation_id="c")
    for n, item in enumerate(talk):
        item.name = ("Imke", "Teodor")[n % 2]
    contents = {30: "I finally ran my first marathon in Porto!", 50: "My marathon medal hangs in my kitchen."}
    for index, text in contents.items():
        talk[index].content = text
    talk[31].content = "Your marathon must have been hard!"
    token = write(vector_server, talk)
    of_her = ask(vector_server, user, "Where did Imke run a marathon?", token)
    of_him = ask(vector_server, user, "Where did Teodor run a marathon?")
    assert of_her.speaker_matched
    assert of_him.speaker_matched
    assert of_her.sufficiency > of_him.sufficiency + 0.2
    assert result_ids(of_her)[0] == "talk00030"


def test_rare_sender_is_found_among_many_sender_names(vector_server: Server, user: str) -> None:
    talk = [new_message(user, f"m{n}", f"step {n}", n * MINUTE, name=f"Guest{n}") for n in range(120)]
    talk += [new_message(user, "first", "I brought the lantern", -DAY, name="Ottoline")]
    answer = ask(vector_server, user, "What did Ottoline bring, a lantern?", write(vector_server, talk))
    assert result_ids(answer)[0] == "first"


@pytest.mark.parametrize("name", ["Mara", ""])
def test_speaker_is_matched_only_if_most_messages_have_an_author_name(
    vector_server: Server, user: str, name: str
) -> None:
    talk = chat(user, 40, name=name)
    talk[10].content, talk[10].name = "Shall we meet at the ferry?", "Aldous"
    talk[20].content, talk[20].name = "The ferry leaves at noon.", "Brunhild"
    talk[30].content = "Aldous and I took the ferry to the fjord."
    answer = ask(vector_server, user, "Where did Aldous go by ferry?", write(vector_server, talk))
    assert answer.speaker_matched == bool(name)
    assert "talk00030" in result_ids(answer)[:3]
