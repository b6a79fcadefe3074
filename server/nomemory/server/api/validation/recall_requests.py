"""Requests of the RecallService, checked once and turned into what the agent takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.recall.model.budget import Budget
from nomemory.recall.model.contract_roles import role_of
from nomemory.recall.model.question import Question, Turn
from nomemory.server.api.validation.checker import Checker, checking
from nomemory.server.message import ID_MAX_CHARS
from nomemory.server.runtime.settings import Settings
from nomemory.server.wire import MICROS
from nomemory.text.time_range import TimeRange
from nomemory.v1 import message_pb2
from nomemory.v1 import recall_service_pb2 as pb

TURNS_MAX: Final = 20
"""Maximum turns of a conversation in progress."""
_TURN_MAX_CHARS: Final = 4_000
"""Longest of these turns."""
_TURNS_MAX_CHARS: Final = 16_000
"""Maximum characters of all of them together."""

_NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A checked RecallRequest."""

    question: Question
    skill: str
    budget: Budget
    include_trace: bool
    at_least: str = ""


def decode_recall(
    request: pb.RecallRequest, settings: Settings, host: Budget, now: datetime, dimension: int | None
) -> RecallQuery:
    """Check a RecallRequest.

    Args:
        request: what was sent.
        settings: the limits.
        host: the host's budget, which the request may tighten; of evidence it may ask for more.
        now: the server's time, for requests that say none; aware.
        dimension: of the server's vectors; None where they are another server's.

    Raises:
        Fault: INVALID_FIELD.
    """
    with checking(settings) as check:
        text = check.text("question", request.question, most=settings.limits.max_query_chars)
        if not text.strip() and not request.context.turns:
            check.refuse("question", "must not be blank where context.turns is empty")
        question = replace(
            _question(check, text, request.context, now),
            embedding=_embedding(check, request, dimension),
            turns=decode_turns(check, "context.turns", request.context.turns),
        )
        skill = check.identifier("skill", request.skill, required=False)
        return RecallQuery(
            question, skill, _budget(check, request.budget, host), request.include_trace, request.at_least
        )


def _embedding(check: Checker, request: pb.RecallRequest, dimension: int | None) -> tuple[float, ...]:
    """Read the caller's own vector; one for another server's vectors is checked there."""
    if not request.HasField("question_embedding"):
        return ()
    if not request.question.strip():
        check.refuse("question_embedding", "needs a question that it is the vector of")
    values = request.question_embedding.values
    check.vector("question_embedding.values", values, len(values) if dimension is None else dimension)
    return tuple(values)


def _question(check: Checker, text: str, context: pb.RecallContext, now: datetime) -> Question:
    zone = decode_zone(check, "context.time_zone", context.time_zone)
    confined = message_pb2.Filter(
        time_range=context.time_range,
        conversation_id=context.conversation_id,
        exclude_conversation_ids=context.exclude_conversation_ids,
    )
    narrowed = check.narrowed("context", confined)
    asked_at = decode_now(check, "context.now", context.now if context.HasField("now") else None, zone, now)
    role = check.role("context.preferred_role", context.preferred_role, required=False)
    return Question(
        text,
        asked_at,
        TimeRange(_bound(narrowed.since_us), _bound(narrowed.until_us)) if context.HasField("time_range") else None,
        None if role is None else role_of(message_pb2.Role.ValueType(role)),
        conversation_id=narrowed.conversation_id,
        exclude_conversation_ids=narrowed.exclude_conversation_ids,
    )


def decode_turns(check: Checker, field: str, turns: Sequence[pb.Turn]) -> tuple[Turn, ...]:
    """Check the turns of a conversation in progress."""
    if len(turns) > TURNS_MAX:
        check.refuse(field, f"must have at most {TURNS_MAX} entries")
    if sum(len(turn.text) for turn in turns) > _TURNS_MAX_CHARS:
        check.refuse(field, f"must have at most {_TURNS_MAX_CHARS} characters in all")
    looked_at = enumerate(turns[:TURNS_MAX])
    return tuple(_turn(check, f"{field}[{position}]", turn) for position, turn in looked_at)


def _turn(check: Checker, field: str, turn: pb.Turn) -> Turn:
    role = check.role(f"{field}.role", turn.role, required=True)
    text = check.text(f"{field}.text", turn.text, most=_TURN_MAX_CHARS)
    if not text.strip():
        check.refuse(f"{field}.text", "must not be blank")
    return Turn(role_of(message_pb2.Role.ValueType(role or message_pb2.ROLE_UNSPECIFIED)), text)


def decode_now(check: Checker, field: str, sent: Timestamp | None, zone: tzinfo, now: datetime) -> datetime:
    """Check the time of a request in its zone; None: the server's time."""
    if sent is None:
        return now.astimezone(zone)
    try:
        return _moment(check.timestamp(field, sent)).astimezone(zone)
    except OverflowError:
        check.refuse(field, "is not between the years 1 and 9999 in that time zone")
        return now


def decode_zone(check: Checker, field: str, name: str) -> tzinfo:
    """Check the name of a time zone; empty: UTC."""
    try:
        return ZoneInfo(check.text(field, name, most=ID_MAX_CHARS) or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        check.refuse(field, "is not the name of a time zone")
        return UTC


def _budget(check: Checker, wanted: pb.RecallBudget, host: Budget) -> Budget:
    for field in ("iterations", "tool_calls", "evidence_messages"):
        if getattr(wanted, field) < 0:
            check.refuse(f"budget.{field}", "must not be negative")
    deadline_s = wanted.deadline.seconds + wanted.deadline.nanos / _NANOS
    if deadline_s < 0 or abs(wanted.deadline.nanos) >= _NANOS:
        check.refuse("budget.deadline", "must be a duration that is not negative")
    return host.tightened(
        iterations=max(0, wanted.iterations),
        tool_calls=max(0, wanted.tool_calls),
        evidence_messages=max(0, wanted.evidence_messages),
        deadline_s=max(0.0, deadline_s),
    )


def _bound(time_us: int | None) -> datetime | None:
    return None if time_us is None else _moment(time_us)


def _moment(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us // MICROS, UTC).replace(microsecond=time_us % MICROS)
