"""Requests of the QueryService, checked once and turned into what the reads take.

What needs no check is read from the request by who needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nomemory.server.api.validation.checker import Checker, Mask, checking
from nomemory.server.faults import Fault, bad_field
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.cursor import Listing
from nomemory.server.search.grammar.grammar import Limits, parse
from nomemory.server.search.grammar.tree import VERSION, Query
from nomemory.server.search.hybrid.search import HybridQuery
from nomemory.server.search.nearest_messages import NearestQuery
from nomemory.v1 import query_service_pb2 as pb

_NEIGHBORS_BEFORE_DEFAULT: Final = 20
_NEIGHBORS_AFTER_DEFAULT: Final = 0
_NEIGHBORS_MAX: Final = 200
"""Largest `before` and largest `after`."""
_BATCH_GET_MAX: Final = 500
"""Maximum ids in one BatchGetMessages."""
_QUERY_MAX_TERMS: Final = 128
"""Maximum terms and phrases in a query."""
_QUERY_MAX_DEPTH: Final = 16
"""Deepest parentheses in a query."""
_SNIPPET_DEFAULT_CHARS: Final = 120
_SNIPPET_MAX_CHARS: Final = 1000


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A checked request for a page of a listing."""

    listing: Listing
    page_size: int
    mask: Mask = None


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """A checked LexicalSearchRequest. `snippet_chars` is None if no highlights were asked for."""

    listing: Listing
    query: Query
    page_size: int
    mask: Mask
    snippet_chars: int | None


def decode_list(request: pb.ListMessagesRequest, settings: Settings) -> PageQuery:
    """Check a ListMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        user_id, narrowed = check.user("user_id", request.user_id), check.narrowed("filter", request.filter)
        size, mask = check.page_size(request.page_size), check.mask(request.return_fields)
        if request.order not in pb.ListOrder.values():
            check.refuse("order", "is not a known order")
        oldest_first = request.order == pb.LIST_ORDER_OLDEST_FIRST
        return PageQuery(Listing("ListMessages", user_id, "", narrowed, oldest_first), size, mask)


def decode_lexical(request: pb.LexicalSearchRequest, settings: Settings) -> LexicalQuery:
    """Check a LexicalSearchRequest and parse its query.

    Raises:
        Fault: INVALID_FIELD, or QUERY_TOO_COMPLEX if that is all that is wrong.
    """
    with checking(settings) as check:
        user_id = check.user("user_id", request.user_id)
        text = check.text("query_text", request.query_text, most=settings.limits.max_query_chars)
        listing = Listing(f"LexicalSearch/{VERSION}", user_id, text, check.narrowed("filter", request.filter))
        size, mask = check.page_size(request.page_size), check.mask(request.return_fields)
        snippet_chars = _snippet_chars(check, request)
        return LexicalQuery(listing, _parsed(check, text), size, mask, snippet_chars)


def decode_semantic(request: pb.SemanticSearchRequest, settings: Settings, dimension: int) -> tuple[NearestQuery, Mask]:
    """Check a SemanticSearchRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        user_id = check.user("user_id", request.user_id)
        text = vector = None
        if request.HasField("query_embedding"):
            vector = check.vector("query_embedding.values", request.query_embedding.values, dimension)
        elif request.HasField("query_text"):
            text = check.question("query_text", request.query_text)
        else:
            check.refuse("query", "needs query_text or query_embedding")
        narrowed, top_k = check.narrowed("filter", request.filter), check.top_k(request.top_k)
        min_score = request.min_score if request.HasField("min_score") else None
        if min_score is not None and not -1.0 <= min_score <= 1.0:
            check.refuse("min_score", "must be between -1 and 1")
        return NearestQuery(user_id, text, vector, narrowed, top_k, min_score), check.mask(request.return_fields)


def decode_hybrid(request: pb.HybridSearchRequest, settings: Settings, dimension: int) -> tuple[HybridQuery, Mask]:
    """Check a HybridSearchRequest. How long meaning may be waited for is not in it.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        user_id, text = check.user("user_id", request.user_id), check.question("query_text", request.query_text)
        vector = None
        if request.HasField("query_embedding"):
            vector = check.vector("query_embedding.values", request.query_embedding.values, dimension)
        query = HybridQuery(
            user_id,
            text,
            vector,
            check.narrowed("filter", request.filter),
            check.top_k(request.top_k),
            patience_s=0.0,
            explains=request.explain,
            relates=request.relate,
        )
        return query, check.mask(request.return_fields)


def decode_neighbors(request: pb.GetNeighborsRequest, settings: Settings) -> tuple[int, int, Mask]:
    """Check a GetNeighborsRequest. Return how many messages before and after, and their fields.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        check.user("user_id", request.user_id)
        check.identifier("message_id", request.message_id, required=True)
        before = request.before if request.HasField("before") else _NEIGHBORS_BEFORE_DEFAULT
        after = request.after if request.HasField("after") else _NEIGHBORS_AFTER_DEFAULT
        return (
            check.amount("before", before, most=_NEIGHBORS_MAX),
            check.amount("after", after, most=_NEIGHBORS_MAX),
            check.mask(request.return_fields),
        )


def decode_batch_get(request: pb.BatchGetMessagesRequest, settings: Settings) -> Mask:
    """Check a BatchGetMessagesRequest. Return the fields of the messages.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        check.user("user_id", request.user_id)
        check.identifiers("message_ids", request.message_ids, most=_BATCH_GET_MAX)
        return check.mask(request.return_fields)


def decode_count(request: pb.CountMessagesRequest, settings: Settings) -> Filter:
    """Check a CountMessagesRequest. Return what is counted.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        check.user("user_id", request.user_id)
        return check.narrowed("filter", request.filter)


def decode_conversations(request: pb.ListConversationsRequest, settings: Settings) -> PageQuery:
    """Check a ListConversationsRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        listing = Listing("ListConversations", check.user("user_id", request.user_id), "", EVERYTHING)
        return PageQuery(listing, check.page_size(request.page_size))


def decode_users(request: pb.ListUsersRequest, settings: Settings, prefix: str = "") -> PageQuery:
    """Check a ListUsersRequest of a caller who may learn of the users whose ids begin with a prefix.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        return PageQuery(Listing("ListUsers", prefix, "", EVERYTHING), check.page_size(request.page_size))


def decode_export(request: pb.ExportMessagesRequest, settings: Settings) -> Listing:
    """Check an ExportMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        user_id = check.user("user_id", request.user_id)
        return Listing("ExportMessages", user_id, "", check.narrowed("filter", request.filter), oldest_first=True)


def _snippet_chars(check: Checker, request: pb.LexicalSearchRequest) -> int | None:
    if not request.HasField("highlight"):
        return None
    _limits, wanted = check.settings.limits, request.highlight.snippet_chars
    default, most = _SNIPPET_DEFAULT_CHARS, _SNIPPET_MAX_CHARS
    return check.amount("highlight.snippet_chars", wanted, most=most) or default


def _parsed(check: Checker, text: str) -> Query:
    limits = check.settings.limits
    try:
        return parse(text, Limits(limits.max_query_chars, _QUERY_MAX_TERMS, _QUERY_MAX_DEPTH))
    except Fault as fault:
        others = [v for v in check.violations if v.field != "query_text"]
        raise bad_field(fault.reason, *fault.violations, *others) from None
