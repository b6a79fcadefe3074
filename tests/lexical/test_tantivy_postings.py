"""Terms that are looked up many at a time: each pass finds what a look-up of each alone would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lexical.engine import open_tantivy_index
from lexical.shelf import Shelf, shelved

from nomemory.server.lexical.tantivy import postings as tantivy_postings
from nomemory.server.message import EVERYTHING, Filter

TERMS = [f"w{n:02}" for n in range(1, 61)]
MESSAGES = 60


def said(number: int) -> str:
    """Say the words whose number divides a message's: the first is in all messages, the last in one."""
    return " ".join(term for n, term in enumerate(TERMS, 1) if number % n == 0)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """Return an index of two users in several segments; some of each one's messages are gone."""
    with shelved(open_tantivy_index, tmp_path_factory.mktemp("index")) as made:
        for begin in range(1, MESSAGES + 1, 20):
            for user in ("ann", "bob"):
                made.put_texts(user, *map(said, range(begin, begin + 20)))
        made.remove(*(sequence for sequence in range(1, 2 * MESSAGES, 7)))
        yield made


@pytest.mark.parametrize(("rare", "few"), [(0, 0), (0, 1000), (1000, 0), (20, 0), (20, 1000)])
@pytest.mark.parametrize("most", [5, 100])
@pytest.mark.parametrize("wanted", [[*TERMS, "nowhere"], TERMS[:2], ["nowhere"], []])
def test_each_term_is_told_apart_from_all_others(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, rare: int, few: int, most: int, wanted: list[str]
) -> None:
    monkeypatch.setattr(tantivy_postings, "_RARE", rare)
    monkeypatch.setattr(tantivy_postings, "_FEW", few)
    for user in ("ann", "bob", "nobody"):
        for narrowed in (EVERYTHING, Filter(since_us=30)):
            with shelf.another_reader() as fresh:
                found = fresh.postings(user, wanted, narrowed, most)
            for term, posting in zip(wanted, found, strict=True):
                expected = [
                    sequence
                    for sequence, one in shelf.messages.items()
                    if one.user_id == user and one.ts_us >= (narrowed.since_us or 0) and term in one.content.split()
                ]
                assert posting.count == len(expected)
                assert sorted(posting.sequences.tolist()) == (expected if len(expected) <= most else [])
