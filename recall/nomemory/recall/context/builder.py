"""Build a context from the current conversation and a search of all other conversations.

All reads use tools that are bound to one user, as in a recall. No model is called.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter
from typing import Final

from nomemory.client.prompt_passages import tokens
from nomemory.recall.context.prompt_text import block
from nomemory.recall.context.query_text import query_text
from nomemory.recall.context.request import ContextRequest
from nomemory.recall.context.result import BuiltContext, ContextMessage
from nomemory.recall.context.token_budget import TokenBudget, message_share
from nomemory.recall.grounding.supersession import superseding_messages
from nomemory.recall.model.budget import Budget
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.question import Role, Turn
from nomemory.recall.model.step import JsonValue
from nomemory.recall.reading.prompt_context import is_short
from nomemory.recall.tools.bound_tools import BoundTools
from nomemory.recall.tools.definitions import HYBRID_SEARCH, MESSAGES_LIST, NEIGHBORS
from nomemory.recall.tools.query_stub import Binding, QueryStub
from nomemory.recall.tools.result import Hit, ToolResult

_BUDGET: Final = Budget(result_items=200, result_chars=10_000_000, evidence_chars=10_000_000)
"""The limits of one read. They are so high that only the token limit has an effect."""
_MESSAGE_TOKENS: Final = 25
"""Assumed tokens of a short message, to estimate the number of messages to read."""
_MIN_READ: Final = 20
_MAX_READ: Final = 200
_MAX_RANKED: Final = 100
_RECENT_PARTS: Final = 2
_RELATED_PARTS: Final = 4
"""Number of equal shares into which a section's tokens are divided. A message gets at most one share."""
_MAX_REPLIES: Final = 8
"""Number of top short messages that are shown with their preceding message."""
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
        request: turns, current conversation and token limit.
        timeout_s: the time limit for all reads together, in seconds.
        metadata: gRPC metadata to send with every read.

    Raises:
        QueryServiceUnavailableError: a read failed.
        WriteTokenRefusedError: the write token belongs to another message log.
        IndexLaggingError: the indexes did not reach the write token in time.
    """
    return await _Builder(stub, user_id, request, time.monotonic() + timeout_s, metadata).build()


class _Builder:
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
        running = Binding(user_id, request.conversation_id, request.at_least)
        others = Binding(user_id, "", request.at_least, request.excluded)
        self._running = BoundTools(running, stub, _BUDGET, request.now, metadata)
        self._others = BoundTools(others, stub, _BUDGET, request.now, metadata)
        self._selected = TokenBudget(request.max_tokens, request.now.tzinfo)

    async def build(self) -> BuiltContext:
        """Read, search and select."""
        latest = await self._latest()
        ranking = await self._search(latest)
        self._select_recent(latest)
        replied_to = await self._replied_to(ranking.items)
        self._select_related(ranking, replied_to)
        self._selected.truncated |= ranking.cut
        return self._to_context(ranking)

    async def _latest(self) -> ToolResult:
        """Return the latest messages of the current conversation, newest first."""
        if not self._request.conversation_id:
            return ToolResult()
        page = self._read_count(self._request.max_tokens // 2, _MAX_READ)
        result = await self._running.call(MESSAGES_LIST, {"page_size": page}, self._remaining_s())
        self._running.check_answered()
        return result

    async def _search(self, latest: ToolResult) -> ToolResult:
        """Rank the messages of all other conversations by the latest turns."""
        query = query_text(self._request.turns or _as_turns(latest.items))
        if not query:
            return ToolResult()
        top_k = self._read_count(self._request.max_tokens, _MAX_RANKED)
        arguments: dict[str, JsonValue] = {"query_text": query, "top_k": top_k}
        result = await self._others.call(HYBRID_SEARCH, arguments, self._remaining_s())
        self._others.check_answered()
        return result

    def _select_recent(self, latest: ToolResult) -> None:
        """Select the newest messages without gaps, except for messages that exceed their share."""
        room = self._request.max_tokens // 2
        share = message_share(room, _RECENT_PARTS)
        for hit in latest.items:
            was_full = self._selected.recent_tokens + share > room
            if not self._selected.add_recent(ContextMessage(hit.message), share, room) and was_full:
                break
        self._selected.truncated |= bool(latest.next_cursor)

    def _select_related(self, ranking: ToolResult, replied_to: Mapping[str, RetrievedMessage]) -> None:
        """Select the best messages that fit. Short messages are shown with the preceding message."""
        room = self._request.max_tokens - self._selected.recent_tokens
        share = message_share(room, _RELATED_PARTS)
        marks = superseding_messages(ranking.relations, {hit.message.message_id for hit in ranking.items})
        shown: set[str] = set()
        for hit in _without_tools(ranking.items):
            message_id = hit.message.message_id
            item = ContextMessage(hit.message, score=hit.score, superseded_by=marks.get(message_id, ""))
            if message_id in shown or not self._selected.add_related(item, share):
                continue
            shown.add(message_id)
            before = replied_to.get(message_id)
            if before is not None and before.message_id not in shown:
                scores = {each.message.message_id: each.score for each in ranking.items}
                question = ContextMessage(before, score=scores.get(before.message_id, 0.0))
                if self._selected.add_related(question, share):
                    shown.add(before.message_id)

    async def _replied_to(self, hits: Sequence[Hit]) -> dict[str, RetrievedMessage]:
        """Return the messages that the best short messages reply to, by the ids of the replies."""
        replies = [hit.message for hit in hits if is_short(hit.message)][:_MAX_REPLIES]
        around = await asyncio.gather(*map(self._preceding_message, replies))
        return {reply.message_id: before for reply, before in zip(replies, around, strict=True) if before is not None}

    async def _preceding_message(self, reply: RetrievedMessage) -> RetrievedMessage | None:
        """Return the preceding message, if another sender sent it in the same conversation shortly before."""
        arguments: dict[str, JsonValue] = {"message_id": reply.message_id, "before": 1, "after": 0}
        result = await self._others.call(NEIGHBORS, arguments, self._remaining_s())
        before = result.items[0].message if result.items else reply
        is_near = reply.ts - before.ts <= _REPLY_WITHIN and before.conversation_id == reply.conversation_id
        return before if is_near and before.speaker != reply.speaker else None

    def _to_context(self, ranking: ToolResult) -> BuiltContext:
        related = _sorted_by_time(_drop_unknown_references(self._selected.related))
        recent = _sorted_by_time(self._selected.recent)
        text = block(related, recent, self._request.now.tzinfo)
        return BuiltContext(
            recent=recent,
            related=related,
            text=text,
            token_count=tokens(text),
            truncated=self._selected.truncated,
            semantic_unavailable=ranking.semantic_unavailable,
            index_lagging=ranking.index_lagging,
        )

    def _read_count(self, room: int, maximum: int) -> int:
        """Return the number of messages to read for a token limit."""
        return min(maximum, max(_MIN_READ, room // _MESSAGE_TOKENS))

    def _remaining_s(self) -> float:
        return max(self._deadline - time.monotonic(), _SHORTEST_CALL_S)


def _as_turns(latest: Sequence[Hit]) -> list[Turn]:
    return [Turn(hit.message.role, hit.message.content) for hit in reversed(latest)]


def _without_tools(hits: Sequence[Hit]) -> Sequence[Hit]:
    """Return the messages of people and assistants; all messages if there are none."""
    return [hit for hit in hits if hit.message.role is not Role.TOOL] or hits


def _drop_unknown_references(items: Sequence[ContextMessage]) -> list[ContextMessage]:
    """Remove references to messages that are not shown."""
    shown = {item.message.message_id for item in items}
    return [item if item.superseded_by in shown else replace(item, superseded_by="") for item in items]


def _sorted_by_time(items: Sequence[ContextMessage]) -> tuple[ContextMessage, ...]:
    by_id = sorted(items, key=lambda item: item.message.message_id.encode())
    return tuple(sorted(by_id, key=attrgetter("message.ts")))
