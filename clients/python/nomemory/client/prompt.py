"""The reply of a recall as text for an assistant's prompt, and its evidence in the order of time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nomemory.client.messages import role_name
from nomemory.client.prompt_block import MAX_TOKENS, Block, RecalledMessage, marks
from nomemory.v1 import recall_service_pb2 as pb


def as_prompt(
    reply: pb.RecallResponse, *, max_tokens: int = MAX_TOKENS, question: str = "", time_zone: str = ""
) -> str:
    """Return the block to paste into a prompt: messages with date, speaker and id, oldest first, fenced as data.

    Ask the recall for as many messages as may fit: `evidence_messages=PROMPT_MESSAGES`.

    Args:
        reply: of a recall.
        max_tokens: most tokens of the block, as `nomemory.client.token_estimate` counts them; at least 400. Of long
            messages the passages that matter most are shown; what still does not fit is left out, the likeliest last.
        question: what was asked; its words choose the passages of long messages, beside what the reply quotes.
        time_zone: of the dates in the block, an IANA name. Empty, or unknown to this machine: UTC.

    Raises:
        ValueError: `max_tokens` is too small.
    """
    return prompt_block(reply, question, time_zone).text(max_tokens)


def prompt_block(reply: pb.RecallResponse, question: str = "", time_zone: str = "") -> Block:
    """Return what `as_prompt` writes."""
    view = reply.memory_view
    statements = [*view.preferences, *view.profile, *view.constraints]
    found = marks(statements, reply.conflicts, frozenset(_passed_on(statements)))
    messages = [_message(one) for one in reply.evidence]
    return Block(messages, found, question, _zone(time_zone), reply.limits.index_behind)


def oldest_first(reply: pb.RecallResponse) -> list[pb.EvidenceMessage]:
    """Return the evidence in the order of time; in the reply it stands best first."""
    return sorted(reply.evidence, key=lambda one: (one.message.ts.ToNanoseconds(), one.message.message_id))


def _message(item: pb.EvidenceMessage) -> RecalledMessage:
    message = item.message
    speaker = message.name or role_name(message.role)
    return RecalledMessage(
        message.message_id, message.ts.ToDatetime(tzinfo=UTC), speaker, message.content, item.truncated
    )


def _passed_on(statements: Iterable[pb.Statement]) -> Iterable[str]:
    for statement in statements:
        if statement.attribution == pb.ATTRIBUTION_QUOTED:
            yield from (citation.message_id for citation in statement.citations)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
