"""Tests for excerpts of long messages, which consist of complete relevant sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nomemory.client.prompt_passages import count_tokens
from nomemory.recall.reading.excerpts import ExcerptSelector, split_whole_sentences


def test_relevant_sentences_are_shown_completely() -> None:
    content = (
        "It rained again. " * 40 + "The spare key hangs behind the old boiler in the cellar. " + "More rain. " * 40
    )
    shown = ExcerptSelector(content, "Where is the spare key?").shorten(40)
    assert "The spare key hangs behind the old boiler in the cellar." in " ".join(shown)


def test_list_number_is_kept_with_its_item() -> None:
    assert list(split_whole_sentences("1. Socks are blue. 2. Hats are red.")) == [
        "1. Socks are blue.",
        " 2. Hats are red.",
    ]


TEXT = st.text(st.sampled_from("ab c。！.?\n12，,"), max_size=200)


@given(TEXT)
def test_joined_sentences_equal_the_text(content: str) -> None:
    assert "".join(split_whole_sentences(content)) == content


@given(TEXT.filter(str.strip), st.integers(1, 60))
def test_excerpts_are_verbatim_and_consist_of_whole_sentences(content: str, room: int) -> None:
    shown = ExcerptSelector(content, "ab?").shorten(room)
    rest = content
    for excerpt in shown:
        assert excerpt in rest
        rest = rest[rest.index(excerpt) + len(excerpt) :]
    if count_tokens(content) > room:
        sentences = [sentence.strip() for sentence in split_whole_sentences(content)]
        assert all(any(excerpt.endswith(sentence) for sentence in sentences if sentence) for excerpt in shown)
    else:
        assert shown == [content]
