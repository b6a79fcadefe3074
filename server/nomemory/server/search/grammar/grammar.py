"""The query grammar: text in, a tree out. docs/query-grammar.md describes it for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from nomemory.server.faults import Fault, Reason, Violation, field_fault
from nomemory.server.search.grammar.parser import Chain, Clause, Mark, MarkKind, Operand, arrange, depth, scan
from nomemory.server.search.grammar.question import as_question
from nomemory.server.search.grammar.text_terms import TermSets, combined, exact, phrase, ranked
from nomemory.server.search.grammar.tree import AllOf, Leaf, Node, Query, Stream, all_of, any_of, count_terms
from nomemory.text.analysis import streams
from nomemory.text.normalisation import visible
from nomemory.text.question_reading import QuestionReading

_PARSED_KEPT = 256
"""Queries that are cached: paging sends the same query again, and a recall repeats words."""


_OPERATORS = frozenset([MarkKind.AND, MarkKind.OR, MarkKind.NOT])


@dataclass(frozen=True, slots=True)
class Limits:
    """How complex a query may be: characters of its text, terms and phrases, levels of parentheses.

    A phrase counts as one term for every eight of its words, symbols or unspaced characters begun.
    """

    chars: int
    terms: int
    depth: int


@lru_cache(_PARSED_KEPT)
def parse(text: str, limits: Limits) -> Query:
    """Read a query. Any text is a query: what cannot be an operator is text. Blank text is the empty query.

    Takes time and memory O(n) in the length of the text. Recursion goes no deeper than the parentheses may nest, and
    starts only after that was checked.

    Raises:
        Fault: QUERY_TOO_COMPLEX, naming `query_text`, if a limit is exceeded.
    """
    if len(text) > limits.chars:
        raise _too_complex(f"is longer than {limits.chars} characters")
    text = visible(text)
    marks = scan(text)
    if not marks:
        return Query()
    if depth(marks) > limits.depth:
        raise _too_complex(f"nests deeper than {limits.depth} levels")
    root = _clause(arrange(iter(marks)), decides=False)
    if count_terms(root) > limits.terms:
        frequent = _frequent_terms(text, limits.terms)
        if not frequent or any(mark.kind is not MarkKind.WORD for mark in marks):
            raise _too_complex(f"has more than {limits.terms} terms")
        return Query(any_of(frequent))
    return _with_question(text, marks, Query(root))


def _frequent_terms(text: str, limit: int) -> list[Node]:
    """Return the terms that occur most often in a text with too many of them, such as a pasted page."""
    return [Leaf(Stream.TERMS, (term,)) for term, _ in Counter(streams(text).terms).most_common(limit)]


def _with_question(text: str, marks: Sequence[Mark], query: Query) -> Query:
    """Read words and phrases without operators as a question."""
    if any(mark.kind in _OPERATORS for mark in marks):
        return query
    phrases = [phrase(mark.text) for mark in marks if mark.kind is MarkKind.PHRASE]
    return as_question(QuestionReading(text), query, phrases)


def _too_complex(description: str) -> Fault:
    return field_fault(Reason.ERROR_REASON_QUERY_TOO_COMPLEX, Violation("query_text", description))


def _clause(clause: Clause, *, decides: bool) -> Node:
    """Resolve a clause. Under AND and NOT, text is taken exactly, because it decides what matches; the rest ranks."""
    return any_of(_group(chains, decides=decides) for chains in clause)


def _group(chains: Sequence[Chain], *, decides: bool) -> Node:
    """Resolve operands side by side: any of them, without the negated ones."""
    reading = combined(_reading(chain, decides=decides) for chain in chains)
    refused = [node for node in reading.strong if isinstance(node, AllOf) and node.only_negates]
    asked = [node for node in reading.strong if node not in refused] or reading.weak
    return all_of([any_of(asked), *refused] if asked else refused)


def _reading(chain: Chain, *, decides: bool) -> TermSets:
    match chain:
        case [Operand(Mark(MarkKind.WORD, word), negated=False)] if not decides:
            return ranked(word)
        case _:
            return TermSets(strong=(_chain(chain, decides=decides),))


def _chain(chain: Chain, *, decides: bool) -> Node:
    """Resolve operands that are joined by AND, or one alone."""
    decides = decides or len(chain) > 1 or chain[0].negated
    wanted = [_part(operand.part, decides=decides) for operand in chain if not operand.negated]
    unwanted = [_part(operand.part, decides=decides) for operand in chain if operand.negated]
    return all_of(wanted, unwanted)


def _part(part: Mark | Clause, *, decides: bool) -> Node:
    if isinstance(part, Mark):
        return phrase(part.text) if part.kind is MarkKind.PHRASE else exact(part.text)
    return _clause(part, decides=decides)
