"""Convert API responses to JSON that tools return to an LLM. Unset fields of messages and statements are omitted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC
from itertools import islice
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.client.errors import NoMemoryError
from nomemory.client.messages import to_role_name
from nomemory.client.prompt_block import RecalledMessage
from nomemory.client.search_hits import lexical_hits
from nomemory.v1 import ingest_service_pb2, message_pb2
from nomemory.v1 import query_service_pb2 as query
from nomemory.v1 import recall_service_pb2 as recall

Json = dict[str, Any]

_MAX_NAMES: Final = 5
_MAX_NAME_CHARS: Final = 40
"""Limits on the unknown argument names in an error message: their number and their length."""

MAX_CONTENT_CHARS: Final = 4_000
"""Maximum number of characters of a message in a tool result."""


def page_to_json(reply: query.ListMessagesResponse) -> Json:
    """Convert a page of a message listing."""
    return _drop_empty_values(messages=[message_to_json(item) for item in reply.items], next_cursor=reply.next_cursor)


def lexical_page_to_json(reply: query.LexicalSearchResponse) -> Json:
    """Convert a page of a lexical search."""
    messages = [message_to_json(hit.message, hit.score) for hit in lexical_hits(reply)]
    return _drop_empty_values(messages=messages, next_cursor=reply.next_cursor, index_lagging=reply.index_lagging)


def ranking_to_json(reply: query.HybridSearchResponse | query.SemanticSearchResponse) -> Json:
    """Convert the hits of a semantic or hybrid search."""
    messages = [message_to_json(item.message, item.score) for item in reply.items]
    return _drop_empty_values(messages=messages, index_lagging=reply.index_lagging)


def neighbors_to_json(reply: query.GetNeighborsResponse) -> Json:
    """Convert the response of `neighbors` to JSON."""
    return {"messages": [message_to_json(item) for item in reply.items]}


def recall_to_json(reply: recall.RecallResponse, shown: Iterable[RecalledMessage]) -> Json:
    """Convert the response of a recall. The evidence is reduced to the messages and excerpts in `shown`."""
    view = reply.memory_view
    parts = {part.message_id: part for part in shown}
    evidence = [(item, parts[item.message.message_id]) for item in reply.evidence if item.message.message_id in parts]
    return {
        "verdict": _to_enum_label(recall.Verdict.Name(reply.verdict)),
        "preferences": _statements_to_json(view.preferences),
        "profile": _statements_to_json(view.profile),
        "constraints": _statements_to_json(view.constraints),
        "conflicts": [
            {
                "earlier": _statement_to_json(conflict.earlier),
                "later": _statement_to_json(conflict.later),
                "possible": conflict.possible,
            }
            for conflict in reply.conflicts
        ],
        "evidence": [_build_message_json(item.message, part.content, part.cut, item.score) for item, part in evidence],
        "notes": [note.text for note in reply.limits.notes],
    }


_VERDICTS: Final[Mapping[recall.Verdict.ValueType, str]] = {
    recall.VERDICT_SUPPORTED: "the messages answer the question",
    recall.VERDICT_POSSIBLE: "the messages may answer the question; no model has read them",
    recall.VERDICT_CONFLICTING: "the messages contradict each other",
    recall.VERDICT_INSUFFICIENT: "the messages probably do not answer the question",
    recall.VERDICT_PENDING: "the messages do not answer the question, and the latest ones are not searchable yet",
}


def format_recall(reply: recall.RecallResponse, block: str) -> str:
    """Format the response of a recall as text for an LLM: the verdict, then the prompt block."""
    return f"Verdict: {_to_enum_label(recall.Verdict.Name(reply.verdict))} ({_VERDICTS[reply.verdict]}).\n{block}"


def context_to_json(reply: recall.BuildContextResponse) -> Json:
    """Convert the response of `build_context` to JSON."""
    return _drop_empty_values(
        recent=[_context_message_to_json(item) for item in reply.recent],
        related=[_context_message_to_json(item) for item in reply.related],
        token_count=reply.token_count,
        index_lagging=reply.index_lagging,
    )


def _context_message_to_json(item: recall.ContextMessage) -> Json:
    fields = _build_message_json(item.message, item.message.content, item.truncated, item.score or None)
    return fields | _drop_empty_values(superseded_by=item.superseded_by)


def write_to_json(reply: ingest_service_pb2.WriteMessagesResponse) -> Json:
    """Convert the response of a write with one message to JSON."""
    (result,) = reply.results
    outcome = ingest_service_pb2.WriteOutcome.Name(result.outcome).removeprefix("WRITE_")
    return {"message_id": result.message_id, "outcome": _to_enum_label(outcome)}


def deletion_to_json(reply: ingest_service_pb2.DeleteMessagesResponse) -> Json:
    """Convert the response of a deletion by message ids to JSON."""
    return {"deleted": reply.deleted, "missing_message_ids": list(reply.missing_message_ids)}


def message_to_json(source: message_pb2.ChatMessage, score: float | None = None) -> Json:
    """Convert a message. Content is truncated to `MAX_CONTENT_CHARS` characters."""
    return _build_message_json(
        source, source.content[:MAX_CONTENT_CHARS], len(source.content) > MAX_CONTENT_CHARS, score
    )


def format_instant(moment: Timestamp) -> str:
    """Format a time as RFC 3339 text."""
    return moment.ToDatetime(tzinfo=UTC).isoformat().replace("+00:00", "Z")


def describe_error(error: NoMemoryError) -> str:
    """Return an error message for an LLM."""
    violations = "".join(f"; {violation.field}: {violation.description}" for violation in error.violations)
    again = "" if error.retry_after is None else f"; retry after {error.retry_after:g} s"
    return f"{error.code.name}: {error.message}{violations}{again}"


def describe_unknown_arguments(unknown: Iterable[str], supported: Iterable[str]) -> str:
    """Return an error message that names the unknown and the supported arguments."""
    shown = ", ".join(json.dumps(item[:_MAX_NAME_CHARS]) for item in islice(unknown, _MAX_NAMES))
    return f"unknown argument {shown}; supported: {', '.join(supported)}"


def _build_message_json(source: message_pb2.ChatMessage, content: str, truncated: bool, score: float | None) -> Json:  # noqa: FBT001 - always passed by position
    return _drop_empty_values(
        message_id=source.message_id,
        said_at=format_instant(source.ts),
        role=to_role_name(source.role),
        name=source.name,
        conversation_id=source.conversation_id,
        content=content,
        truncated=truncated,
        score=score,
        retracts=list(source.retracts) or None,
        retracted_by=source.retracted_by,
    )


def _drop_empty_values(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value is not None and value is not False and value != ""}


def _statements_to_json(statements: Iterable[recall.Statement]) -> list[Json]:
    return [_statement_to_json(statement) for statement in statements]


def _statement_to_json(statement: recall.Statement) -> Json:
    return _drop_empty_values(
        text=statement.text,
        citations=[
            {"message_id": citation.message_id, "quote": citation.quote, "said_at": format_instant(citation.ts)}
            for citation in statement.citations
        ],
        superseded_by=statement.superseded_by,
        attribution=_to_enum_label(recall.Attribution.Name(statement.attribution)),
    )


def _to_enum_label(enum_name: str) -> str:
    """Return the name of an enum value in lower case without its prefix, such as `supported` for VERDICT_SUPPORTED."""
    return enum_name.partition("_")[2].lower()
