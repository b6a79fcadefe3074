"""QueryService: decode, read, encode."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from nomemory.server.api.admission.expensive_reads import is_expensive
from nomemory.server.api.call import CallContext
from nomemory.server.api.highlight_encoding import highlights, room
from nomemory.server.api.identity.access import RequiredScopes
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.response_encoding import (
    conversation,
    encode_relation,
    hybrid_reply,
    listing_reply,
    semantic_reply,
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
from nomemory.server.search.hybrid.search import HybridMessages
from nomemory.server.search.index_wait import wait_until
from nomemory.server.search.lexical_listing import LexicalListing, RankedPage
from nomemory.server.search.nearest_messages import NearestMessages
from nomemory.server.search.neighborhood import read_neighborhood
from nomemory.server.search.ranked import Ranked
from nomemory.server.search.reply_budget import fitting
from nomemory.server.search.semantic.active_index import ActiveSpace
from nomemory.server.search.semantic.vector_space import VectorSpace
from nomemory.server.search.time_listing import TimeListing
from nomemory.server.search.user_listing import UserListing
from nomemory.server.store.protocol import LogReader
from nomemory.text.time_range import TimeRange
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_WAIT_POLL_S: Final = 0.005
"""Interval at which a waiting read polls its index, in seconds."""

_ANSWERING_S = 0.05
"""Seconds of a deadline that are reserved for answering when a read waits for its index."""
_EXPORTED_AT_ONCE = 1000
"""Most messages of one batch of an export."""
_SHORT_PAGE_BYTES = 10_000
"""Messages of a page that are highlighted on the event loop, in about a millisecond."""
_SHARE_OF_MEANING = 0.5
"""Share of the remaining time for meaning, so that words can still answer if the embedder hangs."""


class Waiting(Protocol):
    """A request that may bring a write token."""

    user_id: str
    at_least: str


@dataclass(frozen=True, slots=True)
class QueryService:
    """Serves `nomemory.v1.QueryService`. Expensive reads hold a slot while they work."""

    slots: RoundRobinLimit
    threads: ReadThreads
    log: LogReader
    by_time: TimeListing
    conversations: ConversationListing
    users: UserListing
    by_words: LexicalListing
    by_meaning: NearestMessages
    hybrid: HybridMessages
    tokens: WriteTokens
    spaces: ActiveSpace
    settings: Settings
    full_name: str = "nomemory.v1.QueryService"

    def methods(self) -> Mapping[str, ServedMethod]:
        """Return the methods by their short names."""
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
        """Read by time, in either order."""
        query = decode_list(request, self.settings)
        await self._reach_log(request, context)
        is_scan = is_expensive("ListMessages", request)
        async with self.slots.slot(request.user_id) if is_scan else nullcontext():
            page = await self.by_time.wire_page(query.listing, query.page_size, request.cursor)
        return listing_reply(page.wires, query.mask, pb.ListMessagesResponse(next_cursor=page.next_cursor))

    async def lexical_search(self, request: pb.LexicalSearchRequest, context: CallContext) -> bytes:
        """Find words and phrases; an empty query reads by time."""
        query = decode_lexical(request, self.settings)
        if query.query.is_empty:
            await self._reach_log(request, context)
        else:
            await self._reach_words(request, context)
        async with self.slots.slot(request.user_id):
            page = await self._lexical_page(query, request.cursor)
            marks = await self._highlights(page, query)
        reply = pb.LexicalSearchResponse(
            next_cursor=page.next_cursor,
            scores=[pb.MessageScore(message_id=item.message.message_id, score=item.score) for item in page.items],
            index_lagging=page.behind,
            truncated=page.truncated,
        )
        return listing_reply([item.message.wire for item in page.items], query.mask, reply) + marks

    async def semantic_search(self, request: pb.SemanticSearchRequest, context: CallContext) -> bytes:
        """Find messages near in meaning."""
        with self.spaces.used() as space:
            query, mask = decode_semantic(request, self.settings, space.embedder.dimension)
            space.progress.note_query(request.user_id)
            await self._reach_meaning(space, request, context)
            nearest = await self.by_meaning.search(space, query)
        reply = pb.SemanticSearchResponse(
            truncated=nearest.truncated, index_lagging=nearest.behind, embedding_model=space.embedder.model
        )
        return semantic_reply(nearest.items, mask, reply)

    async def hybrid_search(self, request: pb.HybridSearchRequest, context: CallContext) -> bytes:
        """Find the messages that answer a question."""
        with self.spaces.used() as space:
            query, mask = decode_hybrid(request, self.settings, space.embedder.dimension)
            space.progress.note_query(request.user_id)
            await self._reach_words(request, context)
            await self._reach_meaning(space, request, context)
            patience_s = context.remaining_s() * _SHARE_OF_MEANING
            answer = await self.hybrid.search(space, replace(query, patience_s=patience_s))
        reply = pb.HybridSearchResponse(
            truncated=answer.truncated,
            index_lagging=answer.behind,
            semantic_unavailable=answer.semantic_unavailable,
            embedding_model="" if answer.semantic_unavailable else space.embedder.model,
            sufficiency=answer.sufficiency,
            speaker_matched=answer.speaker_matched,
            sufficiency_lexical_only=answer.by_words,
            relations=map(encode_relation, answer.relations),
            empty_time_ranges=map(_encode_time_range, answer.empty_time_ranges),
        )
        return hybrid_reply(answer.items, mask, reply, explain=request.explain)

    async def get_neighbors(self, request: pb.GetNeighborsRequest, _context: CallContext) -> bytes:
        """Read the messages around one."""
        before, after, mask = decode_neighbors(request, self.settings)
        around = await read_neighborhood(
            self.log,
            request.user_id,
            request.message_id,
            before=before,
            after=after,
            budget_bytes=self.settings.limits.max_response_bytes,
        )
        reply = pb.GetNeighborsResponse(
            anchor_index=around.anchor_index,
            truncated_before=around.truncated_before,
            truncated_after=around.truncated_after,
        )
        return listing_reply(around.wires, mask, reply)

    async def batch_get_messages(self, request: pb.BatchGetMessagesRequest, _context: CallContext) -> bytes:
        """Resolve ids."""
        mask = decode_batch_get(request, self.settings)
        message_ids = list(request.message_ids)
        found = await self.log.by_ids(request.user_id, message_ids)
        present = [found[message_id] for message_id in message_ids if message_id in found]
        fits = fitting(present, self.settings.limits.max_response_bytes)
        reply = pb.BatchGetMessagesResponse(
            missing_message_ids=[message_id for message_id in message_ids if message_id not in found],
            omitted_message_ids=[message.message_id for message in present[fits:]],
        )
        return listing_reply([message.wire for message in present[:fits]], mask, reply)

    async def count_messages(self, request: pb.CountMessagesRequest, context: CallContext) -> pb.CountMessagesResponse:
        """Count what a filter admits."""
        narrowed = decode_count(request, self.settings)
        await self._reach_log(request, context)
        async with self.slots.slot(request.user_id):
            return pb.CountMessagesResponse(count=await self.log.count(request.user_id, narrowed))

    async def list_conversations(
        self, request: pb.ListConversationsRequest, context: CallContext
    ) -> pb.ListConversationsResponse:
        """Sum up conversations, the latest first."""
        query = decode_conversations(request, self.settings)
        await self._reach_log(request, context)
        async with self.slots.slot(request.user_id):
            page = await self.conversations.page(query.listing, query.page_size, request.cursor)
        return pb.ListConversationsResponse(
            conversations=map(conversation, page.conversations), next_cursor=page.next_cursor
        )

    async def list_users(self, request: pb.ListUsersRequest, context: CallContext) -> pb.ListUsersResponse:
        """Say who has messages, among those whom the caller may know of."""
        query = decode_users(request, self.settings, context.user_prefix)
        async with self.slots.slot(context.caller.name):
            page = await self.users.page(query.listing, query.page_size, request.cursor)
        users = [pb.UserSummary(user_id=one.user_id, message_count=one.messages) for one in page.users]
        return pb.ListUsersResponse(users=users, next_cursor=page.next_cursor)

    async def export_messages(self, request: pb.ExportMessagesRequest, _context: CallContext) -> AsyncIterator[bytes]:
        """Read everything in the order of the log, batch by batch."""
        listing = decode_export(request, self.settings)
        batch_max = min(self.settings.limits.max_batch_messages, _EXPORTED_AT_ONCE)
        async for batch in self.by_time.batches(listing, batch_max, request.cursor):
            yield listing_reply(batch.wires, None, pb.ExportMessagesResponse(next_cursor=batch.next_cursor))

    async def _lexical_page(self, query: LexicalQuery, cursor: str) -> RankedPage:
        beside = room(query.snippet_chars)
        if not query.query.is_empty:
            return await self.by_words.page(query.listing, query.query, query.page_size, cursor, beside)
        page = await self.by_time.page(query.listing, query.page_size, cursor, beside)
        return RankedPage([Ranked(message, 0.0) for message in page.messages], page.next_cursor, behind=False)

    async def _highlights(self, page: RankedPage, query: LexicalQuery) -> bytes:
        if query.snippet_chars is None:
            return b""
        marked = partial(highlights, page.items, query.query, query.snippet_chars)
        is_short = sum(len(item.message.wire) for item in page.items) <= _SHORT_PAGE_BYTES
        return marked() if is_short else await self.threads.run(marked)

    async def _reach_log(self, request: Waiting, context: CallContext) -> None:
        async def reached(sequence: int) -> bool:
            return await self.log.sequence() >= sequence

        await self._reach("log", reached, request, context)

    async def _reach_words(self, request: Waiting, context: CallContext) -> None:
        await self._reach("lexical index", partial(self.by_words.reached, request.user_id), request, context)

    async def _reach_meaning(self, space: VectorSpace, request: Waiting, context: CallContext) -> None:
        await self._reach("vector index", partial(self.by_meaning.reached, space, request.user_id), request, context)

    async def _reach(
        self, name: str, reached: Callable[[int], Awaitable[bool]], request: Waiting, context: CallContext
    ) -> None:
        """Wait until an index has what a token asks for."""
        sequence = self.tokens.read(request.at_least)
        if sequence:
            timeout_s, poll_s = context.remaining_s() - _ANSWERING_S, _WAIT_POLL_S
            await wait_until(lambda: reached(sequence), name=name, timeout_s=timeout_s, poll_s=poll_s)


def _encode_time_range(period: TimeRange) -> message_pb2.TimeRange:
    encoded = message_pb2.TimeRange()
    if period.since:
        encoded.since.FromDatetime(period.since)
    if period.until:
        encoded.until.FromDatetime(period.until)
    return encoded
