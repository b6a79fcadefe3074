"""Helpers that write messages and run hybrid searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chat_messages import new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q

if TYPE_CHECKING:
    from running_server import Server

MINUTE, DAY = 60.0, 86_400.0
EAST, NORTH, WEST = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (-1.0, 0.0, 0.0, 0.0)

SMALL_TALK = (
    "Good morning! How are you today?",
    "Fine, thanks, a little tired.",
    "The weather has been awful lately.",
    "I watched a film about the sea last night.",
    "What did you have for lunch?",
    "Noodles with mushrooms, again.",
    "今天地铁特别挤。",
    "周末想去爬山。",
    "My bicycle has a flat tyre.",
    "Let us talk tomorrow.",
)


def write(server: Server, messages: Sequence[m.ChatMessage], **how: object) -> str:
    """Write a batch; return its write token."""
    request = i.WriteMessagesRequest(messages=messages, **how)  # type: ignore[arg-type]  # whatever a test says
    return server.ingest.WriteMessages(request).write_token


def delete(server: Server, user: str, *message_ids: str) -> str:
    """Delete messages; return the write token."""
    return server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=message_ids)).write_token


def ask(
    server: Server, user: str, text: str, at_least: str = "", *, explain: bool = False, **fields: object
) -> q.HybridSearchResponse:
    """Run a hybrid search."""
    request = q.HybridSearchRequest(user_id=user, query_text=text, at_least=at_least, explain=explain, **fields)  # type: ignore[arg-type]  # as above
    return server.query.HybridSearch(request)


def result_ids(answer: q.HybridSearchResponse) -> list[str]:
    """Return the ids of the results, best first."""
    return [item.message.message_id for item in answer.items]


def until(seconds: float, since: float | None = None) -> m.Filter:
    """Return a filter for messages before a time."""
    message_filter = m.Filter()
    message_filter.time_range.until.FromMicroseconds(round(seconds * 1e6))
    if since is not None:
        message_filter.time_range.since.FromMicroseconds(round(since * 1e6))
    return message_filter


def chat(user: str, count: int, *, start: float = 0, **fields: object) -> list[m.ChatMessage]:
    """Return small talk with one message per minute and alternating roles."""
    roles = (m.ROLE_USER, m.ROLE_ASSISTANT)
    return [
        new_message(
            user, f"talk{n:05}", f"{SMALL_TALK[n % len(SMALL_TALK)]} {n}", start + n * MINUTE, roles[n % 2], **fields
        )
        for n in range(count)
    ]
