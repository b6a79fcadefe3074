"""What a tool answers a model: replies of the contract as plain JSON. What is empty is left out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC
from itertools import islice
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.client.errors import NoMemoryError
from nomemory.client.messages import role_name
from nomemory.client.prompt_block import RecalledMessage
from nomemory.client.search_hits import lexical_hits
from nomemory.v1 import ingest_service_pb2, message_pb2
from nomemory.v1 import query_service_pb2 as query
from nomemory.v1 import recall_service_pb2 as recall

Json = dict[str, Any]

_NAMES: Final = 5
_NAME_CHARS: Final = 40
"""How many unknown arguments are named, and how much of each: a model may make up any."""

CONTENT_CHARS: Final = 4_000
"""What is shown of a message."""


def page(reply: query.ListMessagesResponse) -> Json:
    """Show a page by time."""
    return _some(messages=[message(one) for one in reply.items], next_cursor=reply.next_cursor)


def lexical_page(reply: query.LexicalSearchResponse) -> Json:
    """Show a page of a search by words."""
    found = [message(hit.message, hit.score) for hit in lexical_hits(reply)]
    return _some(messages=found, next_cursor=reply.next_cursor, index_lagging=reply.index_lagging)


def ranked(reply: query.HybridSearchResponse | query.SemanticSearchResponse) -> Json:
    """Show what a search by meaning or by everything found."""
    found = [message(item.message, item.score) for item in reply.items]
    return _some(messages=found, index_lagging=reply.index_lagging)


def around(reply: query.GetNeighborsResponse) -> Json:
    """Show a neighbourhood."""
    return {"messages": [message(one) for one in reply.items]}


def recalled(reply: recall.RecallResponse, shown: Iterable[RecalledMessage]) -> Json:
    """Show a recall; of its evidence the messages that a block for a prompt shows, and of each as much."""
    view = reply.memory_view
    parts = {one.message_id: one for one in shown}
    evidence = [(one, parts[one.message.message_id]) for one in reply.evidence if one.message.message_id in parts]
    return {
        "verdict": _word(recall.Verdict.Name(reply.verdict)),
        "preferences": _statements(view.preferences),
        "profile": _statements(view.profile),
        "constraints": _statements(view.constraints),
        "conflicts": [
            {"earlier": _statement(one.earlier), "later": _statement(one.later), "possible": one.possible}
            for one in reply.conflicts
        ],
        "evidence": [_said(one.message, part.content, part.cut, one.score) for one, part in evidence],
        "notes": list(reply.limits.notes),
    }


def context(reply: recall.BuildContextResponse) -> Json:
    """Show the messages of a context."""
    return _some(
        recent=[_of_context(item) for item in reply.recent],
        related=[_of_context(item) for item in reply.related],
        token_count=reply.token_count,
        index_lagging=reply.index_lagging,
    )


def _of_context(item: recall.ContextMessage) -> Json:
    said = _said(item.message, item.message.content, item.truncated, item.score or None)
    return said | _some(superseded_by=item.superseded_by)


def remembered(reply: ingest_service_pb2.WriteMessagesResponse) -> Json:
    """Show what a write of one message did."""
    (one,) = reply.results
    outcome = ingest_service_pb2.WriteOutcome.Name(one.outcome).removeprefix("WRITE_")
    return {"message_id": one.message_id, "outcome": _word(outcome)}


def message(given: message_pb2.ChatMessage, score: float | None = None) -> Json:
    """Show a message; of a long one the beginning."""
    return _said(given, given.content[:CONTENT_CHARS], len(given.content) > CONTENT_CHARS, score)


def instant(moment: Timestamp) -> str:
    """Show a time, in RFC 3339."""
    return moment.ToDatetime(tzinfo=UTC).isoformat().replace("+00:00", "Z")


def refusal(error: NoMemoryError) -> str:
    """Say for a model why a call did not succeed."""
    violations = "".join(f"; {one.field}: {one.description}" for one in error.violations)
    again = "" if error.retry_after is None else f"; try again after {error.retry_after:g} s"
    return f"{error.code.name}: {error.message}{violations}{again}"


def unknown_arguments(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Say for a model which arguments a tool does not have, and which it has. The user is never one of them."""
    shown = ", ".join(json.dumps(one[:_NAME_CHARS]) for one in islice(unknown, _NAMES))
    return f"unknown argument {shown}; it takes {', '.join(known)}"


def _said(given: message_pb2.ChatMessage, content: str, truncated: bool, score: float | None) -> Json:  # noqa: FBT001 - beside the content that it is of
    return _some(
        message_id=given.message_id,
        said_at=instant(given.ts),
        role=role_name(given.role),
        name=given.name,
        conversation_id=given.conversation_id,
        content=content,
        truncated=truncated,
        score=score,
        retracts=list(given.retracts) or None,
        retracted_by=given.retracted_by,
    )


def _some(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value is not None and value is not False and value != ""}


def _statements(given: Iterable[recall.Statement]) -> list[Json]:
    return [_statement(one) for one in given]


def _statement(given: recall.Statement) -> Json:
    return _some(
        text=given.text,
        citations=[
            {"message_id": one.message_id, "quote": one.quote, "said_at": instant(one.ts)} for one in given.citations
        ],
        superseded_by=given.superseded_by,
        attribution=_word(recall.Attribution.Name(given.attribution)),
    )


def _word(enum_name: str) -> str:
    """Return what an enum's value says, without the enum's name: VERDICT_SUPPORTED is `supported`."""
    return enum_name.partition("_")[2].lower()
