"""Tests for highlights and snippets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.shelf import query

from nomemory.server.search.lexical.highlight import HighlightLimits, find_terms, highlight, normalize_plain_text
from nomemory.text.analysis import extract_ranking_terms, tokenize

EXTENT = HighlightLimits(chars=20_000, spans=200)


def marked(content: str, text: str) -> str:
    """Return the content with its matches in brackets."""
    out = content
    for span in reversed(highlight(content, query(text), 1000, EXTENT).spans):
        out = f"{out[: span.start]}[{out[span.start : span.end]}]{out[span.end :]}"
    return out


def snippet(content: str, text: str, chars: int) -> str:
    window = highlight(content, query(text), chars, EXTENT).snippet
    return content[window.start : window.end]


@pytest.mark.parametrize(
    ("content", "text", "expected"),
    [
        ("我从小就不吃辣椒，不吃", '"不吃辣"', "我从小就[不吃辣]椒，不吃"),
        ("辣吃不，不吃", '"不吃辣"', "辣吃不，不吃"),
        ("不吃辣椒，辣椒不吃", "不吃辣", "[不吃辣]椒，辣椒[不吃]"),
        ("She runs; running, ran, run", "running", "She [runs]; [running], [ran], [run]"),
        ("We went, I go, going; gone", "go", "We [went], I [go], [going]; [gone]"),
        ("I won't win, we won", "win", "I won't [win], we [won]"),
        ("火锅不辣", "火锅 -辣", "[火锅]不辣"),
        ("火锅不辣", "-(辣 火锅)", "火锅不辣"),
        ("火锅和辣椒", "火锅 OR NOT 辣椒", "[火锅]和辣椒"),
        ("火锅和辣椒", "火锅 AND NOT (NOT 辣椒)", "[火锅]和[辣椒]"),
        ("他討厭後來的辣", "讨厌后来", "他[討厭後來]的辣"),
        ("ＡＢＣ and abc", "aBc", "[ＡＢＣ] and [abc]"),
        ("Cafe\u0301!", "café", "[Cafe\u0301]!"),
        ("do not, don't, don’t", "don't", "do not, [don't], [don’t]"),
        ("C, C+, C++, c++", "C++", "C, C+, [C++], [c++]"),
        ("👍😀 ok", "😀", "👍[😀] ok"),
        ("啊啊啊啊，啊啊", '"啊啊啊"', "[啊啊啊啊]，啊啊"),
        ("的的我的的我的的", '"的我的的我的"', "的[的我的的我的]的"),
        ("at the end", "the", "at [the] end"),
        ("at the end", "the end", "at the [end]"),
        ("火 锅", '"火锅"', "[火 锅]"),
        ("anything", "", "anything"),
    ],
)
def test_highlight_spans_match_the_query(content: str, text: str, expected: str) -> None:
    assert marked(content, text) == expected


@given(st.text("啊哦的", max_size=40), st.text("啊哦的", min_size=1, max_size=6))
def test_phrase_is_highlighted_wherever_it_is_a_substring(content: str, phrase: str) -> None:
    covered = {
        index
        for start in range(len(content))
        if content.startswith(phrase, start)
        for index in range(start, start + len(phrase))
    }
    spans = highlight(content, query(f'"{phrase}"'), 10, EXTENT).spans
    assert {index for span in spans for index in range(span.start, span.end)} == covered
    assert all(left.end < right.start for left, right in pairwise(spans))


def test_short_content_is_its_own_snippet() -> None:
    assert snippet("火锅", "辣", 2) == "火锅"


def test_snippet_shows_the_range_with_most_matches() -> None:
    content = "辣" + "。" * 50 + "辣，辣，辣" + "。" * 50 + "辣，辣"
    assert snippet(content, "辣", 9) == "。。辣，辣，辣。。"


def test_snippet_without_a_query_is_the_beginning() -> None:
    assert snippet("火锅，面条，辣椒，咖啡", "-cat", 5) == "火锅，面条"


def test_snippet_ends_at_word_boundaries() -> None:
    content = "extraordinary conversations about dinosaurs yesterday"
    assert snippet(content, "about", 25) == "about dinosaurs"
    assert snippet(content, "-cat", 20) == "extraordinary"
    assert snippet("x" * 60, "-cat", 20) == "x" * 20


def test_match_longer_than_the_snippet_is_shown_from_its_start() -> None:
    assert snippet("我说不吃辣椒的火锅", '"不吃辣椒的"', 3) == "不吃辣"


@given(st.text("辣吃 a，\u0301", max_size=60), st.sampled_from(["辣", "吃辣", '"辣吃"', "a", ""]), st.integers(1, 30))
def test_snippet_is_a_content_range_within_the_length_limit(content: str, text: str, chars: int) -> None:
    highlighted = highlight(content, query(text), chars, EXTENT)
    assert 0 <= highlighted.snippet.start <= highlighted.snippet.end <= len(content)
    assert highlighted.snippet.end - highlighted.snippet.start <= chars
    if any(span.end - span.start <= chars for span in highlighted.spans):
        assert any(
            highlighted.snippet.start <= span.start and span.end <= highlighted.snippet.end
            for span in highlighted.spans
        )


def test_only_the_first_spans_are_returned() -> None:
    highlighted = highlight("b " * 500, query("b"), 10, HighlightLimits(chars=20_000, spans=3))
    assert [span.start for span in highlighted.spans] == [0, 2, 4]
    assert highlighted.truncated


def test_long_content_is_scanned_up_to_the_limit() -> None:
    content = "b" + " a" * 20 + " b"
    highlighted = highlight(content, query("b"), 10, HighlightLimits(chars=30, spans=200))
    assert ([span.start for span in highlighted.spans], highlighted.truncated) == ([0], True)
    whole = highlight(content, query("b"), 10, HighlightLimits(chars=len(content), spans=2))
    assert ([span.start for span in whole.spans], whole.truncated) == ([0, 42], False)


@pytest.mark.parametrize(("content", "text"), [("a bcd", "bc"), ("a 火锅\u0301", "锅"), ("a running", "run")])
def test_word_at_the_scan_limit_is_not_matched_as_a_shorter_one(content: str, text: str) -> None:
    whole = highlight(content, query(text), 10, EXTENT)
    for chars in range(1, len(content)):
        assert highlight(content, query(text), 10, HighlightLimits(chars, 200)).spans in ((), whole.spans)


@given(st.text("辣吃 a，\u0301", max_size=60), st.integers(1, 60), st.integers(0, 5))
def test_limited_highlights_are_a_subset_of_all_highlights(content: str, chars: int, spans: int) -> None:
    parsed_query = query("辣 吃 a")
    everywhere = highlight(content, parsed_query, 10, EXTENT).spans
    highlighted = highlight(content, parsed_query, 10, HighlightLimits(chars, spans))
    covered = {index for span in everywhere for index in range(span.start, span.end)}
    assert {index for span in highlighted.spans for index in range(span.start, span.end)} <= covered
    assert len(highlighted.spans) <= spans
    assert all(span.end <= chars for span in highlighted.spans)
    assert highlighted.truncated or highlighted.spans == everywhere


BITS = st.sampled_from(
    [
        *"我不吃辣椒ーんがABCé0５:：，。 \t\u3000\x1c가한ไทยकि़",
        "\u0301",
        "\u200d",
        "\u1161",
        "\u3099",
        "won't",
        "win",
        "ran",
        "running",
    ]
)
"""Characters of every kind, some that trail others, and words whose stems meet."""


@given(st.lists(BITS, max_size=40).map("".join), st.lists(BITS, min_size=1, max_size=6).map("".join))
def test_ascii_highlights_equal_token_highlights(content: str, query_text: str) -> None:
    query_terms = {term.text for term in extract_ranking_terms(tokenize(query_text))}
    normal = normalize_plain_text(content)
    if normal is not None:
        highlighted = {
            (term.start, term.end) for term in extract_ranking_terms(tokenize(content)) if term.text in query_terms
        }
        assert set(find_terms(normal, query_terms)) == highlighted


@given(st.lists(BITS, max_size=60).map("".join), st.lists(BITS, max_size=60).map("".join), st.integers(4, 40))
def test_snippet_ends_at_token_boundaries(before: str, after: str, chars: int) -> None:
    content = f"{before} 火锅 {after}"
    window = highlight(content, query("火锅"), chars, EXTENT).snippet
    assert "火锅" in content[window.start : window.end]
    assert window.end - window.start <= chars
    for token in tokenize(content):
        assert not token.start < window.start < token.end
        assert not token.start < window.end < token.end
