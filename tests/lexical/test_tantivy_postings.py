"""Tests for postings and the message class in their scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lexical.engine import open_tantivy_index
from lexical.shelf import Shelf, message, shelved

from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.lexical.message_class import CLASSES, classify_message, get_class_weight
from nomemory.server.search.lexical.tantivy import postings as tantivy_postings

TERMS = [f"w{n:02}" for n in range(1, 61)]
MESSAGES = 60


def decode_content(number: int) -> str:
    """Return the words whose number divides that of a message: the first occurs in all, the last in one."""
    return " ".join(term for n, term in enumerate(TERMS, 1) if number % n == 0)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """Return an index of two users with several segments and some deleted messages."""
    with shelved(open_tantivy_index, tmp_path_factory.mktemp("index")) as made:
        for begin in range(1, MESSAGES + 1, 20):
            for user in ("ann", "bob"):
                made.put_texts(user, *map(decode_content, range(begin, begin + 20)))
        made.remove(*(sequence for sequence in range(1, 2 * MESSAGES, 7)))
        yield made


@pytest.mark.parametrize(("rare", "few"), [(0, 0), (0, 1000), (1000, 0), (20, 0), (20, 1000)])
@pytest.mark.parametrize("limit", [5, 100])
@pytest.mark.parametrize("terms", [[*TERMS, "nowhere"], TERMS[:2], ["nowhere"], []])
def test_postings_of_a_term_are_exact_for_every_filter(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, rare: int, few: int, limit: int, terms: list[str]
) -> None:
    monkeypatch.setattr(tantivy_postings, "_RARE", rare)
    monkeypatch.setattr(tantivy_postings, "_FEW", few)
    with shelf.another_reader() as reader:
        for user in ("ann", "bob", "nobody"):
            for message_filter in (EVERYTHING, Filter(since_us=30), Filter(until_us=40), Filter(until_us=20)):
                postings = reader.read_postings(user, terms, message_filter, limit)
                for term, posting in zip(terms, postings, strict=True):
                    expected = [
                        sequence
                        for sequence, item in shelf.messages.items()
                        if item.user_id == user
                        and (message_filter.since_us or 0) <= item.ts_us < (message_filter.until_us or 10**9)
                        and term in item.content.split()
                    ]
                    assert posting.count == len(expected)
                    assert sorted(posting.sequences.tolist()) == (expected if len(expected) <= limit else [])


def test_postings_include_messages_added_after_an_earlier_read(tmp_path: Path) -> None:
    with shelved(open_tantivy_index, tmp_path) as shelf:
        shelf.put(*(message("u", "tea" if n < 2 else "ale") for n in range(90)))
        assert shelf.read_postings("u", ["tea"], EVERYTHING, 100)[0].count == 2
        shelf.put(*(message("u", "tea") for _ in range(10)))
        tea, ale = shelf.read_postings("u", ["tea", "ale"], EVERYTHING, 100)
        assert sorted(tea.sequences.tolist()) == [1, 2, *range(91, 101)]
        assert ale.count == 88


def test_long_messages_and_questions_have_a_lower_class_weight() -> None:
    assert [classify_message("a", terms) for terms in (0, 7, 8, 23, 24, 71, 72, 10**6)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [classify_message("a?", terms) for terms in (0, 72)] == [2, 5]
    assert [get_class_weight(number) * 16 for number in CLASSES] == [16, 15, 14, 13, 12, 11]
