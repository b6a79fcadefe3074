"""How frequent terms are is remembered, and what is out of date only costs time."""

from __future__ import annotations

from pathlib import Path

from lexical.engine import open_tantivy_index
from lexical.shelf import message, shelved

from nomemory.server.lexical.tantivy.postings import TermFrequencies
from nomemory.server.message import EVERYTHING


class CountingSearcher:
    """An index in which everything stands in all messages, and which counts how often it is asked."""

    def __init__(self, messages: int) -> None:
        self.num_docs = messages
        self.asked = list[str]()

    def doc_freq(self, _field: str, term: str) -> int:
        self.asked.append(term)
        return self.num_docs


def test_a_frequency_is_remembered_until_the_index_has_grown_or_shrunk() -> None:
    frequencies, searcher = TermFrequencies("terms"), CountingSearcher(100)
    for messages, known in ((100, 100), (120, 100), (126, 126), (130, 126), (125, 125)):
        searcher.num_docs = messages
        assert frequencies.of(searcher, ["a", "b"]) == {"a": known, "b": known}  # type: ignore[arg-type]  # a double
    assert searcher.asked == ["a", "b"] * 3


def test_a_term_that_has_spread_since_is_found_everywhere(tmp_path: Path) -> None:
    with shelved(open_tantivy_index, tmp_path) as shelf:
        shelf.put(*(message("u", "tea" if n < 2 else "ale") for n in range(90)))
        assert shelf.postings("u", ["tea"], EVERYTHING, 100)[0].count == 2
        shelf.put(*(message("u", "tea") for _ in range(10)))
        tea, ale = shelf.postings("u", ["tea", "ale"], EVERYTHING, 100)
        assert sorted(tea.sequences.tolist()) == [1, 2, *range(91, 101)]
        assert ale.count == 88
