"""What PostgreSQL holds of a message to find it by words: keys, which an index looks up, and tokens, which decide.

A key is a hash of a user and a text. Where a message has it, a token, a term or a pair of neighbours of that message
is this text, but for a collision: the tokens say. One further key says that the message is of the best form. The tokens
hold the form, then every token in its order, then the terms, then those of the speaker's name. Each of these is between
bytes that no text has, one for each of the three.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Final, NamedTuple

import numpy as np

from nomemory.server.lexical.form import FORMS, form_of
from nomemory.server.lexical.query.tree import Leaf, Sign, Stream
from nomemory.server.message import Message
from nomemory.text.analysis import streams
from nomemory.text.names import name_terms

WORDS_VERSION: Final = 1
"""Version of what this module makes. Raise it with the analysis: what is stored then has to be made anew."""

_KEY_BYTES: Final = 8
_NAMED: Final = b"\xfd"
_OF_STREAM: Final = {Stream.CHARS: b"\xff", Stream.TERMS: b"\xfe"}
"""What parts the tokens from one another, and the terms. UTF-8 has none of these bytes."""

BEST_FORM: Final = b"\xfc"
"""What stands in the keys of a message of the best form."""
BEST: Final = FORMS[0]

_FIRST_UNSPACED: Final = "\u0e00"
"""Scripts that are written without spaces begin here. Others do, too: that makes keys, and changes no answer."""

_USERS_KEPT: Final = 4096


class Words(NamedTuple):
    """A number of 64 bits for each text that a look-up finds a message by, and its tokens, which decide."""

    keys: Sequence[int]
    tokens: bytes


class Sought(NamedTuple):
    """How a leaf is found, or a name: a message that has it has all of the keys, and `needle` in its tokens.

    One that has `needle` in its tokens has it, whatever its keys are.
    """

    keys: list[int]
    needle: bytes


def words_of(message: Message) -> Words:
    """Return what is stored with a message. It depends on nothing but the message.

    The keys are distinct, and the first byte of the tokens is the message's form.
    """
    tokens, terms = streams(message.content)
    names = name_terms(message.name)
    form = form_of(message.content, len(terms))
    texts = chain(map(_bytes, {*tokens, *terms, *_pairs(tokens)}), map(_name, names), [BEST_FORM] * (form == BEST))
    keys = sorted(set(keys_of(message.user_id, texts)))
    parts = (
        _parted(_OF_STREAM[Stream.CHARS], tokens),
        _parted(_OF_STREAM[Stream.TERMS], dict.fromkeys(terms)),
        _parted(_NAMED, names),
    )
    return Words(keys, b"".join((bytes((form,)), *parts)))


def sought_leaf(user_id: str, leaf: Leaf) -> Sought:
    """Return how a leaf is found among the messages of a user."""
    texts = [_bytes(leaf.tokens[0])] if len(leaf.tokens) == 1 else list(map(_bytes, _links(leaf.tokens)))
    return Sought(keys_of(user_id, dict.fromkeys(texts)), _parted(_OF_STREAM[leaf.stream], leaf.tokens))


def sought_names(user_id: str, sign: Sign) -> list[Sought]:
    """Return how each name of a sign is found, of which one is enough."""
    return [Sought(keys_of(user_id, [_name(name)]), _parted(_NAMED, [name])) for name in sign.names]


def keys_of(user_id: str, texts: Iterable[bytes]) -> list[int]:
    """Return the keys of a user's texts, in their order."""
    of_user = _hash_of(user_id)
    digests = []
    for text in texts:
        hashed = of_user.copy()
        hashed.update(text)
        digests.append(hashed.digest())
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


def _parted(mark: bytes, texts: Iterable[str]) -> bytes:
    """Return texts, each between two marks; nothing if there is none."""
    joined = mark.join(map(_bytes, texts))
    return mark + joined + mark if joined else b""


def _name(term: str) -> bytes:
    return _NAMED + _bytes(term)


def _bytes(text: str) -> bytes:
    """Encode any text: queries may have halves of surrogate pairs, which no message has."""
    return text.encode(errors="surrogatepass")
