"""Tests for the token columns of messages in PostgreSQL and their predicates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.shelf import message

from nomemory.server.search.grammar.tree import Leaf, SpeakerBoost, TokenField
from nomemory.server.search.lexical.message_class import classify_message
from nomemory.server.search.lexical.postgres.token_columns import (
    TermPredicate,
    TokenColumns,
    build_boost_predicates,
    build_leaf_predicate,
    build_token_columns,
    compute_lookup_keys,
)
from nomemory.text.analysis import analyze_text
from nomemory.text.names import extract_candidate_name_terms, extract_name_terms

ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FEW = st.text(st.sampled_from("火锅辣 吃a bcat's。각กิ"), max_size=20)
TEXTS = ANYTHING | FEW
USERS = st.text(min_size=1, max_size=8)


def has(columns: TokenColumns, predicate: TermPredicate) -> bool:
    """Return whether a message contains a term, after checking that its keys find it."""
    contains = predicate.needle in columns.tokens
    assert not contains or set(predicate.keys) <= set(columns.keys)
    return contains


def stands_in(tokens: list[str], leaf: Leaf) -> bool:
    length = len(leaf.tokens)
    return any(tuple(tokens[at : at + length]) == leaf.tokens for at in range(len(tokens) - length + 1))


@given(TEXTS, USERS, st.data())
def test_every_phrase_and_every_term_of_a_message_is_found(text: str, user: str, data: st.DataObject) -> None:
    columns = build_token_columns(message(user, text))
    tokens, terms = analyze_text(text)
    if tokens:
        start = data.draw(st.integers(0, len(tokens) - 1))
        phrase = tuple(tokens[start : start + data.draw(st.integers(1, 6))])
        assert has(columns, build_leaf_predicate(user, Leaf(TokenField.CHARS, phrase)))
    assert all(has(columns, build_leaf_predicate(user, Leaf(TokenField.TERMS, (term,)))) for term in terms)


@given(FEW, FEW)
def test_a_predicate_matches_only_messages_that_contain_the_term_or_phrase(text: str, other: str) -> None:
    columns = build_token_columns(message("u", text))
    (tokens, terms), (phrase, others) = analyze_text(text), analyze_text(other)
    if phrase:
        leaf = Leaf(TokenField.CHARS, tuple(phrase))
        assert has(columns, build_leaf_predicate("u", leaf)) == stands_in(tokens, leaf)
    for term in others:
        assert has(columns, build_leaf_predicate("u", Leaf(TokenField.TERMS, (term,)))) == (term in terms)


@given(ANYTHING, ANYTHING)
def test_sender_is_found_by_the_terms_of_the_name(name: str, text: str) -> None:
    columns = build_token_columns(message("u", "hello", name=name))
    names = tuple(extract_candidate_name_terms(text))
    is_matched = any(has(columns, predicate) for predicate in build_boost_predicates("u", SpeakerBoost(names)))
    assert is_matched == bool(set(names) & set(extract_name_terms(name)))
    assert not has(columns, build_leaf_predicate("u", Leaf(TokenField.TERMS, ("zebra",))))


@given(TEXTS)
def test_keys_are_distinct_per_user(text: str) -> None:
    mine, others = build_token_columns(message("u", text)), build_token_columns(message("v", text))
    assert len(set(mine.keys)) == len(mine.keys)
    assert not set(mine.keys) & set(others.keys)
    assert all(-(1 << 63) <= key < 1 << 63 for key in mine.keys)
    assert mine.tokens == others.tokens
    assert mine.tokens[0] == classify_message(text, len(analyze_text(text).terms))


@pytest.mark.parametrize(("user", "text"), [("u", "vw"), ("uv", "w"), ("uvw", "")])
def test_user_and_text_boundaries_are_unambiguous_in_keys(user: str, text: str) -> None:
    assert compute_lookup_keys(user, [text.encode()]) != compute_lookup_keys("uv", [b"vw"])


def test_lone_surrogate_in_a_query_matches_nothing() -> None:
    assert not has(
        build_token_columns(message("u", "火锅")), build_leaf_predicate("u", Leaf(TokenField.CHARS, ("\ud800",)))
    )


def test_keys_are_stable() -> None:
    """The keys are stored: another hash requires another index version."""
    columns = build_token_columns(message("u", "不 吃辣 cats", name="Ann"))
    assert columns.tokens == b"".join(
        [
            b"\x00",
            b"\xff" + b"\xff".join(token.encode() for token in ["不", "吃", "辣", "cats"]) + b"\xff",
            b"\xfe" + b"\xfe".join(term.encode() for term in ["吃辣", "cat"]) + b"\xfe",
            b"\xfd" + b"\xfd".join(name.encode() for name in ["ann", "ann…"]) + b"\xfd",
        ]
    )
    assert columns.keys[:2] == [-7902998286187698331, -6856921847859962813]
    texts, names = {"不", "吃", "辣", "不吃", "吃辣", "cats", "cat"}, {"ann", "ann…"}
    assert len(columns.keys) == len(texts) + len(names)
