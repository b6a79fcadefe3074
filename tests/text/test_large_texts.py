"""Tests with texts for which a quadratic algorithm would take minutes."""

from __future__ import annotations

from itertools import islice, product
from string import ascii_lowercase

import pytest

from nomemory.importing.secret_redaction import redact_secrets
from nomemory.recall.grounding.assertions import is_quoted_text
from nomemory.recall.reading.excerpts import split_whole_sentences
from nomemory.server.faults import Fault
from nomemory.server.search.grammar.grammar import QueryLimits, parse_query
from nomemory.text.analysis import tokenize
from nomemory.text.normalization import fold_text
from nomemory.text.quoted_text import find_quoted_spans
from nomemory.text.sentences import SENTENCE_END

QUERY_LIMITS = QueryLimits(100_000, 128, 16)


def test_many_blank_lines_after_an_introduction() -> None:
    assert not is_quoted_text("Shopping list:" + "\n" * 20_000)


def test_many_sentence_ends_before_a_particle() -> None:
    assert SENTENCE_END.search("。" * 32_000 + "的") is None


def test_long_column_of_numbers() -> None:
    column = "\n".join(map(str, range(10_000, 30_000)))
    assert "".join(split_whole_sentences(column)) == column


def test_many_quotations_with_an_introduction() -> None:
    (span,) = find_quoted_spans("Ann said: see you there\n" * 10_000)
    assert span.start == len("Ann said: ")


def test_many_excluded_terms() -> None:
    words = islice(product(ascii_lowercase, repeat=4), 20_000)
    with pytest.raises(Fault):
        parse_query(" ".join(f"-{''.join(word)}" for word in words), QUERY_LIMITS)


def test_many_combining_marks() -> None:
    text = "a" + "\u0315" * 60_000 + "\u0327" * 60_000
    assert len(tokenize(text)) == 1
    assert len(fold_text(text)) < 100


def test_many_blank_lines() -> None:
    assert not is_quoted_text("\n" * 200_000 + "x")


def test_many_unclosed_fences() -> None:
    assert find_quoted_spans("```a" * 50_000) == []


@pytest.mark.parametrize("text", ["token_" * 40_000, "token=" * 40_000 + "(", "eyJ-" * 60_000])
def test_many_beginnings_of_secrets(text: str) -> None:
    assert len(redact_secrets(text)) > 0
