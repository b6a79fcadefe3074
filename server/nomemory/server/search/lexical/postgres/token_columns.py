"""Columns of the message table for lexical search: `keys`, which has a GIN index, and `tokens`, for exact checks.

A key is a hash of a user and a text. The text is a token, a term, or a pair of adjacent tokens of the message. A search
also checks `tokens`, because different texts can have the same key. `tokens` consists of the message class, all tokens
in order, the terms, and the terms of the author's name. Each text is enclosed in separators, bytes that do not occur in
UTF-8. Tokens, terms and names have different separators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Final, NamedTuple

import numpy as np

from nomemory.server.message import Message
from nomemory.server.search.grammar.tree import Leaf, SpeakerBoost, TokenField
from nomemory.server.search.lexical.message_class import classify_message
from nomemory.text.analysis import analyze_text
from nomemory.text.names import extract_name_terms

WORDS_VERSION: Final = 1
"""Version of the columns. Increment it when the text analysis changes; stored columns must then be migrated."""

_KEY_BYTES: Final = 8
_NAMES: Final = b"\xfd"
_SEPARATORS: Final = {TokenField.CHARS: b"\xff", TokenField.TERMS: b"\xfe"}
"""The separators of tokens and terms. These bytes do not occur in UTF-8."""

_FIRST_UNSPACED: Final = "\u0e00"
"""First code point of scripts without spaces. Other scripts in this range only add keys and do not affect results."""

_CACHED_USERS: Final = 4096


class TokenColumns(NamedTuple):
    """The columns of a message: 64-bit keys, and the encoded tokens."""

    keys: Sequence[int]
    tokens: bytes


class TermPredicate(NamedTuple):
    """The condition for a term, a phrase or a name: `tokens` contains `needle`.

    Every message that meets the condition has all of the keys.
    """

    keys: list[int]
    needle: bytes


def build_token_columns(message: Message) -> TokenColumns:
    """Return the columns of a message: distinct keys, and tokens that start with the message class."""
    tokens, terms = analyze_text(message.content)
    names = extract_name_terms(message.name)
    texts = chain(map(_encode_text, {*tokens, *terms, *_iterate_adjacent_pairs(tokens)}), map(_encode_name, names))
    keys = sorted(set(compute_lookup_keys(message.user_id, texts)))
    parts = (
        _join_with_separator(_SEPARATORS[TokenField.CHARS], tokens),
        _join_with_separator(_SEPARATORS[TokenField.TERMS], dict.fromkeys(terms)),
        _join_with_separator(_NAMES, names),
    )
    return TokenColumns(keys, b"".join((bytes((classify_message(message.content, len(terms)),)), *parts)))


def build_leaf_predicate(user_id: str, leaf: Leaf) -> TermPredicate:
    """Return the predicate of a term or phrase for the messages of a user."""
    texts = (
        [_encode_text(leaf.tokens[0])]
        if len(leaf.tokens) == 1
        else list(map(_encode_text, _iterate_phrase_texts(leaf.tokens)))
    )
    return TermPredicate(
        compute_lookup_keys(user_id, dict.fromkeys(texts)), _join_with_separator(_SEPARATORS[leaf.stream], leaf.tokens)
    )


def build_boost_predicates(user_id: str, boost: SpeakerBoost) -> list[TermPredicate]:
    """Return the predicates of a speaker boost, one per name. The boost applies if any predicate is true."""
    return [
        TermPredicate(compute_lookup_keys(user_id, [_encode_name(name)]), _join_with_separator(_NAMES, [name]))
        for name in boost.names
    ]


def compute_lookup_keys(user_id: str, texts: Iterable[bytes]) -> list[int]:
    """Return the key of each text for a user, in the order of the texts."""
    user_hash = _create_user_hash(user_id)
    digests = []
    for text in texts:
        text_hash = user_hash.copy()
        text_hash.update(text)
        digests.append(text_hash.digest())
    keys: list[int] = np.frombuffer(b"".join(digests), dtype="<i8").tolist()
    return keys


@lru_cache(_CACHED_USERS)
def _create_user_hash(user_id: str) -> blake2b:
    """Return the initial hash state of a user.

    The user id is the key of the hash, because a concatenation of ids and texts would be ambiguous.
    """
    return blake2b(key=blake2b(user_id.encode()).digest(), digest_size=_KEY_BYTES)


def _iterate_phrase_texts(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the texts whose keys occur in every message with a phrase: token pairs, and tokens that are in no pair."""
    paired = False
    for left, right in pairwise(tokens):
        if _is_unspaced(left) and _is_unspaced(right):
            yield left + right
            paired = True
        else:
            if not paired:
                yield left
            paired = False
    if not paired:
        yield tokens[-1]


def _iterate_adjacent_pairs(tokens: Sequence[str]) -> Iterator[str]:
    """Yield the pairs of adjacent tokens. Spaces between the tokens are ignored, as in phrases."""
    for left, right in pairwise(tokens):
        if _is_unspaced(left) and _is_unspaced(right):
            yield left + right


def _is_unspaced(token: str) -> bool:
    return token[0] >= _FIRST_UNSPACED and token.isalnum()


def _join_with_separator(separator: bytes, texts: Iterable[str]) -> bytes:
    """Return the texts with a separator before, between and after them; empty if there are no texts."""
    joined = separator.join(map(_encode_text, texts))
    return separator + joined + separator if joined else b""


def _encode_name(term: str) -> bytes:
    return _NAMES + _encode_text(term)


def _encode_text(text: str) -> bytes:
    """Encode a text of a message or a query. Only queries may contain lone surrogates."""
    return text.encode(errors="surrogatepass")
