"""Decides what a batch of writes does, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nomemory.server import wire
from nomemory.server.faults import Fault, Reason, Violation, bad_field
from nomemory.server.log.protocol import OnConflict, Outcome
from nomemory.server.message import Message

Key = tuple[str, str]
"""`(user_id, message_id)`: what identifies a message, whatever its version."""

CONFLICT = "exists with other content or fields"


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a message that the log holds."""

    ts_us: int
    sequence: int
    wire: bytes
    embedding: bytes | None


@dataclass(frozen=True, slots=True)
class Store:
    """A version that is to be written."""

    message: Message
    wire: bytes


@dataclass(slots=True)
class BatchPlan:
    """What is to be stored, which versions go, and the outcome of each message of the batch."""

    stores: dict[Key, Store] = field(default_factory=dict)
    removes: dict[Key, Version] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    covering: int = 0


def plan_batch(messages: Sequence[Message], existing: Mapping[Key, Version], on_conflict: OnConflict) -> BatchPlan:
    """Plan a batch against the versions that exist.

    Raises:
        Fault: MESSAGE_CONFLICT, naming every message whose id exists with other content.
    """
    plan = BatchPlan()
    for message in messages:
        plan.outcomes.append(_place(plan, message, existing, on_conflict))
    conflicts = [position for position, outcome in enumerate(plan.outcomes) if outcome is Outcome.CONFLICT]
    if conflicts and on_conflict is OnConflict.REFUSE:
        raise _conflict(conflicts)
    return plan


def _conflict(positions: Sequence[int]) -> Fault:
    violations = [Violation(f"messages[{position}].message_id", CONFLICT) for position in positions]
    return bad_field(Reason.ERROR_REASON_MESSAGE_CONFLICT, *violations)


def _place(plan: BatchPlan, message: Message, existing: Mapping[Key, Version], on_conflict: OnConflict) -> Outcome:
    key = (message.user_id, message.message_id)
    encoded = wire.encode(message)
    present = _present(plan, key, existing)
    if present == (encoded, message.embedding):
        plan.covering = max(plan.covering, existing[key].sequence if key in existing else 0)
        return Outcome.UNCHANGED
    if present is not None and on_conflict is not OnConflict.REPLACE:
        return Outcome.CONFLICT
    if key in existing:
        plan.removes[key] = existing[key]
    plan.stores[key] = Store(message, encoded)
    return Outcome.CREATED if present is None else Outcome.REPLACED


def _present(plan: BatchPlan, key: Key, existing: Mapping[Key, Version]) -> tuple[bytes, bytes | None] | None:
    if key in plan.stores:
        return plan.stores[key].wire, plan.stores[key].message.embedding
    if key in existing:
        return existing[key].wire, existing[key].embedding
    return None
