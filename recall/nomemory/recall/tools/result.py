"""Results of tool calls, and conversion from API messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.contract_roles import decode_role
from nomemory.recall.model.evidence import MessageRelation, RetrievedMessage
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.model.step import JsonValue
from nomemory.recall.model.sufficiency import Sufficiency
from nomemory.text.time_range import TimeRange
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_COUNTED_CHARS: Final = 4_000
"""Maximum number of characters of a message that count toward the budget of a call."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Hit:
    """A message in a search result. `score` is 0 if the tool returns no scores.

    `semantic_z_score` is the semantic similarity to the question, in standard deviations above the mean of the user's
    messages; 0 if unknown.
    """

    message: RetrievedMessage
    score: float
    semantic_z_score: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call.

    Attributes:
        items: the hits. Hits of a search are sorted by score, best first; hits of other tools are sorted by time.
        next_cursor: the cursor for the next page, or empty.
        index_lagging: whether some stored messages were not searchable yet.
        truncated: whether messages were omitted because of the budget or the size limit of a response.
        dropped_arguments: number of arguments that were removed because they named a user.
        observation: a description of the result for the planner.
        arguments: arguments of the call, as shown in a step.
        scope: the scope of the call; None if the call failed or has no scope.
        word_hit_count: number of items that contain words of the query; None if unknown.
        query_coverage: the largest share of the query's words that one of the best items contains, 0 to 1.
        semantic_unavailable: whether a hybrid search ran without semantic search.
        semantic_disabled: whether the call showed that semantic search is unavailable.
        sufficiency: estimate of whether the message log contains the answer; None if unknown.
        relations: pairs of related messages among the hits.
        empty_time_ranges: time ranges in the query that contain no messages.
    """

    items: tuple[Hit, ...] = ()
    next_cursor: str = ""
    index_lagging: bool = False
    truncated: bool = False
    dropped_arguments: int = 0
    observation: str = ""
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    scope: SearchScope | None = None
    succeeded: bool = True
    word_hit_count: int | None = None
    query_coverage: float = 0.0
    semantic_unavailable: bool = False
    semantic_disabled: bool = False
    sufficiency: Sufficiency | None = None
    relations: tuple[MessageRelation, ...] = ()
    empty_time_ranges: tuple[TimeRange, ...] = ()


def decode_message(message: message_pb2.ChatMessage) -> RetrievedMessage:
    """Convert a message of the API."""
    ts = message.ts  # The generic protobuf conversion takes three times as long.
    return RetrievedMessage(
        message_id=message.message_id,
        ts=_EPOCH + timedelta(seconds=ts.seconds, microseconds=ts.nanos // 1000),
        role=decode_role(message.role),
        content=message.content,
        name=message.name,
        conversation_id=message.conversation_id,
        retracts=tuple(message.retracts),
        retracted_by=message.retracted_by,
    )


def limit_hits_to_budget(hits: Sequence[Hit], budget: Budget) -> list[Hit]:
    """Return as many hits as the budget allows for one call, and at least one."""
    kept: list[Hit] = []
    remaining_chars = budget.result_chars
    for hit in hits:
        size = min(len(hit.message.content), budget.evidence_chars, _COUNTED_CHARS)
        if len(kept) < budget.result_items and (size <= remaining_chars or not kept):
            kept.append(hit)
            remaining_chars -= size
    return kept


def decode_hit(item: pb.HybridItem) -> Hit:
    """Convert a hit of HybridSearch."""
    return Hit(decode_message(item.message), item.score, item.explanation.semantic_z_score)


def decode_relation(encoded: pb.MessageRelation) -> MessageRelation:
    """Convert a relation between messages from the API."""
    return MessageRelation(
        encoded.earlier_message_id, encoded.later_message_id, encoded.semantic_z_score, encoded.shared_terms
    )
