"""The reply of a recall as text for an assistant's prompt, and its evidence in the order of time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Final

from nomemory.client.messages import role_name
from nomemory.client.prompt_block import MAX_TOKENS, Block, RecalledMessage, marks
from nomemory.v1 import recall_service_pb2 as pb

_VERDICT: Final = "VERDICT_"


def as_prompt(reply: pb.RecallResponse, *, max_tokens: int = MAX_TOKENS) -> str:
    """Return the block to paste into a prompt: whole messages with date, speaker and id, oldest first, fenced as data.

    Args:
        reply: of a recall.
        max_tokens: most tokens of the block, as `nomemory.client.token_estimate` counts them; at least 400. What does
            not fit is left out, the likeliest message last.

    Raises:
        ValueError: `max_tokens` is too small.
    """
    view = reply.memory_view
    statements = [*view.preferences, *view.profile, *view.constraints]
    found = marks(statements, reply.conflicts, frozenset(_passed_on(statements)))
    verdict = pb.Verdict.Name(reply.verdict).removeprefix(_VERDICT).lower() if _is_known(reply.verdict) else ""
    return Block([_message(one) for one in reply.evidence], verdict, found).text(max_tokens)


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


def _is_known(verdict: pb.Verdict.ValueType) -> bool:
    return verdict in pb.Verdict.values()
