"""Tests that arbitrary queries return only messages of the user."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

import pytest
from lexical.engine import Engine
from lexical.shelf import LIMITS, Shelf

from nomemory.server.search.grammar.grammar import parse_query
from nomemory.server.search.grammar.tree import Query
from nomemory.server.search.lexical.highlight import HighlightLimits, highlight

STRINGS, REMOTE_STRINGS = 1_500, 500
"""A string costs a database more."""

PIECES = [
    *[
        '"',
        "'",
        "“",
        "”",
        "「",
        "」",
        "『",
        "』",
        "＂",
        "(",
        ")",
        "（",
        "）",
        "-",
        "－",
        "--",
        "\\",
        "*",
        ":",
        "^",
        "~",
        "[",
        "]",
    ],
    *[
        " ",
        "  ",
        "\u3000",
        "\t",
        "\n",
        "\x00",
        "\x1c",
        "\x85",
        "\u200b",
        "\u200d",
        "\ufe0f",
        "\ufeff",
        "\u202e",
        "\u0301",
    ],
    *["AND", "OR", "NOT", "ＡＮＤ", "and", " AND ", " OR ", " NOT ", " -", ' -"', " (", ") "],
    *["火锅", "不吃辣", "辣", "的", "開會", "繁體字", "カタカナ", "ー", "한국어", "각", "ไทย", "𠮷", "㊗"],
    *[
        "don't",
        "C++",
        "a.b@c.com",
        "5:30",
        "https://x.com/?a=b",
        "the",
        "hot",
        "pot",
        "user:u2",
        "chars:火",
        "ts:>0",
        "/a.*/",
    ],
    *[
        "😀",
        "👨‍👩‍👧",
        "❤️",
        "ﬁ",
        "ß",
        "İ",
        "ǅ",
        "½",
        "\ud800",
        "\udfff",
        "\U0010ffff",
        "\ufffe",
        "e\u0301",
        "ｶﾞ",
        "x" * 70,
    ],
]

SURROGATES = ("\ud800", "\udfff")


def strings(seed: int) -> Iterator[str]:
    """Return strings of up to twelve parts and unusual characters."""
    chance = random.Random(seed)  # noqa: S311 - the same strings each time
    ranges = [range(0x80), range(0x3000, 0xA000), range(sys.maxunicode + 1)]

    def piece() -> str:
        return chance.choice(PIECES) if chance.random() < 0.8 else chr(chance.choice(chance.choice(ranges)))

    for _ in range(STRINGS):
        yield "".join(piece() for _ in range(chance.randint(1, 12)))


def contents() -> Iterator[str]:
    """Return messages that match most of the strings."""
    chance = random.Random(8)  # noqa: S311 - the same messages each time
    storable = [piece for piece in PIECES if piece not in SURROGATES]
    for _ in range(150):
        yield " ".join(chance.choices(storable, k=6))


@pytest.fixture(scope="module")
def shelf(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with closing(Shelf(engine, tmp_path_factory.mktemp("lexical"))) as filled:
        filled.put_texts("u1", *contents())
        filled.put_texts("u2", *contents())
        yield filled


def test_arbitrary_query_returns_only_messages_of_the_user(shelf: Shelf, *, is_remote: bool) -> None:
    finding, count = 0, REMOTE_STRINGS if is_remote else STRINGS
    for text in islice(strings(seed=7), count):
        parsed_query = parse_query(text, LIMITS)
        hits = shelf.page("u1", parsed_query, shelf.freeze("u1", parsed_query), limit=3)
        assert {shelf.messages[hit.sequence].user_id for hit in hits} <= {"u1"}
        for hit in hits[:1]:
            assert_highlighted(shelf.messages[hit.sequence].content, parsed_query, hit.score)
        finding += bool(hits and parsed_query.leaves)
    assert finding > count / 2, "the strings must match some messages"


def assert_highlighted(content: str, parsed_query: Query, score: float) -> None:
    """Check that exactly the scoring terms are highlighted."""
    highlighted = highlight(content, parsed_query, 10, HighlightLimits(chars=20_000, spans=200))
    assert bool(highlighted.spans) == (score > 0)
    assert all(0 <= span.start < span.end <= len(content) for span in highlighted.spans)
    assert (
        0 <= highlighted.snippet.start <= highlighted.snippet.end <= min(highlighted.snippet.start + 10, len(content))
    )
