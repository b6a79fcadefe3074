"""Split query text into tokens, check that operators have operands, and build a syntax tree."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple


class QueryTokenKind(Enum):
    """Kinds of query tokens: operands, parentheses and operators."""

    WORD = auto()
    PHRASE = auto()
    OPEN = auto()
    CLOSE = auto()
    AND = auto()
    OR = auto()
    NOT = auto()


class QueryToken(NamedTuple):
    """A token of a query. The text of a phrase does not include the quotes."""

    kind: QueryTokenKind
    text: str


class _Delimiter(NamedTuple):
    """A token that separates the tokens before and after it: a phrase or a parenthesis."""

    start: int
    end: int
    token: QueryToken


_OPERATORS = {"AND": QueryTokenKind.AND, "OR": QueryTokenKind.OR, "NOT": QueryTokenKind.NOT}
_BEGINS_OPERAND = frozenset([QueryTokenKind.WORD, QueryTokenKind.PHRASE, QueryTokenKind.OPEN, QueryTokenKind.NOT])
_ENDS_OPERAND = frozenset([QueryTokenKind.WORD, QueryTokenKind.PHRASE, QueryTokenKind.CLOSE])

_QUOTED = re.compile(r'["＂“”„‟]([^"＂“”„‟]*)["＂“”„‟]|「([^「」]*)」|『([^『』]*)』')
"""Any double quote closes any other. A corner bracket that is followed by another opening one is text, so matching
takes linear time."""

_OPENING, _CLOSING = "(（", ")）"
_CHUNK = re.compile(r"\S+")
_MINUSES = "-－"


def split_query(text: str) -> list[QueryToken]:
    """Split a query into tokens with balanced parentheses, in which every operator has its operands.

    The tokens contain all visible text of the query.
    """
    phrases = list(_find_phrases(text))
    delimiters = sorted([*phrases, *_find_parentheses(text, phrases)])
    return _drop_incomplete_operators(list(_split_tokens(text, delimiters)))


def compute_nesting_depth(tokens: Sequence[QueryToken]) -> int:
    """Return the maximum nesting depth of the parentheses."""
    deepest = level = 0
    for token in tokens:
        level += (token.kind is QueryTokenKind.OPEN) - (token.kind is QueryTokenKind.CLOSE)
        deepest = max(deepest, level)
    return deepest


def _find_phrases(text: str) -> Iterator[_Delimiter]:
    for match in _QUOTED.finditer(text):
        quoted = match[match.lastindex or 0]
        if quoted.strip():
            yield _Delimiter(match.start(), match.end(), QueryToken(QueryTokenKind.PHRASE, quoted))


def _find_parentheses(text: str, phrases: Sequence[_Delimiter]) -> Iterator[_Delimiter]:
    """Yield the non-empty pairs of parentheses outside phrases."""
    characters = list(text)
    for phrase in phrases:
        characters[phrase.start : phrase.end] = "x" * (phrase.end - phrase.start)
    unclosed: list[int] = []
    last_visible = -1
    for index, character in enumerate(characters):
        if character in _OPENING:
            unclosed.append(index)
        elif character in _CLOSING:
            opened = unclosed.pop() if unclosed else index
            if opened < last_visible:
                yield _Delimiter(opened, opened + 1, QueryToken(QueryTokenKind.OPEN, text[opened]))
                yield _Delimiter(index, index + 1, QueryToken(QueryTokenKind.CLOSE, character))
        elif not character.isspace():
            last_visible = index


def _split_tokens(text: str, delimiters: Sequence[_Delimiter]) -> Iterator[QueryToken]:
    start = 0
    for delimiter in delimiters:
        opens = delimiter.token.kind is not QueryTokenKind.CLOSE
        yield from _split_words(text[start : delimiter.start], touches_operand=opens)
        yield delimiter.token
        start = delimiter.end
    yield from _split_words(text[start:], touches_operand=False)


def _split_words(text: str, *, touches_operand: bool) -> Iterator[QueryToken]:
    """Split query text without phrases and parentheses into tokens.

    `touches_operand` states whether an operand follows the text without a space.
    """
    for chunk in _CHUNK.finditer(text):
        word = chunk[0]
        operator = _OPERATORS.get(unicodedata.normalize("NFKC", word))
        if operator:
            yield QueryToken(operator, word)
        elif _is_negated(word, touches_operand=touches_operand and chunk.end() == len(text)):
            yield QueryToken(QueryTokenKind.NOT, word[0])
            if len(word) > 1:
                yield QueryToken(QueryTokenKind.WORD, word[1:])
        else:
            yield QueryToken(QueryTokenKind.WORD, word)


def _is_negated(word: str, *, touches_operand: bool) -> bool:
    """Return whether a word starts with a minus that negates the phrase, group or word directly after it.

    A minus in `--help` or `-_-` and a single minus are not negations.
    """
    if word[0] not in _MINUSES:
        return False
    operand = word[1:]
    if not operand:
        return touches_operand
    return operand[0] not in _MINUSES and not all(
        unicodedata.category(character).startswith("P") for character in operand
    )


def _drop_incomplete_operators(tokens: list[QueryToken]) -> list[QueryToken]:
    """Convert operators without operands to words: first AND and OR, then NOT from right to left."""
    for index, token in enumerate(tokens):
        if token.kind in (QueryTokenKind.AND, QueryTokenKind.OR) and not (
            _get_token_kind(tokens, index - 1) in _ENDS_OPERAND
            and _get_token_kind(tokens, index + 1) in _BEGINS_OPERAND
        ):
            tokens[index] = QueryToken(QueryTokenKind.WORD, token.text)
    for index, token in reversed(list(enumerate(tokens))):
        if token.kind is QueryTokenKind.NOT and _get_token_kind(tokens, index + 1) not in _BEGINS_OPERAND:
            tokens[index] = QueryToken(QueryTokenKind.WORD, token.text)
    return tokens


def _get_token_kind(tokens: Sequence[QueryToken], index: int) -> QueryTokenKind | None:
    return tokens[index].kind if 0 <= index < len(tokens) else None


class Operand(NamedTuple):
    """An operand of a query: a word, a phrase or a group in parentheses, negated or not."""

    part: QueryToken | Clause
    negated: bool


Chain = list[Operand]
"""Operands joined by AND."""

Clause = list[list[Chain]]
"""Groups joined by OR. A group consists of adjacent chains without an operator between them."""


def build_clause(tokens: Iterator[QueryToken]) -> Clause:
    """Build the syntax tree of the tokens from `split_query`.

    The recursion depth equals the nesting depth of the parentheses.
    """
    clause: Clause = [[]]
    joins = negated = False
    for token in tokens:
        match token.kind:
            case QueryTokenKind.CLOSE:
                break
            case QueryTokenKind.AND:
                joins = True
            case QueryTokenKind.OR:
                clause.append([])
            case QueryTokenKind.NOT:
                negated = not negated
            case _:
                if not joins:
                    clause[-1].append([])
                part = build_clause(tokens) if token.kind is QueryTokenKind.OPEN else token
                clause[-1][-1].append(Operand(part, negated))
                joins = negated = False
    return clause
