"""Conversion of tool results to API replies, and the reply fields that tools return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proofs.conformance.expectation import Outcome, Step
from proofs.conformance.play import Json

_LEAF: Final = None
"""Marks a field that tools return unchanged."""
_MESSAGE: Final = dict.fromkeys(
    ("messageId", "ts", "role", "name", "conversationId", "content", "retracts", "retractedBy"), _LEAF
)
_SCORED: Final = {"items": {"message": _MESSAGE, "score": _LEAF}, "indexLagging": _LEAF}
_CONTEXT_MESSAGE: Final = {"message": _MESSAGE}
_CITATIONS: Final = {"messageId": _LEAF, "quote": _LEAF, "ts": _LEAF}
_STATEMENT: Final = {"text": _LEAF, "citations": _CITATIONS, "supersededBy": _LEAF, "attribution": _LEAF}
_SHAPES: Final[Mapping[str, Any]] = {
    "Recall": {
        "verdict": _LEAF,
        "memoryView": {"preferences": _STATEMENT, "profile": _STATEMENT, "constraints": _STATEMENT},
        "conflicts": {"earlier": _STATEMENT, "later": _STATEMENT, "possible": _LEAF},
        "evidence": {"message": _MESSAGE, "score": _LEAF},
    },
    "BuildContext": {"recent": _CONTEXT_MESSAGE, "related": _CONTEXT_MESSAGE, "tokenCount": _LEAF},
    "HybridSearch": _SCORED,
    "SemanticSearch": _SCORED,
    "LexicalSearch": {
        "items": _MESSAGE,
        "scores": {"messageId": _LEAF, "score": _LEAF},
        "nextCursor": _LEAF,
        "indexLagging": _LEAF,
    },
    "ListMessages": {"items": _MESSAGE, "nextCursor": _LEAF},
    "GetNeighbors": {"items": _MESSAGE},
    "WriteMessages": {"results": {"messageId": _LEAF, "outcome": _LEAF}},
    "DeleteMessages": {"deleted": _LEAF, "missingMessageIds": _LEAF},
}
"""The reply fields that tools return, by RPC method; a list has the shape of its items."""


def select_visible_expectations(step: Step) -> Step:
    """Return a step that expects only the fields that tools return."""
    shape = _build_reply_shape(step)
    expected = {key: _select_fields(shape, step[key]) for key in ("reply", "replies", "first", "last") if key in step}
    return {**step, **expected}


def select_visible_outcome(step: Step, outcome: Outcome) -> Outcome:
    """Return the part of an outcome that tools return."""
    return (
        {"replies": _select_fields(_build_reply_shape(step), outcome["replies"])} if "replies" in outcome else outcome
    )


def _build_reply_shape(step: Step) -> Any:  # noqa: ANN401 - a nested mapping
    return _MESSAGE if step.get("all") else _SHAPES[step["call"]]


def _select_fields(shape: Any, value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_select_fields(shape, item) for item in value]
    if shape is _LEAF or not isinstance(value, dict):
        return value
    return {name: _select_fields(shape[name], item) for name, item in value.items() if name in shape}


def to_api_reply(call: str, result: Json) -> Json:
    """Convert a tool result to the reply of an RPC method, without empty fields."""
    if call == "Recall":
        return _to_recall_reply(result)
    if call == "BuildContext":
        parts = {name: [{"message": _to_message(item)} for item in result[name]] for name in ("recent", "related")}
        return _drop_empty_fields(**parts, tokenCount=result["token_count"])
    if call == "WriteMessages":
        outcome = f"WRITE_OUTCOME_{result['outcome'].upper()}"
        return {"results": [{"messageId": result["message_id"], "outcome": outcome}]}
    if call == "DeleteMessages":
        return _drop_empty_fields(deleted=str(result["deleted"] or ""), missingMessageIds=result["missing_message_ids"])
    messages = result["messages"]
    items = (
        [_to_scored_item(message) for message in messages]
        if _SHAPES[call] is _SCORED
        else [_to_message(message) for message in messages]
    )
    scores = [
        {"messageId": message["message_id"], "score": message["score"]}
        for message in messages
        if call == "LexicalSearch"
    ]
    return _drop_empty_fields(
        items=items, scores=scores, nextCursor=result["next_cursor"], indexLagging=result["index_lagging"] or None
    )


def _to_recall_reply(result: Json) -> Json:
    view = {name: [_to_statement(item) for item in result[name]] for name in ("preferences", "profile", "constraints")}
    return _drop_empty_fields(
        verdict=f"VERDICT_{result['verdict'].upper()}",
        memoryView=_drop_empty_fields(**view),
        conflicts=[
            _drop_empty_fields(
                earlier=_to_statement(item["earlier"]),
                later=_to_statement(item["later"]),
                possible=item["possible"] or None,
            )
            for item in result["conflicts"]
        ],
        evidence=[_to_scored_item(item) for item in result["evidence"]],
    )


def _to_scored_item(message: Json) -> Json:
    return _drop_empty_fields(message=_to_message(message), score=message["score"])


def _to_message(message: Json) -> Json:
    return _drop_empty_fields(
        messageId=message["message_id"],
        ts=message["said_at"],
        role=f"ROLE_{message['role'].upper()}",
        name=message["name"],
        conversationId=message["conversation_id"],
        content=message["content"],
        retracts=message["retracts"],
        retractedBy=message["retracted_by"],
    )


def _to_statement(statement: Json) -> Json:
    citations = [
        {"messageId": item["message_id"], "quote": item["quote"], "ts": item["said_at"]}
        for item in statement["citations"]
    ]
    return _drop_empty_fields(
        text=statement["text"],
        citations=citations,
        supersededBy=statement["superseded_by"],
        attribution=f"ATTRIBUTION_{statement['attribution'].upper()}",
    )


def _drop_empty_fields(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
