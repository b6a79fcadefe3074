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


def visible_step(step: Step) -> Step:
    """Return a step that expects only the fields that tools return."""
    shape = _shape(step)
    expected = {key: _select(shape, step[key]) for key in ("reply", "replies", "first", "last") if key in step}
    return {**step, **expected}


def visible_outcome(step: Step, outcome: Outcome) -> Outcome:
    """Return the part of an outcome that tools return."""
    return {"replies": _select(_shape(step), outcome["replies"])} if "replies" in outcome else outcome


def _shape(step: Step) -> Any:  # noqa: ANN401 - nested
    return _MESSAGE if step.get("all") else _SHAPES[step["call"]]


def _select(shape: Any, value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_select(shape, item) for item in value]
    if shape is _LEAF or not isinstance(value, dict):
        return value
    return {name: _select(shape[name], item) for name, item in value.items() if name in shape}


def reply(call: str, result: Json) -> Json:
    """Convert a tool result to the reply of an RPC method, without empty fields."""
    if call == "Recall":
        return _recall_reply(result)
    if call == "BuildContext":
        parts = {name: [{"message": _message(item)} for item in result[name]] for name in ("recent", "related")}
        return _non_empty(**parts, tokenCount=result["token_count"])
    if call == "WriteMessages":
        outcome = f"WRITE_OUTCOME_{result['outcome'].upper()}"
        return {"results": [{"messageId": result["message_id"], "outcome": outcome}]}
    if call == "DeleteMessages":
        return _non_empty(deleted=str(result["deleted"] or ""), missingMessageIds=result["missing_message_ids"])
    messages = result["messages"]
    items = (
        [_scored(message) for message in messages]
        if _SHAPES[call] is _SCORED
        else [_message(message) for message in messages]
    )
    scores = [
        {"messageId": message["message_id"], "score": message["score"]}
        for message in messages
        if call == "LexicalSearch"
    ]
    return _non_empty(
        items=items, scores=scores, nextCursor=result["next_cursor"], indexLagging=result["index_lagging"] or None
    )


def _recall_reply(result: Json) -> Json:
    view = {name: [_statement(item) for item in result[name]] for name in ("preferences", "profile", "constraints")}
    return _non_empty(
        verdict=f"VERDICT_{result['verdict'].upper()}",
        memoryView=_non_empty(**view),
        conflicts=[
            _non_empty(
                earlier=_statement(item["earlier"]), later=_statement(item["later"]), possible=item["possible"] or None
            )
            for item in result["conflicts"]
        ],
        evidence=[_scored(item) for item in result["evidence"]],
    )


def _scored(message: Json) -> Json:
    return _non_empty(message=_message(message), score=message["score"])


def _message(message: Json) -> Json:
    return _non_empty(
        messageId=message["message_id"],
        ts=message["said_at"],
        role=f"ROLE_{message['role'].upper()}",
        name=message["name"],
        conversationId=message["conversation_id"],
        content=message["content"],
        retracts=message["retracts"],
        retractedBy=message["retracted_by"],
    )


def _statement(statement: Json) -> Json:
    citations = [
        {"messageId": item["message_id"], "quote": item["quote"], "ts": item["said_at"]}
        for item in statement["citations"]
    ]
    return _non_empty(
        text=statement["text"],
        citations=citations,
        supersededBy=statement["superseded_by"],
        attribution=f"ATTRIBUTION_{statement['attribution'].upper()}",
    )


def _non_empty(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
