"""Where terms stand in a plain text, found without making tokens of all of it: most messages are plain."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.text.analysis import Kind, Term, terms, tokenise
from nomemory.text.normalisation import COMBINING, INVISIBLE, normalise

_MARKED = regex.compile(rf"[{COMBINING}{INVISIBLE}\u1100-\u11FF\u3099\u309A]", regex.V1)
"""What may trail a character, or be part of one that is spelled in parts: accents, invisibles, jamo, voicing marks."""

_CHUNK = regex.compile(r"\S+", regex.V1)
"""No token and no term reaches over a space."""

_CHUNKS_KEPT = 8192
_KEPT_CHARS = 32
"""Longer chunks are seldom met again."""


def plain(text: str) -> str | None:
    """Return a text as it is compared, if each of its characters stands for itself; else None."""
    normal = normalise(text)
    return None if _MARKED.search(normal) else normal


def places(normal: str, wanted: Collection[str]) -> Iterator[tuple[int, int]]:
    """Return where the terms of a plain text are that are wanted, as `terms` of `tokenise` does, in any order."""
    pairs = [term for term in wanted if _is_pair(term)]
    for pair in pairs:
        at = normal.find(pair)
        while at >= 0:
            yield at, at + len(pair)
            at = normal.find(pair, at + 1)
    if len(pairs) < len(wanted):
        for chunk in _CHUNK.finditer(normal):
            start, text = chunk.start(), chunk[0]
            for term in _kept_words(text) if len(text) <= _KEPT_CHARS else _words(text):
                if term.text in wanted:
                    yield start + term.start, start + term.end


@lru_cache(_CHUNKS_KEPT)
def _is_pair(term: str) -> bool:
    """Return whether a term is two characters that touch; else it is a word."""
    return [token.kind for token in tokenise(term)] == [Kind.CHARACTER, Kind.CHARACTER]


def _words(chunk: str) -> tuple[Term, ...]:
    return tuple(term for term in terms(tokenise(chunk)) if not _is_pair(term.text))


_kept_words = lru_cache(_CHUNKS_KEPT)(_words)
