"""Select the messages for a prompt, from the current conversation and a search in all other conversations.

The search tools are bound to one user, as in a recall. No chat model is called.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import Final

from nomemory.client.prompt_passages import count_tokens
from nomemory.recall.context.prompt_text import render_context
from nomemory.recall.context.query_text import build_query_text
from nomemory.recall.context.request import ContextRequest
from nomemory.recall.context.result import BuiltContext, ContextMessage
from nomemory.recall.context.token_budget import MessageSelection, compute_token_share
from nomemory.recall.grounding.supersession import find_superseding_messages
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.question import Role, Turn
from nomemory.recall.model.step import JsonValue
from nomemory.recall.reading.prompt_context import needs_preceding_message
from nomemory.recall.tools.bound_tools import BoundTools
from nomemory.recall.tools.definitions import HYBRID_SEARCH, MESSAGES_LIST, NEIGHBORS
from nomemory.recall.tools.query_stub import QueryStub, UserBinding
from nomemory.recall.tools.result import Hit, ToolResult

_BUDGET: Final = Budget(result_items=200, result_chars=10_000_000, evidence_chars=10_000_000)
"""The limits of one read. They are so high that only the token limit has an effect."""
_MESSAGE_TOKENS: Final = 25
"""Assumed number of tokens in a short message, for estimating the number of messages to read."""
_MIN_READ: Final = 20
_MAX_READ: Final = 200
_MAX_RANKED: Final = 100
_RECENT_PARTS: Final = 2
_RELATED_PARTS: Final = 4
"""Number of equal shares into which a section's tokens are divided. A message gets at most one share."""
_MAX_REPLIES: Final = 8
"""Maximum number of short messages that are shown with their preceding message."""
_REPLY_WITHIN: Final = timedelta(hours=1)
_SHORTEST_CALL_S: Final = 0.001


async def build_context(
    stub: QueryStub,
    user_id: str,
    request: ContextRequest,
    timeout_s: float,
    metadata: Sequence[tuple[str, str]] = (),
) -> BuiltContext:
    """Select the messages of one user for a prompt.

    Args:
        stub: a grpc.aio stub of QueryService, or a compatible object.
        user_id: the user whose messages are read. The caller must authorize access.
        request: the latest turns, the current conversation, and the token limit.
        timeout_s: the time limit for all calls together, in seconds.
        metadata: gRPC metadata to send with every read.

    Raises:
        QueryServiceUnavailableError: the QueryService does not respond or rejects all reads.
        WriteTokenRejectedError: the write token belongs to another message log.
        IndexLaggingError: the indexes did not reach the write token in time.
    """
    return await _ContextBuilder(stub, user_id, request, time.monotonic() + timeout_s, metadata).build()


