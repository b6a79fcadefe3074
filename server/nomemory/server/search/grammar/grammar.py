"""Convert query text to a syntax tree. The grammar is specified in docs/query-grammar.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from nomemory.server.faults import Fault, Reason, Violation, build_field_fault
from nomemory.server.search.grammar.parser import (
    Chain,
    Clause,
    Operand,
    QueryToken,
    QueryTokenKind,
    build_clause,
    compute_nesting_depth,
    split_query,
)
from nomemory.server.search.grammar.question import apply_question_weights
from nomemory.server.search.grammar.text_terms import (
    TermSets,
    build_exact_leaf,
    build_phrase_leaf,
    combine_term_sets,
    extract_word_ranking_terms,
)
from nomemory.server.search.grammar.tree import (
    AllOf,
    Leaf,
    Node,
    Query,
    TokenField,
    build_all_of,
    build_any_of,
    count_terms,
)
from nomemory.text.analysis import analyze_text
from nomemory.text.normalization import remove_invisible_characters
from nomemory.text.question_analysis import QuestionAnalysis

_CACHED_QUERIES = 256
"""Number of cached queries. Pages of a listing have the same query, and the searches of a recall are similar."""


_OPERATORS = frozenset([QueryTokenKind.AND, QueryTokenKind.OR, QueryTokenKind.NOT])


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of a query: the length of its text in characters, the number of terms, and the nesting depth.

    A phrase counts as one term per eight words, symbols or characters of unspaced scripts, rounded up.
    """

    chars: int
    terms: int
    depth: int


@lru_cache(_CACHED_QUERIES)
def parse_query(text: str, limits: QueryLimits) -> Query:
    """Parse a query.

    Any text is a valid query, because text that is not an operator is searched. Blank text returns the empty query.

    Parsing takes O(n) time and memory in the length of the text. The nesting depth of the parentheses is checked before
    the recursive parser starts.

    Raises:
        Fault: QUERY_TOO_COMPLEX, for the field `query_text`, if the query exceeds a limit.
    """
    if len(text) > limits.chars:
        raise _build_query_too_complex_fault(f"is longer than {limits.chars} characters")
    text = remove_invisible_characters(text)
    tokens = split_query(text)
    if not tokens:
        return Query()
    if compute_nesting_depth(tokens) > limits.depth:
        raise _build_query_too_complex_fault(f"nests deeper than {limits.depth} levels")
    root = _convert_clause(build_clause(iter(tokens)), is_exact=False)
    if count_terms(root) > limits.terms:
        frequent = _select_frequent_terms(text, limits.terms)
        if not frequent or any(token.kind is not QueryTokenKind.WORD for token in tokens):
            raise _build_query_too_complex_fault(f"has more than {limits.terms} terms")
        return Query(build_any_of(frequent))
    return _apply_question_weights(text, tokens, Query(root))


def _select_frequent_terms(text: str, limit: int) -> list[Node]:
    """Return the most frequent terms of a text with too many terms, such as a pasted page."""
    return [Leaf(TokenField.TERMS, (term,)) for term, _ in Counter(analyze_text(text).terms).most_common(limit)]


def _apply_question_weights(text: str, tokens: Sequence[QueryToken], query: Query) -> Query:
    """Weight the terms of a query without operators like those of a question; return other queries unchanged."""
    if any(token.kind in _OPERATORS for token in tokens):
        return query
    phrases = [build_phrase_leaf(token.text) for token in tokens if token.kind is QueryTokenKind.PHRASE]
    return apply_question_weights(QuestionAnalysis(text), query, phrases)


def _build_query_too_complex_fault(description: str) -> Fault:
    return build_field_fault(Reason.ERROR_REASON_QUERY_TOO_COMPLEX, Violation("query_text", description))


def _convert_clause(clause: Clause, *, is_exact: bool) -> Node:
    """Convert a clause to a node.

    For an operand of AND or NOT, the whole word must match. For any other word, a match of one of its ranking terms is
    sufficient.
    """
    return build_any_of(_convert_group(chains, is_exact=is_exact) for chains in clause)


def _convert_group(chains: Sequence[Chain], *, is_exact: bool) -> Node:
    """Convert adjacent operands to a node for messages that match at least one operand and no negated operand."""
    terms = combine_term_sets(_build_term_sets(chain, is_exact=is_exact) for chain in chains)
    negations = [node for node in terms.strong_terms if _is_pure_exclusion(node)]
    alternatives = [node for node in terms.strong_terms if not _is_pure_exclusion(node)] or terms.weak_terms
    return build_all_of([build_any_of(alternatives), *negations] if alternatives else negations)


def _is_pure_exclusion(node: Node) -> bool:
    return isinstance(node, AllOf) and node.is_pure_exclusion


def _build_term_sets(chain: Chain, *, is_exact: bool) -> TermSets:
    match chain:
        case [Operand(QueryToken(QueryTokenKind.WORD, word), negated=False)] if not is_exact:
            return extract_word_ranking_terms(word)
        case _:
            return TermSets(strong_terms=(_convert_chain(chain, is_exact=is_exact),))


def _convert_chain(chain: Chain, *, is_exact: bool) -> Node:
    """Convert a single operand, or several operands joined by AND, to a node."""
    is_exact = is_exact or len(chain) > 1 or chain[0].negated
    required = [_convert_operand(operand.part, is_exact=is_exact) for operand in chain if not operand.negated]
    excluded = [_convert_operand(operand.part, is_exact=is_exact) for operand in chain if operand.negated]
    return build_all_of(required, excluded)


def _convert_operand(part: QueryToken | Clause, *, is_exact: bool) -> Node:
    if isinstance(part, QueryToken):
        return build_phrase_leaf(part.text) if part.kind is QueryTokenKind.PHRASE else build_exact_leaf(part.text)
    return _convert_clause(part, is_exact=is_exact)
