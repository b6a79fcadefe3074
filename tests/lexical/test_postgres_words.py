"""What PostgreSQL holds of a message finds what stands in it, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.shelf import message

from nomemory.server.lexical.form import form_of
from nomemory.server.lexical.postgres.words import Sought, Words, keys_of, sought_leaf, sought_names, words_of
from nomemory.server.lexical.query.tree import Leaf, Sign, Stream
from nomemory.text.analysis import streams
from nomemory.text.names import name_terms, naming_terms

ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FEW = st.text(st.sampled_from("火锅辣 吃a bcat's。각กิ"), max_size=20)
TEXTS = ANYTHING | FEW
USERS = st.text(min_size=1, max_size=8)


def has(words: Words, sought: Sought) -> bool:
    """Return whether a message has what is sought; where it has, the index leads to it."""
    found = sought.needle in words.tokens
    assert not found or set(sought.keys) <= set(words.keys)
    return found


def stands_in(tokens: list[str], leaf: Leaf) -> bool:
    length = len(leaf.tokens)
    return any(tuple(tokens[at : at + length]) == leaf.tokens for at in range(len(tokens) - length + 1))


@given(TEXTS, USERS, st.data())
def test_every_phrase_and_every_term_of_a_message_is_found(text: str, user: str, data: st.DataObject) -> None:
    words = words_of(message(user, text))
    tokens, terms = streams(text)
    if tokens:
        start = data.draw(st.integers(0, len(tokens) - 1))
        phrase = tuple(tokens[start : start + data.draw(st.integers(1, 6))])
        assert has(words, sought_leaf(user, Leaf(Stream.CHARS, phrase)))
    assert all(has(words, sought_leaf(user, Leaf(Stream.TERMS, (term,)))) for term in terms)


@given(FEW, FEW)
def test_what_does_not_stand_in_a_message_is_not_found(text: str, other: str) -> None:
    words = words_of(message("u", text))
    (tokens, terms), (phrase, others) = streams(text), streams(other)
    if phrase:
        leaf = Leaf(Stream.CHARS, tuple(phrase))
        assert has(words, sought_leaf("u", leaf)) == stands_in(tokens, leaf)
    for term in others:
        assert has(words, sought_leaf("u", Leaf(Stream.TERMS, (term,)))) == (term in terms)


@given(ANYTHING, ANYTHING)
def test_a_speaker_is_found_by_the_terms_of_the_name(name: str, text: str) -> None:
    words = words_of(message("u", "hello", name=name))
    names = tuple(naming_terms(text))
    found = any(has(words, sought) for sought in sought_names("u", Sign(names)))
    assert found == bool(set(names) & set(name_terms(name)))
    assert not has(words, sought_leaf("u", Leaf(Stream.TERMS, ("zebra",))))


@given(TEXTS)
def test_keys_are_distinct_and_no_other_users(text: str) -> None:
    mine, others = words_of(message("u", text)), words_of(message("v", text))
    assert len(set(mine.keys)) == len(mine.keys)
    assert not set(mine.keys) & set(others.keys)
    assert all(-(1 << 63) <= key < 1 << 63 for key in mine.keys)
    assert mine.tokens == others.tokens
    assert mine.tokens[0] == form_of(text, len(streams(text).terms))


@pytest.mark.parametrize(("user", "text"), [("u", "vw"), ("uv", "w"), ("uvw", "")])
def test_a_user_and_a_text_run_into_no_other(user: str, text: str) -> None:
    assert keys_of(user, [text.encode()]) != keys_of("uv", [b"vw"])


def test_a_query_may_have_half_a_character() -> None:
    assert not has(words_of(message("u", "火锅")), sought_leaf("u", Leaf(Stream.CHARS, ("\ud800",))))


def test_keys_do_not_change() -> None:
    """They are stored: another hash is another version."""
    words = words_of(message("u", "不 吃辣 cats", name="Ann"))
    assert words.tokens == b"".join(
        [
            b"\x00",
            b"\xff" + b"\xff".join(token.encode() for token in ["不", "吃", "辣", "cats"]) + b"\xff",
            b"\xfe" + b"\xfe".join(term.encode() for term in ["吃辣", "cat"]) + b"\xfe",
            b"\xfd" + b"\xfd".join(name.encode() for name in ["ann", "ann…"]) + b"\xfd",
        ]
    )
    assert words.keys[:2] == [-7902998286187698331, -6856921847859962813]
    texts, names = {"不", "吃", "辣", "不吃", "吃辣", "cats", "cat"}, {"ann", "ann…"}
    assert len(words.keys) == len(texts) + len(names) + 1, "and one of its form"
