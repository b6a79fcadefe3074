"""What a tool answers in the form of the contract, and what of a reply of the contract a tool shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proofs.conformance.expectation import Outcome, Step
from proofs.conformance.play import Json

_SHOWN: Final = None
"""Stands for a value that is shown as it is."""
_MESSAGE: Final = dict.fromkeys(
    ("messageId", "ts", "role", "name", "conversationId", "content", "retracts", "retractedBy"), _SHOWN
)
_SCORED: Final = {"items": {"message": _MESSAGE, "score": _SHOWN}, "indexLagging": _SHOWN}
_CITATIONS: Final = {"messageId": _SHOWN, "quote": _SHOWN, "ts": _SHOWN}
_STATEMENT: Final = {"text": _SHOWN, "citations": _CITATIONS, "supersededBy": _SHOWN, "attribution": _SHOWN}
_SHAPES: Final[Mapping[str, Any]] = {
    "Recall": {
        "verdict": _SHOWN,
        "memoryView": {"preferences": _STATEMENT, "profile": _STATEMENT, "constraints": _STATEMENT},
        "conflicts": {"earlier": _STATEMENT, "later": _STATEMENT, "possible": _SHOWN},
        "evidence": {"message": _MESSAGE, "score": _SHOWN},
    },
    "HybridSearch": _SCORED,
    "SemanticSearch": _SCORED,
    "LexicalSearch": {
        "items": _MESSAGE,
        "scores": {"messageId": _SHOWN, "score": _SHOWN},
        "nextCursor": _SHOWN,
        "indexLagging": _SHOWN,
    },
    "ListMessages": {"items": _MESSAGE, "nextCursor": _SHOWN},
    "GetNeighbors": {"items": _MESSAGE},
    "WriteMessages": {"results": {"messageId": _SHOWN, "outcome": _SHOWN}},
}
"""The fields of a reply that a tool shows. A list has the shape of what is in it."""


def shown_of_step(step: Step) -> Step:
    """Return a step that expects only what a tool shows."""
    shape = _shape(step)
    expected = {key: _shown(shape, step[key]) for key in ("reply", "replies", "first", "last") if key in step}
    return {**step, **expected}


def shown_of_outcome(step: Step, outcome: Outcome) -> Outcome:
    """Return what a tool shows of what a client got."""
    return {"replies": _shown(_shape(step), outcome["replies"])} if "replies" in outcome else outcome


def _shape(step: Step) -> Any:  # noqa: ANN401 - nested
    return _MESSAGE if step.get("all") else _SHAPES[step["call"]]


def _shown(shape: Any, value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_shown(shape, item) for item in value]
    if shape is _SHOWN or not isinstance(value, dict):
        return value
    return {name: _shown(shape[name], item) for name, item in value.items() if name in shape}


def reply(call: str, answered: Json) -> Json:
    """Return what a tool answered as the reply of a call, without what is empty."""
    if call == "Recall":
        return _recalled(answered)
    if call == "WriteMessages":
        outcome = f"WRITE_OUTCOME_{answered['outcome'].upper()}"
        return {"results": [{"messageId": answered["message_id"], "outcome": outcome}]}
    messages = answered["messages"]
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
    return _some(
        items=items, scores=scores, nextCursor=answered["next_cursor"], indexLagging=answered["index_lagging"] or None
    )


def _recalled(answered: Json) -> Json:
    view = {part: [_statement(item) for item in answered[part]] for part in ("preferences", "profile", "constraints")}
    return _some(
        verdict=f"VERDICT_{answered['verdict'].upper()}",
        memoryView=_some(**view),
        conflicts=[
            _some(
                earlier=_statement(item["earlier"]), later=_statement(item["later"]), possible=item["possible"] or None
            )
            for item in answered["conflicts"]
        ],
        evidence=[_scored(item) for item in answered["evidence"]],
    )


def _scored(message: Json) -> Json:
    return _some(message=_message(message), score=message["score"])


def _message(message: Json) -> Json:
    return _some(
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
    return _some(
        text=statement["text"],
        citations=citations,
        supersededBy=statement["superseded_by"],
        attribution=f"ATTRIBUTION_{statement['attribution'].upper()}",
    )


def _some(**fields: object) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
