"""The result of a tool call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.contract_roles import role_of
from nomemory.recall.model.evidence import Relation, Retrieved
from nomemory.recall.model.search_scope import SearchScope
from nomemory.recall.model.step import JsonValue
from nomemory.recall.model.sufficiency import Sufficiency
from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb

_COUNTED_CHARS: Final = 4_000
"""What a long message counts at most: planners are shown its beginning."""
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Hit:
    """A message and its score in the call that brought it: 0 where a call has no scores.

    `deviations` is how much nearer it is to the question than the user's messages usually are; 0: that is not said.
    """

    message: Retrieved
    score: float
    deviations: float = 0.0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a call.

    Attributes:
        items: best first, or in the tool's order.
        next_cursor: continues the listing; empty: there is no more.
        index_lagging: messages were stored but not searchable yet.
        cut: messages were left out to fit the host's budget.
        dropped: arguments that named a user and were taken out.
        observation: what a planner should know, in words.
        arguments: what the tool was called with.
        scope: where it looked; None for what is no search.
        answered: false if the call was refused or failed.
        word_hits: how many of the items hold words of the query; None where a call does not say.
        coverage: how much of the query's words the best of the first items holds, 0 to 1.
        semantic_unavailable: a search that should have looked for meaning, too, did not.
        meaning_off: the call showed, or met, that meaning cannot be searched.
        sufficiency: how likely it is that the log answers; None where a call does not say.
        relations: which of the messages speak of the same thing.
    """

    items: tuple[Hit, ...] = ()
    next_cursor: str = ""
    index_lagging: bool = False
    cut: bool = False
    dropped: int = 0
    observation: str = ""
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    scope: SearchScope | None = None
    answered: bool = True
    word_hits: int | None = None
    coverage: float = 0.0
    semantic_unavailable: bool = False
    meaning_off: bool = False
    sufficiency: Sufficiency | None = None
    relations: tuple[Relation, ...] = ()


def retrieved(message: message_pb2.ChatMessage) -> Retrieved:
    """Decode one message."""
    ts = message.ts  # protobuf's own conversion takes three times as long
    return Retrieved(
        message_id=message.message_id,
        ts=_EPOCH + timedelta(seconds=ts.seconds, microseconds=ts.nanos // 1000),
        role=role_of(message.role),
        content=message.content,
        name=message.name,
        conversation_id=message.conversation_id,
        retracts=tuple(message.retracts),
        retracted_by=message.retracted_by,
    )


def fitting(found: Sequence[Hit], budget: Budget) -> list[Hit]:
    """Return what fits the budget of one call, at least one hit."""
    kept: list[Hit] = []
    room = budget.result_chars
    for hit in found:
        size = min(len(hit.message.content), budget.evidence_chars, _COUNTED_CHARS)
        if len(kept) < budget.result_items and (size <= room or not kept):
            kept.append(hit)
            room -= size
    return kept


def ranked_hit(item: pb.HybridItem) -> Hit:
    """Return what a hybrid search has found, with its score and how far its meaning stands out."""
    return Hit(retrieved(item.message), item.score, item.explanation.semantic_z_score)


def relation(found: pb.MessageRelation) -> Relation:
    """Return how two messages of a reply stand to each other."""
    return Relation(found.earlier_message_id, found.later_message_id, found.semantic_z_score, found.shared_terms)
