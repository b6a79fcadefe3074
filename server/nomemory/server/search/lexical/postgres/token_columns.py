"""The columns of a message in PostgreSQL that lexical search reads: keys for the index, and tokens that decide.

A key is a hash of a user and a text. Where a message has it, a token, a term or a pair of neighbours of that message
is this text, but for a collision, so the tokens are compared, too. The tokens hold the message's class, then every
token in order, then the terms, then those of the sender's name. Each of these is between bytes that no text has,
another one for each of the three.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Final, NamedTuple

import numpy as np

from nomemory.server.message import Message
from nomemory.server.search.grammar.tree import Leaf, SpeakerBoost, Stream
from nomemory.server.search.lexical.message_class import message_class
from nomemory.text.analysis import streams
from nomemory.text.names import name_terms

WORDS_VERSION: Final = 1
"""Version of the columns. Raise it with the analysis: what is stored then has to be made anew."""

_KEY_BYTES: Final = 8
_NAMES: Final = b"\xfd"
_SEPARATORS: Final = {Stream.CHARS: b"\xff", Stream.TERMS: b"\xfe"}
"""The separators of tokens and of terms. UTF-8 has none of these bytes."""

_FIRST_UNSPACED: Final = "\u0e00"
"""Scripts that are written without spaces begin here. Others do, too: that makes keys, and changes no answer."""

_USERS_KEPT: Final = 4096


class TokenColumns(NamedTuple):
    """The columns of a message: a number of 64 bits for each text that finds it, and its tokens, which decide."""

    keys: Sequence[int]
    tokens: bytes


class TermPredicate(NamedTuple):
    """How the index finds a leaf or a name: a message that has it has all of the keys, and `needle` in its tokens.

    One that has `needle` in its tokens has it, whatever its keys are.
    """

    keys: list[int]
    needle: bytes


def token_columns(message: Message) -> TokenColumns:
    """Return the columns that are stored with a message. They depend on nothing but the message.

    The keys are distinct, and the first byte of the tokens is the message's class.
    """
    tokens, terms = streams(message.content)
    names = name_terms(message.name)
    texts = chain(map(_bytes, {*tokens, *terms, *_pairs(tokens)}), map(_name, names))
    keys = sorted(set(keys_of(message.user_id, texts)))
    parts = (
        _separated(_SEPARATORS[Stream.CHARS], tokens),
        _separated(_SEPARATORS[Stream.TERMS], dict.fromkeys(terms)),
        _separated(_NAMES, names),
    )
    return TokenColumns(keys, b"".join((bytes((message_class(message.content, len(terms)),)), *parts)))


def leaf_predicate(user_id: str, leaf: Leaf) -> TermPredicate:
    """Return how a leaf is found among the messages of a user."""
    texts = [_bytes(leaf.tokens[0])] if len(leaf.tokens) == 1 else list(map(_bytes, _links(leaf.tokens)))
    return TermPredicate(keys_of(user_id, dict.fromkeys(texts)), _separated(_SEPARATORS[leaf.stream], leaf.tokens))


def boost_predicates(user_id: str, boost: SpeakerBoost) -> list[TermPredicate]:
    """Return how each name of a speaker boost is found; one of them is enough."""
    return [TermPredicate(keys_of(user_id, [_name(name)]), _separated(_NAMES, [name])) for name in boost.names]


def keys_of(user_id: str, texts: Iterable[bytes]) -> list[int]:
    """Return the keys of a user's texts, in their order."""
    user_hash = _hash_of(user_id)
    digests = []
    for text in texts:
        text_hash = user_hash.copy()
        text_hash.update(text)
        digests.append(text_hash.digest())
    keys: list[int] = np.frombuffer(b"".join(digests), dtype="<i8").tolist()
    return keys


@lru_cache(_USERS_KEPT)
def _hash_of(user_id: str) -> blake2b:
    """Begin the hash of a user's texts. The id is a key of the hash, so that no id and text run into another's."""
    return blake2b(key=blake2b(user_id.encode()).digest(), digest_size=_KEY_BYTES)


def _links(tokens: Sequence[str]) -> Iterator[str]:
    """Return texts that are keys of whatever has these tokens one after the other: pairs, and what is in none."""
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


def _pairs(tokens: Sequence[str]) -> Iterator[str]:
    """Return the pairs of neighbours, whether they touch or not: phrases do not care."""
    for left, right in pairwise(tokens):
        if _is_unspaced(left) and _is_unspaced(right):
            yield left + right


def _is_unspaced(token: str) -> bool:
    return token[0] >= _FIRST_UNSPACED and token.isalnum()


def _separated(separator: bytes, texts: Iterable[str]) -> bytes:
    """Return texts, each between two separators; nothing if there is none."""
    joined = separator.join(map(_bytes, texts))
    return separator + joined + separator if joined else b""


def _name(term: str) -> bytes:
    return _NAMES + _bytes(term)


def _bytes(text: str) -> bytes:
    """Encode any text: queries may have halves of surrogate pairs, which no message has."""
    return text.encode(errors="surrogatepass")
