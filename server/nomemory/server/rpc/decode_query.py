"""Requests of the QueryService, checked once and turned into what the reads take."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.server.cursor import Listing
from nomemory.server.faults import Fault, bad_field
from nomemory.server.lexical.query.grammar import Limits, parse
from nomemory.server.lexical.query.tree import VERSION, Query
from nomemory.server.message import EVERYTHING, Filter
from nomemory.server.reads.nearest_messages import NearestQuery
from nomemory.server.rpc.checker import Checker
from nomemory.server.settings import Settings
from nomemory.v1 import query_service_pb2 as pb

Mask = frozenset[str] | None
"""The fields of a message to return; None means all."""
Search = pb.ListMessagesRequest | pb.LexicalSearchRequest | pb.SemanticSearchRequest | pb.HybridSearchRequest
"""Requests that have a filter and a mask."""
Filtered = Search | pb.CountMessagesRequest | pb.ExportMessagesRequest
"""Requests that have a filter."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A checked ListMessagesRequest."""

    listing: Listing
    page_size: int
    cursor: str
    mask: Mask
    at_least: str


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """A checked LexicalSearchRequest. `snippet_chars` is None if no highlights were asked for."""

    listing: Listing
    query: Query
    page_size: int
    cursor: str
    mask: Mask
    at_least: str
    snippet_chars: int | None


@dataclass(frozen=True, slots=True)
class SemanticQuery:
    """A checked SemanticSearchRequest."""

    nearest: NearestQuery
    mask: Mask
    at_least: str


@dataclass(frozen=True, slots=True)
class HybridSearchQuery:
    """A checked HybridSearchRequest."""

    user_id: str
    text: str
    vector: bytes | None
    narrowed: Filter
    top_k: int
    explain: bool
    relate: bool
    mask: Mask
    at_least: str


@dataclass(frozen=True, slots=True)
class NeighborsQuery:
    """A checked GetNeighborsRequest."""

    user_id: str
    message_id: str
    before: int
    after: int
    mask: Mask


@dataclass(frozen=True, slots=True)
class BatchGetQuery:
    """A checked BatchGetMessagesRequest."""

    user_id: str
    message_ids: list[str]
    mask: Mask


@dataclass(frozen=True, slots=True)
class CountQuery:
    """A checked CountMessagesRequest."""

    user_id: str
    narrowed: Filter
    at_least: str


@dataclass(frozen=True, slots=True)
class ConversationsQuery:
    """A checked ListConversationsRequest."""

    listing: Listing
    page_size: int
    cursor: str
    at_least: str


@dataclass(frozen=True, slots=True)
class UsersQuery:
    """A checked ListUsersRequest."""

    listing: Listing
    page_size: int
    cursor: str


@dataclass(frozen=True, slots=True)
class ExportQuery:
    """A checked ExportMessagesRequest."""

    listing: Listing
    cursor: str


def decode_list(request: pb.ListMessagesRequest, settings: Settings) -> ListQuery:
    """Check a ListMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    narrowed = _narrowed(check, request)
    size = _page_size(check, request.page_size)
    mask = _mask(check, request)
    oldest_first = _oldest_first(check, request.order)
    check.done()
    listing = Listing("ListMessages", user_id, "", narrowed, oldest_first)
    return ListQuery(listing, size, request.cursor, mask, request.at_least)


def decode_lexical(request: pb.LexicalSearchRequest, settings: Settings) -> LexicalQuery:
    """Check a LexicalSearchRequest and parse its query.

    Raises:
        Fault: INVALID_FIELD, or QUERY_TOO_COMPLEX if that is all that is wrong.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    text = check.text("query_text", request.query_text, most=settings.limits.query_max_chars)
    narrowed = _narrowed(check, request)
    size = _page_size(check, request.page_size)
    mask = _mask(check, request)
    snippet_chars = _snippet_chars(check, request)
    query = _parsed(check, text)
    listing = Listing(f"LexicalSearch/{VERSION}", user_id, text, narrowed)
    return LexicalQuery(listing, query, size, request.cursor, mask, request.at_least, snippet_chars)


def decode_semantic(request: pb.SemanticSearchRequest, settings: Settings, dimension: int) -> SemanticQuery:
    """Check a SemanticSearchRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    text, vector = _semantic_query(check, request, dimension)
    narrowed = _narrowed(check, request)
    top_k = check.count("top_k", request.top_k, default=settings.limits.top_k_default, most=settings.limits.top_k_max)
    min_score = request.min_score if request.HasField("min_score") else None
    if min_score is not None and not -1.0 <= min_score <= 1.0:
        check.refuse("min_score", "must be between -1 and 1")
    mask = _mask(check, request)
    check.done()
    nearest = NearestQuery(user_id, text, vector, narrowed, top_k, min_score)
    return SemanticQuery(nearest, mask, request.at_least)


def decode_hybrid(request: pb.HybridSearchRequest, settings: Settings, dimension: int) -> HybridSearchQuery:
    """Check a HybridSearchRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    text = check.text("query_text", request.query_text, most=settings.limits.query_max_chars)
    if not request.query_text.strip():
        check.refuse("query_text", "must not be blank")
    vector = None
    if request.HasField("query_embedding"):
        vector = check.vector("query_embedding.values", request.query_embedding.values, dimension)
    narrowed = _narrowed(check, request)
    top_k = check.count("top_k", request.top_k, default=settings.limits.top_k_default, most=settings.limits.top_k_max)
    mask = _mask(check, request)
    check.done()
    return HybridSearchQuery(
        user_id, text, vector, narrowed, top_k, request.explain, request.relate, mask, request.at_least
    )


