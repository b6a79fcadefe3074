"""Validation of QueryService requests, and their conversion to the types of `nomemory.server.search`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nomemory.server.api.validation.checker import FieldChecker, Mask, collect_violations
from nomemory.server.faults import Fault, build_field_fault
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.cursor import Listing
from nomemory.server.search.grammar.grammar import QueryLimits, parse_query
from nomemory.server.search.grammar.tree import VERSION, Query
from nomemory.server.search.hybrid.search import HybridQuery
from nomemory.server.search.semantic_search import SemanticQuery
from nomemory.v1 import query_service_pb2 as pb

_NEIGHBORS_BEFORE_DEFAULT: Final = 20
_NEIGHBORS_AFTER_DEFAULT: Final = 0
_NEIGHBORS_MAX: Final = 200
"""Maximum value of `before` and of `after`."""
_BATCH_GET_MAX: Final = 500
"""Maximum number of ids in a BatchGetMessagesRequest."""
_QUERY_MAX_TERMS: Final = 128
"""Maximum number of terms and phrases in a query."""
_QUERY_MAX_DEPTH: Final = 16
"""Maximum nesting depth of parentheses in a query."""
_SNIPPET_DEFAULT_CHARS: Final = 120
_SNIPPET_MAX_CHARS: Final = 1000


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A validated request for one page of messages, conversations or users."""

    listing: Listing
    page_size: int
    mask: Mask = None


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """A validated LexicalSearchRequest. The attribute `snippet_chars` is None if the request disables highlights."""

    listing: Listing
    query: Query
    page_size: int
    mask: Mask
    snippet_chars: int | None


def decode_list(request: pb.ListMessagesRequest, settings: Settings) -> PageQuery:
    """Validate a ListMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        user_id, message_filter = (
            checker.check_user_id("user_id", request.user_id),
            checker.check_filter("filter", request.filter),
        )
        size, mask = checker.check_page_size(request.page_size), checker.check_mask(request.return_fields)
        if request.order not in pb.ListOrder.values():
            checker.add_violation("order", f"unknown order {request.order}")
        oldest_first = request.order == pb.LIST_ORDER_OLDEST_FIRST
        return PageQuery(Listing("ListMessages", user_id, "", message_filter, oldest_first), size, mask)


def decode_lexical(request: pb.LexicalSearchRequest, settings: Settings) -> LexicalQuery:
    """Validate a LexicalSearchRequest and parse its query.

    Raises:
        Fault: INVALID_FIELD; QUERY_TOO_COMPLEX, the query has too many terms or too deeply nested parentheses.
    """
    with collect_violations(settings) as checker:
        user_id = checker.check_user_id("user_id", request.user_id)
        text = checker.check_text("query_text", request.query_text, maximum=settings.limits.max_query_chars)
        listing = Listing(f"LexicalSearch/{VERSION}", user_id, text, checker.check_filter("filter", request.filter))
        size, mask = checker.check_page_size(request.page_size), checker.check_mask(request.return_fields)
        snippet_chars = _check_snippet_chars(checker, request)
        return LexicalQuery(listing, _parse_query(checker, text), size, mask, snippet_chars)


def decode_semantic(
    request: pb.SemanticSearchRequest, settings: Settings, dimension: int
) -> tuple[SemanticQuery, Mask]:
    """Validate a SemanticSearchRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        user_id = checker.check_user_id("user_id", request.user_id)
        text = vector = None
        if request.HasField("query_embedding"):
            vector = checker.check_vector("query_embedding.values", request.query_embedding.values, dimension)
        elif request.HasField("query_text"):
            text = checker.check_question("query_text", request.query_text)
        else:
            checker.add_violation("query", "set query_text or query_embedding")
        message_filter, top_k = checker.check_filter("filter", request.filter), checker.check_top_k(request.top_k)
        min_score = request.min_score if request.HasField("min_score") else None
        if min_score is not None and not -1.0 <= min_score <= 1.0:
            checker.add_violation("min_score", "must be between -1 and 1")
        return SemanticQuery(user_id, text, vector, message_filter, top_k, min_score), checker.check_mask(
            request.return_fields
        )


