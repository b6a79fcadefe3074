"""The QueryService, which searches, lists and exports messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from nomemory.server.api.admission.expensive_reads import is_expensive
from nomemory.server.api.call import CallContext
from nomemory.server.api.highlight_encoding import encode_highlights, make_max_highlight_size
from nomemory.server.api.identity.access import RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.response_encoding import (
    encode_conversation,
    encode_hybrid_reply,
    encode_listing_reply,
    encode_relation,
    encode_semantic_reply,
)
from nomemory.server.api.service import ServedMethod
from nomemory.server.api.validation.query_requests import (
    LexicalQuery,
    decode_batch_get,
    decode_conversations,
    decode_count,
    decode_export,
    decode_hybrid,
    decode_lexical,
    decode_list,
    decode_neighbors,
    decode_semantic,
    decode_users,
)
from nomemory.server.api.write_tokens import WriteTokens
from nomemory.server.runtime.read_threads import ReadThreads
from nomemory.server.runtime.round_robin_limit import RoundRobinLimit
from nomemory.server.runtime.settings import Settings
from nomemory.server.search.conversation_listing import ConversationListing
from nomemory.server.search.hybrid.search import HybridSearch
from nomemory.server.search.index_wait import wait_until_applied
from nomemory.server.search.lexical_listing import LexicalListing, RankedPage
from nomemory.server.search.neighborhood import read_neighborhood
from nomemory.server.search.ranked import RankedMessage
from nomemory.server.search.reply_budget import count_fitting_messages
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.search.semantic.vector_space import VectorSpace
from nomemory.server.search.semantic_search import SemanticSearch
from nomemory.server.search.time_listing import TimeListing
from nomemory.server.search.user_listing import UserListing
from nomemory.server.store.protocol import LogReader
from nomemory.text.time_range import TimeRange
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_WAIT_POLL_S: Final = 0.005
"""Poll interval in seconds of reads that wait for an index."""
_REPLY_RESERVE_S = 0.05
"""Time before the deadline, in seconds, at which a read stops waiting for an index."""
_EXPORT_BATCH_MAX = 1000
"""Maximum number of messages in one batch of an export."""
_INLINE_HIGHLIGHT_BYTES = 10_000
"""Maximum size of a page that is highlighted on the event loop, which takes about 1 ms."""
_SEMANTIC_TIME_SHARE = 0.5
"""Share of the remaining time for the semantic search. If the embedder hangs, the lexical search uses the rest."""


class HasWriteToken(Protocol):
    """A request whose field `at_least` may contain a write token."""

    user_id: str
    at_least: str


@dataclass(frozen=True, slots=True)
class QueryService:
    """Serves `nomemory.v1.QueryService`. An expensive read holds a slot while it computes, but not while it waits."""

    slots: RoundRobinLimit
    threads: ReadThreads
    log: LogReader
    time_listing: TimeListing
    conversation_listing: ConversationListing
    user_listing: UserListing
    lexical_listing: LexicalListing
    semantic: SemanticSearch
    hybrid: HybridSearch
    tokens: WriteTokens
    spaces: ActiveSpace
    settings: Settings
    full_name: str = "nomemory.v1.QueryService"

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods of the service by their short names."""
        query, admin = RequiredScopes(frozenset({Scope.QUERY})), RequiredScopes(frozenset({Scope.ADMIN}))
        return {
            "ListMessages": ServedMethod(query, self.list_messages),
            "LexicalSearch": ServedMethod(query, self.lexical_search),
            "SemanticSearch": ServedMethod(query, self.semantic_search),
            "HybridSearch": ServedMethod(query, self.hybrid_search),
            "GetNeighbors": ServedMethod(query, self.get_neighbors),
            "BatchGetMessages": ServedMethod(query, self.batch_get_messages),
            "CountMessages": ServedMethod(query, self.count_messages),
            "ListConversations": ServedMethod(query, self.list_conversations),
            "ListUsers": ServedMethod(admin, self.list_users),
            "ExportMessages": ServedMethod(query, self.export_messages, is_bulk=True),
        }

    async def list_messages(self, request: pb.ListMessagesRequest, context: CallContext) -> bytes:
        """Return a page of messages in time order."""
        query = decode_list(request, self.settings)
        await self._wait_for_log(request, context)
        is_scan = is_expensive("ListMessages", request)
        async with self.slots.slot(request.user_id) if is_scan else nullcontext():
            page = await self.time_listing.read_wire_page(query.listing, query.page_size, request.cursor)
        return encode_listing_reply(page.wires, query.mask, pb.ListMessagesResponse(next_cursor=page.next_cursor))

    async def lexical_search(self, request: pb.LexicalSearchRequest, context: CallContext) -> bytes:
        """Search for terms and phrases, or list messages by time if the query is empty."""
        query = decode_lexical(request, self.settings)
        if query.query.is_empty:
            await self._wait_for_log(request, context)
        else:
            await self._wait_for_lexical(request, context)
        async with self.slots.slot(request.user_id):
            page = await self._read_lexical_page(query, request.cursor)
            highlights = await self._encode_highlights(page, query)
        reply = pb.LexicalSearchResponse(
            next_cursor=page.next_cursor,
            scores=[pb.MessageScore(message_id=item.message.message_id, score=item.score) for item in page.items],
            index_lagging=page.index_lagging,
            truncated=page.truncated,
        )
        return encode_listing_reply([item.message.wire for item in page.items], query.mask, reply) + highlights

    async def semantic_search(self, request: pb.SemanticSearchRequest, context: CallContext) -> bytes:
        """Search for the messages whose vectors are most similar to the query's vector."""
        with self.spaces.acquire_lease() as space:
            query, mask = decode_semantic(request, self.settings, space.embedder.dimension)
            space.progress.record_query(request.user_id)
            await self._wait_for_vectors(space, request, context)
            result = await self.semantic.search(space, query)
        reply = pb.SemanticSearchResponse(
            truncated=result.truncated, index_lagging=result.index_lagging, embedding_model=space.embedder.model
        )
        return encode_semantic_reply(result.items, mask, reply)

    async def hybrid_search(self, request: pb.HybridSearchRequest, context: CallContext) -> bytes:
        """Search with a combination of lexical search and vector search."""
        with self.spaces.acquire_lease() as space:
            query, mask = decode_hybrid(request, self.settings, space.embedder.dimension)
            space.progress.record_query(request.user_id)
            await self._wait_for_lexical(request, context)
            await self._wait_for_vectors(space, request, context)
            timeout_s = context.compute_remaining_s() * _SEMANTIC_TIME_SHARE
            result = await self.hybrid.search(space, replace(query, timeout_s=timeout_s))
        reply = pb.HybridSearchResponse(
            truncated=result.truncated,
            index_lagging=result.index_lagging,
            semantic_unavailable=result.semantic_unavailable,
            embedding_model="" if result.semantic_unavailable else space.embedder.model,
            sufficiency=result.sufficiency,
            speaker_matched=result.speaker_matched,
            sufficiency_lexical_only=result.sufficiency_lexical_only,
            relations=map(encode_relation, result.relations),
            empty_time_ranges=map(_encode_time_range, result.empty_time_ranges),
        )
        return encode_hybrid_reply(result.items, mask, reply, explain=request.explain)

    async def get_neighbors(self, request: pb.GetNeighborsRequest, _context: CallContext) -> bytes:
        """Return the messages before and after an anchor message."""
        before, after, mask = decode_neighbors(request, self.settings)
        neighborhood = await read_neighborhood(
            self.log,
            request.user_id,
            request.message_id,
            before=before,
            after=after,
            budget_bytes=self.settings.limits.max_response_bytes,
        )
        reply = pb.GetNeighborsResponse(
            anchor_index=neighborhood.anchor_index,
            truncated_before=neighborhood.truncated_before,
            truncated_after=neighborhood.truncated_after,
        )
        return encode_listing_reply(neighborhood.wires, mask, reply)

    async def batch_get_messages(self, request: pb.BatchGetMessagesRequest, _context: CallContext) -> bytes:
        """Return the messages of one user with the given ids."""
        mask = decode_batch_get(request, self.settings)
        message_ids = list(request.message_ids)
        by_id = await self.log.read_messages(request.user_id, message_ids)
        messages = [by_id[message_id] for message_id in message_ids if message_id in by_id]
        count = count_fitting_messages(messages, self.settings.limits.max_response_bytes)
        reply = pb.BatchGetMessagesResponse(
            missing_message_ids=[message_id for message_id in message_ids if message_id not in by_id],
            omitted_message_ids=[message.message_id for message in messages[count:]],
        )
        return encode_listing_reply([message.wire for message in messages[:count]], mask, reply)

    async def count_messages(self, request: pb.CountMessagesRequest, context: CallContext) -> pb.CountMessagesResponse:
        """Return the number of messages that match a filter."""
        message_filter = decode_count(request, self.settings)
        await self._wait_for_log(request, context)
        async with self.slots.slot(request.user_id):
            return pb.CountMessagesResponse(count=await self.log.count_messages(request.user_id, message_filter))

    async def list_conversations(
        self, request: pb.ListConversationsRequest, context: CallContext
    ) -> pb.ListConversationsResponse:
        """Return a page of conversation summaries, from the latest conversation to the oldest."""
        query = decode_conversations(request, self.settings)
        await self._wait_for_log(request, context)
        async with self.slots.slot(request.user_id):
            page = await self.conversation_listing.read_page(query.listing, query.page_size, request.cursor)
        return pb.ListConversationsResponse(
            conversations=map(encode_conversation, page.conversations), next_cursor=page.next_cursor
        )

    async def list_users(self, request: pb.ListUsersRequest, context: CallContext) -> pb.ListUsersResponse:
        """Return a page of the users in the caller's namespace, or of all users if the caller has no namespace."""
        query = decode_users(request, self.settings, context.user_prefix)
        async with self.slots.slot(context.caller.name):
            page = await self.user_listing.read_page(query.listing, query.page_size, request.cursor)
        users = [pb.UserSummary(user_id=user.user_id, message_count=user.messages) for user in page.users]
        return pb.ListUsersResponse(users=users, next_cursor=page.next_cursor)

    async def export_messages(self, request: pb.ExportMessagesRequest, _context: CallContext) -> AsyncIterator[bytes]:
        """Stream all messages that match a filter, in time order from the oldest to the newest."""
        listing = decode_export(request, self.settings)
        batch_max = min(self.settings.limits.max_batch_messages, _EXPORT_BATCH_MAX)
        async for batch in self.time_listing.read_batches(listing, batch_max, request.cursor):
            yield encode_listing_reply(batch.wires, None, pb.ExportMessagesResponse(next_cursor=batch.next_cursor))

    async def _read_lexical_page(self, query: LexicalQuery, cursor: str) -> RankedPage:
        highlight_bytes = make_max_highlight_size(query.snippet_chars)
        if not query.query.is_empty:
            return await self.lexical_listing.read_page(
                query.listing, query.query, query.page_size, cursor, highlight_bytes
            )
        page = await self.time_listing.read_page(query.listing, query.page_size, cursor, highlight_bytes)
        return RankedPage(
            [RankedMessage(message, 0.0) for message in page.messages], page.next_cursor, index_lagging=False
        )

    async def _encode_highlights(self, page: RankedPage, query: LexicalQuery) -> bytes:
        if query.snippet_chars is None:
            return b""
        encode = partial(encode_highlights, page.items, query.query, query.snippet_chars)
        is_small = sum(len(item.message.wire) for item in page.items) <= _INLINE_HIGHLIGHT_BYTES
        return encode() if is_small else await self.threads.run(encode)

    async def _wait_for_log(self, request: HasWriteToken, context: CallContext) -> None:
        async def is_applied(sequence: int) -> bool:
            return await self.log.read_sequence() >= sequence

        await self._wait_for("log", is_applied, request, context)

    async def _wait_for_lexical(self, request: HasWriteToken, context: CallContext) -> None:
        await self._wait_for(
            "lexical index", partial(self.lexical_listing.has_applied, request.user_id), request, context
        )

    async def _wait_for_vectors(self, space: VectorSpace, request: HasWriteToken, context: CallContext) -> None:
        await self._wait_for(
            "vector index", partial(self.semantic.has_applied, space, request.user_id), request, context
        )

    async def _wait_for(
        self, name: str, is_applied: Callable[[int], Awaitable[bool]], request: HasWriteToken, context: CallContext
    ) -> None:
        """Wait until an index has applied the write that the request's write token identifies."""
        sequence = self.tokens.read(request.at_least)
        if sequence:
            timeout_s, poll_s = context.compute_remaining_s() - _REPLY_RESERVE_S, _WAIT_POLL_S
            await wait_until_applied(lambda: is_applied(sequence), name=name, timeout_s=timeout_s, poll_s=poll_s)


def _encode_time_range(period: TimeRange) -> message_pb2.TimeRange:
    encoded = message_pb2.TimeRange()
    if period.since:
        encoded.since.FromDatetime(period.since)
    if period.until:
        encoded.until.FromDatetime(period.until)
    return encoded