class _ContextBuilder:
    """Reads and selects the messages of one context."""

    def __init__(
        self,
        stub: QueryStub,
        user_id: str,
        request: ContextRequest,
        deadline: float,
        metadata: Sequence[tuple[str, str]],
    ) -> None:
        self._request = request
        self._deadline = deadline
        current_binding = UserBinding(user_id, request.conversation_id, request.at_least)
        other_binding = UserBinding(user_id, "", request.at_least, request.all_excluded_conversation_ids)
        self._current_tools = BoundTools(current_binding, stub, _BUDGET, request.now, metadata)
        self._other_tools = BoundTools(other_binding, stub, _BUDGET, request.now, metadata)
        self._selection = MessageSelection(request.max_tokens, request.now.tzinfo)

    async def build(self) -> BuiltContext:
        """Read the current conversation, search the other conversations, and select messages from both."""
        latest = await self._read_latest_messages()
        ranking = await self._search_other_conversations(latest)
        self._select_recent_messages(latest)
        replied_to = await self._read_replied_to_messages(ranking.items)
        self._select_related_messages(ranking, replied_to)
        self._selection.truncated |= ranking.truncated
        return self._build_result(ranking)

    async def _read_latest_messages(self) -> ToolResult:
        """Return the latest messages of the current conversation, newest first."""
        if not self._request.conversation_id:
            return ToolResult()
        page = self._estimate_message_count(self._request.max_tokens // 2, _MAX_READ)
        result = await self._current_tools.call(MESSAGES_LIST, {"page_size": page}, self._get_remaining_time_s())
        self._current_tools.check_reachable()
        return result

    async def _search_other_conversations(self, latest: ToolResult) -> ToolResult:
        """Search all other conversations for messages that are relevant to the latest turns."""
        query = build_query_text(self._request.turns or _to_turns(latest.items), self._request.max_query_chars)
        if not query:
            return ToolResult()
        top_k = self._estimate_message_count(self._request.max_tokens, _MAX_RANKED)
        arguments: dict[str, JsonValue] = {"query_text": query, "top_k": top_k}
        result = await self._other_tools.call(HYBRID_SEARCH, arguments, self._get_remaining_time_s())
        self._other_tools.check_reachable()
        return result

    def _select_recent_messages(self, latest: ToolResult) -> None:
        """Select the newest messages of the current conversation, and skip messages that do not fit."""
        token_limit = self._request.max_tokens // 2
        share = compute_token_share(token_limit, _RECENT_PARTS)
        for hit in latest.items:
            was_full = self._selection.recent_token_count + share > token_limit
            if not self._selection.add_recent_message(ContextMessage(hit.message), share, token_limit) and was_full:
                break
        self._selection.truncated |= bool(latest.next_cursor)

    def _select_related_messages(self, ranking: ToolResult, replied_to: Mapping[str, RetrievedMessage]) -> None:
        """Select the best messages of other conversations, up to the token limit.

        If a short message replies to another message, select both.
        """
        token_limit = self._request.max_tokens - self._selection.recent_token_count
        share = compute_token_share(token_limit, _RELATED_PARTS)
        superseding_ids = find_superseding_messages(
            ranking.relations, {hit.message.message_id for hit in ranking.items}
        )
        shown_ids: set[str] = set()
        for hit in _drop_tool_messages(ranking.items):
            message_id = hit.message.message_id
            item = ContextMessage(hit.message, score=hit.score, superseded_by=superseding_ids.get(message_id, ""))
            if message_id in shown_ids or not self._selection.add_related_message(item, share):
                continue
            shown_ids.add(message_id)
            preceding = replied_to.get(message_id)
            if preceding is not None and preceding.message_id not in shown_ids:
                scores = {ranked_hit.message.message_id: ranked_hit.score for ranked_hit in ranking.items}
                preceding_item = ContextMessage(preceding, score=scores.get(preceding.message_id, 0.0))
                if self._selection.add_related_message(preceding_item, share):
                    shown_ids.add(preceding.message_id)

    async def _read_replied_to_messages(self, hits: Sequence[Hit]) -> dict[str, RetrievedMessage]:
        """Return the messages that the best short messages reply to. The keys are the ids of the replies."""
        replies = [hit.message for hit in hits if needs_preceding_message(hit.message)][:_MAX_REPLIES]
        preceding_messages = await asyncio.gather(*map(self._read_preceding_message, replies))
        return {
            reply.message_id: preceding
            for reply, preceding in zip(replies, preceding_messages, strict=True)
            if preceding is not None
        }

    async def _read_preceding_message(self, reply: RetrievedMessage) -> RetrievedMessage | None:
        """Return the message before a reply if another sender sent it in the same conversation within an hour."""
        arguments: dict[str, JsonValue] = {"message_id": reply.message_id, "before": 1, "after": 0}
        result = await self._other_tools.call(NEIGHBORS, arguments, self._get_remaining_time_s())
        preceding = result.items[0].message if result.items else reply
        is_recent = reply.ts - preceding.ts <= _REPLY_WITHIN and preceding.conversation_id == reply.conversation_id
        return preceding if is_recent and preceding.sender != reply.sender else None

    def _build_result(self, ranking: ToolResult) -> BuiltContext:
        related = _sort_by_time(_drop_unknown_references(self._selection.related))
        recent = _sort_by_time(self._selection.recent)
        text = render_context(related, recent, self._request.now.tzinfo)
        return BuiltContext(
            recent=recent,
            related=related,
            text=text,
            token_count=count_tokens(text),
            truncated=self._selection.truncated,
            semantic_unavailable=ranking.semantic_unavailable,
            index_lagging=ranking.index_lagging,
        )

    def _estimate_message_count(self, token_limit: int, maximum: int) -> int:
        """Estimate how many messages are needed to reach a token limit."""
        return min(maximum, max(_MIN_READ, token_limit // _MESSAGE_TOKENS))

    def _get_remaining_time_s(self) -> float:
        return max(self._deadline - time.monotonic(), _SHORTEST_CALL_S)


def _to_turns(latest: Sequence[Hit]) -> list[Turn]:
    return [Turn(hit.message.role, hit.message.content) for hit in reversed(latest)]


def _drop_tool_messages(hits: Sequence[Hit]) -> Sequence[Hit]:
    """Remove tool messages, unless all messages are tool messages."""
    return [hit for hit in hits if hit.message.role is not Role.TOOL] or hits


def _drop_unknown_references(items: Sequence[ContextMessage]) -> list[ContextMessage]:
    """Clear `superseded_by` if the superseding message is not selected."""
    shown_ids = {item.message.message_id for item in items}
    return [item if item.superseded_by in shown_ids else replace(item, superseded_by="") for item in items]


def _sort_by_time(items: Sequence[ContextMessage]) -> tuple[ContextMessage, ...]:
    by_id = sorted(items, key=lambda item: item.message.message_id.encode())
    return tuple(sorted(by_id, key=attrgetter("message.ts")))
