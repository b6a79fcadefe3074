"""Tests that arbitrary questions and messages are answered without errors."""

from __future__ import annotations

import math
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from hybrid.hybrid_requests import EAST, ask, chat, result_ids, write
from hypothesis import given
from hypothesis import strategies as st

from chat_messages import new_message
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

VECTOR = q.Embedding(values=EAST)
TEXTS = {
    "emoji": "🙂🙃👩‍👩‍👧‍👦",
    "emoji among words": "tea 🍵?",
    "control characters": "te\x01a\x7f \x1b[31m tea\u2028?",
    "only punctuation": "?!… ——。",
    "zero width": "\u200b\u200d\ufeff.",
    "four sentences": "Where is the tea? Who drank it? 什么时候？ Why?",
    "ten sentences": " ".join(f"Is it number {n}?" for n in range(10)),
    "2,000 characters of Chinese": "茶" + "".join(chr(0x4E00 + n) for n in range(1998)) + "？",
    "2,000 characters of English": ("tea " + " ".join(f"word{n}" for n in range(400)))[:2000],
    "2,000 questions": "?" * 2000,
    "2,000 quotes": "“" * 2000,
    "redirects": ("我其实真正想问的是" * 300)[:2000],
    "a query": '(tea OR "green tea") -milk user_id:other *',
    "years": "tea in 0000, 9999, 99999, 2020-13-45 and 0 days ago, 999999999 years ago?",
    "surrogate-like": "\ufffe\uffff tea \U0010ffff",
    "right to left": "שלום tea مرحبا",
}


@pytest.mark.parametrize("name", TEXTS)
def test_arbitrary_query_text_is_answered(vector_server: Server, user: str, name: str) -> None:
    messages = [*chat(user, 30), new_message(user, "tea", "Green tea 🍵 茶", 9000, embedding=EAST)]
    token = write(vector_server, messages)
    by_words = ask(vector_server, user, TEXTS[name], token, explain=True, top_k=200)
    by_both = ask(vector_server, user, TEXTS[name], query_embedding=VECTOR, explain=True, top_k=200)
    assert set(result_ids(by_words)) <= set(result_ids(by_both))
    assert "tea" in result_ids(by_both)
    for answer in (by_words, by_both):
        assert 0 <= answer.sufficiency <= 1
        assert all(math.isfinite(item.score) for item in answer.items)
    if "tea" in TEXTS[name]:
        assert "tea" in result_ids(by_words)


LOGS = {
    "nobody": [],
    "one message": ["tea"],
    "messages without words": ["?", "...", "🙂", "the", "，，"],
    "equal messages": ["tea"] * 50,
    "equal questions": ["Do you want tea?"] * 12,
    "quotes that never end": ["“" * 80_000, "tea", '"' * 200_000 + "tea"],
    "questions that never end": ["?" * 200_000, "? " * 100_000 + "tea"],
    "closing after a question": ["tea?" + ")”’' \t" * 26_000 + "x"],
    "capitals": ["a A" * 60_000, "tea " + "Aa" * 90_000],
    "attachments": ["tea\n[" + "x" * 100_000 + "]", "\n[only]", "[\n[\n["],
    "one letter": ["t", "e", "a"],
}


@pytest.mark.parametrize("name", LOGS)
def test_unusual_logs_can_be_searched(vector_server: Server, user: str, name: str) -> None:
    messages = [
        new_message(user, f"m{n}", text, ts=n % 3, name=("Ann", "")[n % 2], embedding=EAST if n % 2 else ())
        for n, text in enumerate(LOGS[name])
    ]
    token = write(vector_server, messages) if messages else ""
    began = time.monotonic()
    for question in ("Did Ann drink tea?", "tea", "茶？", "?"):
        for embedding in (None, VECTOR):
            answer = ask(vector_server, user, question, token, query_embedding=embedding, top_k=200, explain=True)
            assert len(answer.items) <= len(messages)
            assert 0 <= answer.sufficiency <= 1
            assert all(math.isfinite(item.score) for item in answer.items)
    assert time.monotonic() - began < 10
    with_tea = {f"m{n}" for n, text in enumerate(LOGS[name]) if text.partition(" ")[0].strip("?") == "tea"}
    assert with_tea <= set(result_ids(ask(vector_server, user, "tea", top_k=200)))


def test_unknown_user_gets_an_empty_result(vector_server: Server, user: str) -> None:
    answer = ask(vector_server, user, "tea", query_embedding=VECTOR)
    assert answer == q.HybridSearchResponse(embedding_model="none", sufficiency_lexical_only=True)
    assert ask(vector_server, user, "tea") == q.HybridSearchResponse(
        semantic_unavailable=True, sufficiency_lexical_only=True
    )


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)


@given(
    talk=st.lists(st.tuples(texts.filter(str.strip), st.integers(-(10**9), 10**9), texts | st.just("")), max_size=8),
    question=texts.filter(str.strip),
)
def test_arbitrary_messages_and_questions_get_a_ranked_result(
    vector_server: Server, talk: list[tuple[str, int, str]], question: str
) -> None:
    user = f"user-{uuid.uuid4().hex[:12]}"
    messages = [new_message(user, f"m{n}", content, ts, name=name) for n, (content, ts, name) in enumerate(talk)]
    token = write(vector_server, messages) if messages else ""
    answer = ask(vector_server, user, question, token, explain=True)
    keys = [(i.score, i.message.ts.ToMicroseconds(), i.message.message_id) for i in answer.items]
    assert keys == sorted(keys, reverse=True)
    for item in answer.items:
        assert item.score == pytest.approx(sum(part.value for part in item.explanation.components), abs=2e-6)
