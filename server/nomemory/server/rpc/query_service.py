"""QueryService: decode, read, encode."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from nomemory.server.hybrid.search import HybridMessages, HybridQuery
from nomemory.server.identity.access import Need
from nomemory.server.identity.caller import Scope
from nomemory.server.log.protocol import READ_AFTER, LogReader, ReadAfter
from nomemory.server.reads.conversation_listing import ConversationListing
from nomemory.server.reads.lexical_listing import LexicalListing, RankedPage
from nomemory.server.reads.nearest_messages import NearestMessages, Ranked, wait_until
from nomemory.server.reads.reply_budget import fitting
from nomemory.server.reads.time_listing import TimeListing, UserListing, read_neighborhood
from nomemory.server.rpc.call import Call, ClientStream, ServerStream, Unary
from nomemory.server.rpc.decode_query import (
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
from nomemory.server.rpc.reply import (
    conversation,
    encode_relation,
    highlights,
    hybrid_reply,
    listing_reply,
    room,
    semantic_reply,
)
from nomemory.server.settings import Settings
from nomemory.server.token_cipher import WriteTokens
from nomemory.server.vector.space import ServingSpace, VectorSpace
from nomemory.v1 import query_service_pb2 as pb

_ANSWERING_S = 0.05
"""Seconds of a deadline that are reserved for answering when a read waits for its index."""
_EXPORTED_AT_ONCE = 1000
"""Most messages that an export reads before other calls have their turn: some milliseconds."""
_SHARE_OF_MEANING = 0.5
"""Share of the remaining time for meaning, so that words can still answer if the embedder hangs."""


@dataclass(frozen=True, slots=True)
class QueryService:
    """Serves `nomemory.v1.QueryService`."""

    log: LogReader
    by_time: TimeListing
    conversations: ConversationListing
    users: UserListing
    by_words: LexicalListing
    by_meaning: NearestMessages
    hybrid: HybridMessages
    tokens: WriteTokens
    spaces: ServingSpace
    settings: Settings
    full_name: str = "nomemory.v1.QueryService"

    def needs(self) -> Mapping[str, Need]:
        """Return what each method needs of its caller."""
        read = dict.fromkeys(self.unary_methods(), Need(frozenset({Scope.QUERY})))
        return read | {
            "ListUsers": Need(frozenset({Scope.ADMIN})),
            "ExportMessages": Need(frozenset({Scope.QUERY}), is_bulk=True),
        }

    def unary_methods(self) -> Mapping[str, Unary]:
        """Return the methods that take one request."""
        return {
            "ListMessages": self.list_messages,
            "LexicalSearch": self.lexical_search,
            "SemanticSearch": self.semantic_search,
            "HybridSearch": self.hybrid_search,
            "GetNeighbors": self.get_neighbors,
            "BatchGetMessages": self.batch_get_messages,
            "CountMessages": self.count_messages,
            "ListConversations": self.list_conversations,
            "ListUsers": self.list_users,
        }

    def client_stream_methods(self) -> Mapping[str, ClientStream]:
        """Return the methods that take a stream of requests: none."""
        return {}

    def server_stream_methods(self) -> Mapping[str, ServerStream]:
        """Return the methods that answer with a stream."""
        return {"ExportMessages": self.export_messages}

    async def list_messages(self, request: pb.ListMessagesRequest, call: Call) -> bytes:
        """Read by time, in either order."""
        query = decode_list(request, self.settings)
        await self._reach_log(query.listing.user_id, query.at_least, call, query.cursor)
        page = await self.by_time.wire_page(query.listing, query.page_size, query.cursor)
        return listing_reply(page.wires, query.mask, pb.ListMessagesResponse(next_cursor=page.next_cursor))

    async def lexical_search(self, request: pb.LexicalSearchRequest, call: Call) -> bytes:
        """Find words and phrases; an empty query reads by time."""
        query = decode_lexical(request, self.settings)
        page = await (self._page_by_time(query, call) if query.query.is_empty else self._page_by_words(query, call))
        reply = pb.LexicalSearchResponse(
            next_cursor=page.next_cursor,
            scores=[pb.MessageScore(message_id=item.message.message_id, score=item.score) for item in page.items],
            index_behind=page.behind,
        )
        shown = await highlights(page.items, query.query, self.settings, query.snippet_chars)
        return listing_reply([item.message.wire for item in page.items], query.mask, reply) + shown

    async def semantic_search(self, request: pb.SemanticSearchRequest, call: Call) -> bytes:
        """Find messages near in meaning."""
        with self.spaces.used() as space:
            query = decode_semantic(request, self.settings, space.embedder.dimension)
            space.progress.note_query(query.nearest.user_id)
            await self._reach_meaning(space, query.nearest.user_id, query.at_least, call)
            nearest = await self.by_meaning.search(space, query.nearest)
        reply = pb.SemanticSearchResponse(
            truncated=nearest.truncated, index_behind=nearest.behind, embedding_model=space.embedder.model
        )
        return semantic_reply(nearest.items, query.mask, reply)

    async def hybrid_search(self, request: pb.HybridSearchRequest, call: Call) -> bytes:
        """Find the messages that answer a question."""
        with self.spaces.used() as space:
            query = decode_hybrid(request, self.settings, space.embedder.dimension)
            space.progress.note_query(query.user_id)
            await self._reach_words(query.user_id, query.at_least, call)
            await self._reach_meaning(space, query.user_id, query.at_least, call)
            patience_s = call.remaining_s() * _SHARE_OF_MEANING
            wanted = HybridQuery(
                query.user_id,
                query.text,
                query.vector,
                query.narrowed,
                query.top_k,
                patience_s,
                explains=query.explain,
                relates=query.relate,
            )
            answer = await self.hybrid.search(space, wanted)
        reply = pb.HybridSearchResponse(
            truncated=answer.truncated,
            index_behind=answer.behind,
            words_only=answer.words_only,
            embedding_model="" if answer.words_only else space.embedder.model,
            sufficiency=answer.sufficiency,
            told_apart=answer.told_apart,
            sufficiency_by_words=answer.by_words,
            relations=map(encode_relation, answer.relations),
        )
        return hybrid_reply(answer.items, query.mask, reply, explain=query.explain)

    async def get_neighbors(self, request: pb.GetNeighborsRequest, _call: Call) -> bytes:
        """Read the messages around one."""
        query = decode_neighbors(request, self.settings)
        around = await read_neighborhood(
            self.log,
            query.user_id,
            query.message_id,
            before=query.before,
            after=query.after,
            budget_bytes=self.settings.limits.reply_max_bytes,
        )
        reply = pb.GetNeighborsResponse(
            anchor_index=around.anchor_index,
            truncated_before=around.truncated_before,
            truncated_after=around.truncated_after,
        )
        return listing_reply(around.wires, query.mask, reply)

    async def batch_get_messages(self, request: pb.BatchGetMessagesRequest, _call: Call) -> bytes:
        """Resolve ids."""
        query = decode_batch_get(request, self.settings)
        found = await self.log.by_ids(query.user_id, query.message_ids)
        present = [found[message_id] for message_id in query.message_ids if message_id in found]
        fits = fitting(present, self.settings.limits.reply_max_bytes)
        reply = pb.BatchGetMessagesResponse(
            missing_message_ids=[message_id for message_id in query.message_ids if message_id not in found],
            omitted_message_ids=[message.message_id for message in present[fits:]],
        )
        return listing_reply([message.wire for message in present[:fits]], query.mask, reply)

    async def count_messages(self, request: pb.CountMessagesRequest, call: Call) -> pb.CountMessagesResponse:
        """Count what a filter admits."""
        query = decode_count(request, self.settings)
        await self._reach_log(query.user_id, query.at_least, call)
        return pb.CountMessagesResponse(count=await self.log.count(query.user_id, query.narrowed))

    async def list_conversations(
        self, request: pb.ListConversationsRequest, call: Call
    ) -> pb.ListConversationsResponse:
        """Sum up conversations, the latest first."""
        query = decode_conversations(request, self.settings)
        await self._reach_log(query.listing.user_id, query.at_least, call, query.cursor)
        page = await self.conversations.page(query.listing, query.page_size, query.cursor)
        return pb.ListConversationsResponse(
            conversations=map(conversation, page.conversations), next_cursor=page.next_cursor
        )

    async def list_users(self, request: pb.ListUsersRequest, call: Call) -> pb.ListUsersResponse:
        """Say who has messages, among those whom the caller may know of."""
        query = decode_users(request, self.settings, call.user_prefix)
        page = await self.users.page(query.listing, query.page_size, query.cursor)
        users = [pb.UserSummary(user_id=one.user_id, message_count=one.messages) for one in page.users]
        return pb.ListUsersResponse(users=users, next_cursor=page.next_cursor)

    async def export_messages(self, request: pb.ExportMessagesRequest, _call: Call) -> AsyncIterator[bytes]:
        """Read everything in the order of the log, batch by batch."""
        query = decode_export(request, self.settings)
        batch_max = min(self.settings.limits.write_batch_max, _EXPORTED_AT_ONCE)
        async for batch in self.by_time.batches(query.listing, batch_max, query.cursor):
            yield listing_reply(batch.wires, None, pb.ExportMessagesResponse(next_cursor=batch.next_cursor))

    async def _page_by_words(self, query: LexicalQuery, call: Call) -> RankedPage:
        await self._reach_words(query.listing.user_id, query.at_least, call, query.cursor)
        beside = room(self.settings, query.snippet_chars)
        return await self.by_words.page(query.listing, query.query, query.page_size, query.cursor, beside)

    async def _page_by_time(self, query: LexicalQuery, call: Call) -> RankedPage:
        await self._reach_log(query.listing.user_id, query.at_least, call, query.cursor)
        beside = room(self.settings, query.snippet_chars)
        page = await self.by_time.page(query.listing, query.page_size, query.cursor, beside)
        return RankedPage([Ranked(message, 0.0) for message in page.messages], page.next_cursor, behind=False)

    def _required(self, user_id: str, at_least: str, cursor: str = "") -> int:
        """Return what a token asks for, and let the reads of this call be answered by whatever has it.

        A further page has to have more: what the first page saw.
        """
        sequence = self.tokens.read(at_least)
        READ_AFTER.set(ReadAfter(user_id, sequence) if sequence and not cursor else None)
        return sequence

    async def _reach_log(self, user_id: str, at_least: str, call: Call, cursor: str = "") -> None:
        sequence = self._required(user_id, at_least, cursor)
        if not sequence:
            return

        async def reached() -> bool:
            return await self.log.sequence() >= sequence

        await self._wait(reached, "log", call)

    async def _reach_words(self, user_id: str, at_least: str, call: Call, cursor: str = "") -> None:
        sequence = self._required(user_id, at_least, cursor)
        if sequence:
            await self._wait(lambda: self.by_words.reached(user_id, sequence), "lexical index", call)

    async def _reach_meaning(self, space: VectorSpace, user_id: str, at_least: str, call: Call) -> None:
        sequence = self._required(user_id, at_least)
        if sequence:
            await self._wait(lambda: self.by_meaning.reached(space, user_id, sequence), "vector index", call)

    async def _wait(self, reached: Callable[[], Awaitable[bool]], name: str, call: Call) -> None:
        timeout_s = call.remaining_s() - _ANSWERING_S
        await wait_until(reached, name=name, timeout_s=timeout_s, poll_s=self.settings.timing.wait_poll_s)
