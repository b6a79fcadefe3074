"""Tests that term occurrences read from messages equal those of the index."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hybrid.hybrid_requests import MINUTE, ask, chat, delete, result_ids, until, write
from lexical.engine import open_tantivy_index
from lexical.shelf import message, shelved

from nomemory.server.message import LoggedMessage
from nomemory.server.message_filter import EVERYTHING
from nomemory.server.search.hybrid import candidate_messages as timelines
from nomemory.server.search.hybrid.candidate_messages import Timeline, build_timeline
from nomemory.server.search.hybrid.term_occurrences import convert_postings, find_term_occurrences
from nomemory.server.wire import encode
from nomemory.text.analysis import analyze_text
from nomemory.v1 import message_pb2 as m
from running_server import Server

WORDS = (
    "tea",
    "Teas",
    "running",
    "runs",
    "café",
    "火锅",
    "我喜欢火锅",
    "北京",
    "Straße",
    "ＡＢＣ",
    "the",
    "5",
    "🙂",
    "don't",
)
LONG = "prelude " * 400 + "coda"


def texts(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)  # noqa: S311 - any order will do
    return [*(" ".join(rng.choices(WORDS, k=rng.randrange(6))) for _ in range(count)), LONG]


def line_of(some: list[str], previous: Timeline | None = None) -> Timeline:
    made = (message("u", text, ts_us=at) for at, text in enumerate(some, 1))
    return build_timeline(
        [LoggedMessage("u", f"m{at}", at, at, encode(item)) for at, item in enumerate(made, 1)], previous
    )


@pytest.mark.parametrize("seed", range(3))
def test_occurrences_from_messages_equal_occurrences_from_postings(tmp_path: Path, seed: int) -> None:
    some = texts(40, seed)
    terms = sorted({term for text in some for term in analyze_text(text).terms} | {"nowhere"})
    line = line_of(some)
    with shelved(open_tantivy_index, tmp_path) as shelf:
        shelf.put(*(message("u", text) for text in some))
        shelf.put(message("another", " ".join(WORDS)))
        looked_up = convert_postings(
            line, dict(zip(terms, shelf.read_postings("u", terms, EVERYTHING, 1000), strict=True))
        )
    read = find_term_occurrences(line, terms)
    assert {term: (item.document_frequency, sorted(item.indexes)) for term, item in looked_up.items()} == {
        term: (item.document_frequency, item.indexes.tolist()) for term, item in read.items()
    }
    assert read["coda"].indexes.tolist() == [len(some) - 1]
    assert find_term_occurrences(line, []) == {}


def test_long_timelines_use_the_index() -> None:
    assert line_of(texts(200, 1)).is_short
    assert not line_of(["tea"] * 300).is_short
    assert not line_of([LONG] * 20).is_short


def test_message_is_analyzed_once_as_the_timeline_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    some, analysed = texts(20, 1), list[str]()
    monkeypatch.setattr(timelines, "analyze_text", _noting(analysed))
    before = line_of(some)
    find_term_occurrences(before, ["tea"])
    find_term_occurrences(before, ["coda"])
    after = line_of([*some, "tea at last"], before)
    assert find_term_occurrences(after, ["tea"])["tea"].indexes[-1] == len(some)
    assert sorted(analysed) == sorted([*some, "tea at last"])


def test_results_are_equal_with_and_without_postings(
    server: Server, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = write(server, _talk(user))
    token = delete(server, user, "talk00011") or token
    questions = (
        "Did I watch a film?",
        "地铁",
        "What did Ann say about lunch? And 周末?",
        "nothing of the kind",
        "prelude coda",
    )
    narrowings = (m.Filter(), m.Filter(role=m.ROLE_ASSISTANT), until(40 * MINUTE))

    def answers() -> list[bytes]:
        return [
            ask(server, user, text, token, filter=message_filter, explain=True, top_k=50).SerializeToString(
                deterministic=True
            )
            for text in questions
            for message_filter in narrowings
        ]

    read = answers()
    monkeypatch.setattr(timelines, "_SHORT", 0)
    assert answers() == read
    assert result_ids(ask(server, user, "coda"))


def _talk(user: str) -> list[m.ChatMessage]:
    talk = chat(user, 80)
    for n, item in enumerate(talk):
        item.name = ("Ann", "Bob")[n % 2]
        item.conversation_id = f"c{n // 30}"
    talk[50].content = LONG
    return talk


def _noting(analysed: list[str]) -> Callable[[str], object]:
    def noting(text: str) -> object:
        analysed.append(text)
        return analyze_text(text)

    return noting