def decode_hybrid(request: pb.HybridSearchRequest, settings: Settings, dimension: int) -> tuple[HybridQuery, Mask]:
    """Validate a HybridSearchRequest. The caller of this function sets the timeout of the semantic search.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        user_id, text = (
            checker.check_user_id("user_id", request.user_id),
            checker.check_question("query_text", request.query_text),
        )
        vector = None
        if request.HasField("query_embedding"):
            vector = checker.check_vector("query_embedding.values", request.query_embedding.values, dimension)
        query = HybridQuery(
            user_id,
            text,
            vector,
            checker.check_filter("filter", request.filter),
            checker.check_top_k(request.top_k),
            timeout_s=0.0,
            explain=request.explain,
            include_relations=request.include_relations,
        )
        return query, checker.check_mask(request.return_fields)


def decode_neighbors(request: pb.GetNeighborsRequest, settings: Settings) -> tuple[int, int, Mask]:
    """Validate a GetNeighborsRequest.

    Return the number of messages before the anchor, the number of messages after the anchor, and the field mask.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        checker.check_user_id("user_id", request.user_id)
        checker.check_identifier("message_id", request.message_id, required=True)
        before = request.before if request.HasField("before") else _NEIGHBORS_BEFORE_DEFAULT
        after = request.after if request.HasField("after") else _NEIGHBORS_AFTER_DEFAULT
        return (
            checker.check_int("before", before, maximum=_NEIGHBORS_MAX),
            checker.check_int("after", after, maximum=_NEIGHBORS_MAX),
            checker.check_mask(request.return_fields),
        )


def decode_batch_get(request: pb.BatchGetMessagesRequest, settings: Settings) -> Mask:
    """Validate a BatchGetMessagesRequest, and return its field mask.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        checker.check_user_id("user_id", request.user_id)
        checker.check_identifiers("message_ids", request.message_ids, maximum=_BATCH_GET_MAX)
        return checker.check_mask(request.return_fields)


def decode_count(request: pb.CountMessagesRequest, settings: Settings) -> Filter:
    """Validate a CountMessagesRequest, and return its filter.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        checker.check_user_id("user_id", request.user_id)
        return checker.check_filter("filter", request.filter)


def decode_conversations(request: pb.ListConversationsRequest, settings: Settings) -> PageQuery:
    """Validate a ListConversationsRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        listing = Listing("ListConversations", checker.check_user_id("user_id", request.user_id), "", EVERYTHING)
        return PageQuery(listing, checker.check_page_size(request.page_size))


def decode_users(request: pb.ListUsersRequest, settings: Settings, prefix: str = "") -> PageQuery:
    """Validate a ListUsersRequest. The page lists only users whose stored ids start with `prefix`.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        return PageQuery(Listing("ListUsers", prefix, "", EVERYTHING), checker.check_page_size(request.page_size))


def decode_export(request: pb.ExportMessagesRequest, settings: Settings) -> Listing:
    """Validate an ExportMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        user_id = checker.check_user_id("user_id", request.user_id)
        return Listing("ExportMessages", user_id, "", checker.check_filter("filter", request.filter), oldest_first=True)


def _check_snippet_chars(checker: FieldChecker, request: pb.LexicalSearchRequest) -> int | None:
    if not request.HasField("highlight"):
        return None
    requested = request.highlight.snippet_chars
    snippet_chars = checker.check_int("highlight.snippet_chars", requested, maximum=_SNIPPET_MAX_CHARS)
    return snippet_chars or _SNIPPET_DEFAULT_CHARS


def _parse_query(checker: FieldChecker, text: str) -> Query:
    limits = checker.settings.limits
    try:
        return parse_query(text, QueryLimits(limits.max_query_chars, _QUERY_MAX_TERMS, _QUERY_MAX_DEPTH))
    except Fault as fault:
        other_fields = [violation for violation in checker.violations if violation.field != "query_text"]
        raise build_field_fault(fault.reason, *fault.violations, *other_fields) from None