def decode_neighbors(request: pb.GetNeighborsRequest, settings: Settings) -> NeighborsQuery:
    """Check a GetNeighborsRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    message_id = check.identifier("message_id", request.message_id, required=True)
    before = request.before if request.HasField("before") else settings.limits.neighbors_before_default
    after = request.after if request.HasField("after") else settings.limits.neighbors_after_default
    before = check.amount("before", before, most=settings.limits.neighbors_max)
    after = check.amount("after", after, most=settings.limits.neighbors_max)
    mask = _mask(check, request)
    check.done()
    return NeighborsQuery(user_id, message_id, before, after, mask)


def decode_batch_get(request: pb.BatchGetMessagesRequest, settings: Settings) -> BatchGetQuery:
    """Check a BatchGetMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    check.entries("message_ids", request.message_ids, most=settings.limits.batch_get_max)
    for position, message_id in enumerate(request.message_ids[: settings.limits.batch_get_max]):
        check.identifier(f"message_ids[{position}]", message_id, required=True)
    mask = _mask(check, request)
    check.done()
    return BatchGetQuery(user_id, list(request.message_ids), mask)


def decode_count(request: pb.CountMessagesRequest, settings: Settings) -> CountQuery:
    """Check a CountMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    narrowed = _narrowed(check, request)
    check.done()
    return CountQuery(user_id, narrowed, request.at_least)


def decode_conversations(request: pb.ListConversationsRequest, settings: Settings) -> ConversationsQuery:
    """Check a ListConversationsRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    size = _page_size(check, request.page_size)
    check.done()
    listing = Listing("ListConversations", user_id, "", EVERYTHING)
    return ConversationsQuery(listing, size, request.cursor, request.at_least)


def decode_users(request: pb.ListUsersRequest, settings: Settings, prefix: str = "") -> UsersQuery:
    """Check a ListUsersRequest of a caller who may learn of the users whose ids begin with a prefix.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    size = _page_size(check, request.page_size)
    check.done()
    return UsersQuery(Listing("ListUsers", prefix, "", EVERYTHING), size, request.cursor)


def decode_export(request: pb.ExportMessagesRequest, settings: Settings) -> ExportQuery:
    """Check an ExportMessagesRequest.

    Raises:
        Fault: INVALID_FIELD.
    """
    check = Checker(settings)
    user_id = check.user("user_id", request.user_id)
    narrowed = _narrowed(check, request)
    check.done()
    return ExportQuery(Listing("ExportMessages", user_id, "", narrowed, oldest_first=True), request.cursor)


def _oldest_first(check: Checker, order: int) -> bool:
    if order not in pb.ListOrder.values():
        check.refuse("order", "is not a known order")
    return order == pb.LIST_ORDER_OLDEST_FIRST


def _narrowed(check: Checker, request: Filtered) -> Filter:
    return check.narrowed("filter", request.filter) if request.HasField("filter") else EVERYTHING


def _mask(check: Checker, request: Search | pb.GetNeighborsRequest | pb.BatchGetMessagesRequest) -> Mask:
    return check.mask("return_fields", request.return_fields) if request.HasField("return_fields") else None


def _page_size(check: Checker, value: int) -> int:
    limits = check.settings.limits
    return check.count("page_size", value, default=limits.page_size_default, most=limits.page_size_max)


def _snippet_chars(check: Checker, request: pb.LexicalSearchRequest) -> int | None:
    if not request.HasField("highlight"):
        return None
    limits, wanted = check.settings.limits, request.highlight.snippet_chars
    most, default = limits.snippet_max_chars, limits.snippet_default_chars
    return check.count("highlight.snippet_chars", wanted, default=default, most=most)


def _parsed(check: Checker, text: str) -> Query:
    try:
        query = parse(text, _limits(check.settings))
    except Fault as fault:
        others = [v for v in check.violations if v.field != "query_text"]
        raise bad_field(fault.reason, *fault.violations, *others) from None
    check.done()
    return query


def _limits(settings: Settings) -> Limits:
    return Limits(settings.limits.query_max_chars, settings.limits.query_max_terms, settings.limits.query_max_depth)


def _semantic_query(
    check: Checker, request: pb.SemanticSearchRequest, dimension: int
) -> tuple[str | None, bytes | None]:
    form = request.WhichOneof("query")
    if form == "query_embedding":
        return None, check.vector("query_embedding.values", request.query_embedding.values, dimension)
    if form is None:
        check.refuse("query", "needs query_text or query_embedding")
        return None, None
    if not request.query_text.strip():
        check.refuse("query_text", "must not be blank")
    return check.text("query_text", request.query_text, most=check.settings.limits.query_max_chars), None
