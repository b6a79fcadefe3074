"""Validation of RecallService requests, and their conversion to the types of `nomemory.recall`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.contract_roles import decode_role
from nomemory.recall.model.question import Question, Turn
from nomemory.server.api.validation.checker import FieldChecker, collect_violations
from nomemory.server.message import ID_MAX_CHARS
from nomemory.server.message_filter import Filter
from nomemory.server.runtime.settings import Settings
from nomemory.server.wire import MICROS
from nomemory.text.time_range import TimeRange
from nomemory.v1 import message_pb2
from nomemory.v1 import recall_service_pb2 as pb

TURNS_MAX: Final = 20
"""Maximum number of turns in the context of a question."""
_TURN_MAX_CHARS: Final = 4_000
"""Maximum length of one turn in characters."""
_TURNS_MAX_CHARS: Final = 16_000
"""Maximum length of all turns together in characters."""

_NANOS = 1_000_000_000

AnyRecallRequest: TypeAlias = pb.RecallRequest | pb.StreamRecallRequest


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A validated RecallRequest or StreamRecallRequest, converted to the types of the recall agent."""

    question: Question
    skill: str
    budget: Budget
    at_least: str = ""


def decode_recall(
    request: AnyRecallRequest, settings: Settings, host: Budget, now: datetime, dimension: int | None
) -> RecallQuery:
    """Validate a RecallRequest or a StreamRecallRequest.

    A request may lower the limits of the server's budget `host`, and may raise the maximum number of evidence
    messages. `now` is timezone-aware, and is used if the request does not set the current time. `dimension` is the
    dimension of the server's embeddings, or None if another server runs the searches.

    Raises:
        Fault: INVALID_FIELD.
    """
    with collect_violations(settings) as checker:
        text = checker.check_text("question", request.question, maximum=settings.limits.max_query_chars)
        if not text.strip() and not request.context.turns:
            checker.add_violation("question", "must not be blank if context.turns is empty")
        question = replace(
            _check_question(checker, text, request.context, now),
            embedding=_check_embedding(checker, request, dimension),
            turns=decode_turns(checker, "context.turns", request.context.turns),
        )
        skill = checker.check_identifier("skill", request.skill, required=False)
        return RecallQuery(question, skill, _check_budget(checker, request.budget, host), request.at_least)


def _check_embedding(checker: FieldChecker, request: AnyRecallRequest, dimension: int | None) -> tuple[float, ...]:
    """Validate the embedding of the question.

    If `dimension` is None, the server that runs the searches checks the length.
    """
    if not request.HasField("question_embedding"):
        return ()
    if not request.question.strip():
        checker.add_violation("question_embedding", "requires `question`")
    values = request.question_embedding.values
    checker.check_vector("question_embedding.values", values, len(values) if dimension is None else dimension)
    return tuple(values)


def _check_question(checker: FieldChecker, text: str, context: pb.RecallContext, now: datetime) -> Question:
    zone = decode_time_zone(checker, "context.time_zone", context.time_zone)
    context_filter = message_pb2.Filter(
        time_range=context.time_range,
        conversation_id=context.conversation_id,
        exclude_conversation_ids=context.exclude_conversation_ids,
    )
    message_filter = checker.check_filter("context", context_filter)
    question_time = decode_current_time(
        checker, "context.now", context.now if context.HasField("now") else None, zone, now
    )
    role = checker.check_role("context.preferred_role", context.preferred_role, required=False)
    return Question(
        text,
        question_time,
        _check_time_range(message_filter) if context.HasField("time_range") else None,
        None if role is None else decode_role(message_pb2.Role.ValueType(role)),
        conversation_id=message_filter.conversation_id,
        exclude_conversation_ids=message_filter.exclude_conversation_ids,
    )


def decode_turns(checker: FieldChecker, field: str, turns: Sequence[pb.Turn]) -> tuple[Turn, ...]:
    """Validate the turns of the current conversation in a request."""
    if len(turns) > TURNS_MAX:
        checker.add_violation(field, f"must have at most {TURNS_MAX} entries, got {len(turns)}")
    if sum(len(turn.text) for turn in turns) > _TURNS_MAX_CHARS:
        checker.add_violation(field, f"must have at most {_TURNS_MAX_CHARS} characters in total")
    return tuple(_check_turn(checker, f"{field}[{index}]", turn) for index, turn in enumerate(turns[:TURNS_MAX]))


def _check_turn(checker: FieldChecker, field: str, turn: pb.Turn) -> Turn:
    role = checker.check_role(f"{field}.role", turn.role, required=True)
    text = checker.check_text(f"{field}.text", turn.text, maximum=_TURN_MAX_CHARS)
    if not text.strip():
        checker.add_violation(f"{field}.text", "must not be blank")
    return Turn(decode_role(message_pb2.Role.ValueType(role or message_pb2.ROLE_UNSPECIFIED)), text)


def decode_current_time(
    checker: FieldChecker, field: str, sent: Timestamp | None, zone: tzinfo, now: datetime
) -> datetime:
    """Return the current time that a request sets, or else `now`, in the request's time zone."""
    if sent is None:
        return now.astimezone(zone)
    try:
        return _to_datetime(checker.check_timestamp(field, sent)).astimezone(zone)
    except OverflowError:
        checker.add_violation(field, "must be between the years 1 and 9999 in the time zone")
        return now


def decode_time_zone(checker: FieldChecker, field: str, name: str) -> tzinfo:
    """Return the time zone with an IANA name, or UTC if the name is empty."""
    try:
        return ZoneInfo(checker.check_text(field, name, maximum=ID_MAX_CHARS) or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        checker.add_violation(field, "must be the name of an IANA time zone, such as Europe/Berlin")
        return UTC


def _check_budget(checker: FieldChecker, requested: pb.RecallBudget, host: Budget) -> Budget:
    for field in ("max_iterations", "max_tool_calls", "max_evidence_messages"):
        if getattr(requested, field) < 0:
            checker.add_violation(f"budget.{field}", "must not be negative")
    deadline_s = requested.timeout.seconds + requested.timeout.nanos / _NANOS
    if deadline_s < 0 or abs(requested.timeout.nanos) >= _NANOS:
        checker.add_violation("budget.timeout", "must be a valid duration that is not negative")
    return host.apply_request_limits(
        iterations=max(0, requested.max_iterations),
        tool_calls=max(0, requested.max_tool_calls),
        evidence_messages=max(0, requested.max_evidence_messages),
        deadline_s=max(0.0, deadline_s),
    )


def _check_time_range(message_filter: Filter) -> TimeRange:
    since_us, until_us = message_filter.since_us, message_filter.until_us
    return TimeRange(
        None if since_us is None else _to_datetime(since_us), None if until_us is None else _to_datetime(until_us)
    )


def _to_datetime(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us // MICROS, UTC).replace(microsecond=time_us % MICROS)
